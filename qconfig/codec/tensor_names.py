"""What a tensor may be called in a file.

Any text is a name, the empty one too, as long as it cannot steer a terminal, hide what it says or
pass for another name. A name is never used as a path.
"""

import unicodedata
from collections.abc import Collection

from qconfig.errors import ContainerError
from qconfig.limits import Limits

# Controls, formats (bidi overrides, zero-width marks), half surrogates, line and paragraph ends.
_REFUSED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def check_name(name: str, limits: Limits, *, what: str = "tensor name") -> None:
    """Refuse a name that is too long or has invisible or steering characters.

    Raises:
        ContainerError: such a name; the error writes its characters as escapes.
    """
    size = len(name) if name.isascii() else len(name.encode("utf-8", "surrogatepass"))
    if size > limits.name_bytes:
        raise ContainerError(
            f"a {what} is too long",
            found=f"{size} bytes, from {name[:40]!r} on",
            expected=f"bytes: {limits.describe('name_bytes')}",
        )
    if name.isprintable():
        return
    bad = sorted({f"U+{ord(c):04X}" for c in name if unicodedata.category(c) in _REFUSED})
    if bad:
        raise ContainerError(
            f"a {what} has control or invisible characters",
            fqn=name,
            found=", ".join(bad),
            expected="characters that are seen when printed",
            hint="rename the tensor in the program that wrote the file",
        )


def check_twins(names: Collection[str]) -> None:
    """Refuse names that differ only in how Unicode composes their characters (NFC and NFD).

    Args:
        names: distinct names, such as the keys of a dict.

    Raises:
        ContainerError: two of the names look the same.
    """
    if all(map(str.isascii, names)):
        return
    composed: dict[str, str] = {}
    for name in names:
        form = unicodedata.normalize("NFC", name)
        twin = composed.setdefault(form, name)
        if twin != name:
            raise ContainerError(
                f"the tensor names {twin!a} and {name!a} differ only in their Unicode normal form",
                fqn=name,
                expected="names that are distinct when read",
                hint="rename one of the two in the program that wrote the file",
            )
