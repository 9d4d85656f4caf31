"""Which of our versions torchao's `_version` numbers stand for."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import attrs
from attrs import NOTHING, frozen

from qconfig.errors import FieldError, NewerVersionError, UnknownNameError, shown
from qconfig.versioning import Entry, registry


@frozen
class Form:
    """One of our versions that torchao wrote.

    Args:
        version: our version.
        wire: the `_version` numbers under which torchao wrote that set of fields, ascending.
    """

    version: int
    wire: tuple[int, ...]


DTYPE = "torch.dtype"
"""The `_type` of a dtype."""

FORMS: Mapping[str, tuple[Form, ...]] = {
    "FqnToConfig": (Form(1, (1,)),),
    "Int8WeightOnlyConfig": (Form(1, (1,)), Form(2, (1, 2))),
}
"""The forms of each config that torchao has, oldest first; the last is what torchao 0.18 reads."""

ALIASES: Mapping[str, str] = {
    "AOPerModuleConfig": "FqnToConfig",
    "ModuleFqnToConfig": "FqnToConfig",
}
"""Earlier names of torchao's."""

FIELD_ALIASES: Mapping[str, Mapping[str, str]] = {
    "FqnToConfig": {"module_fqn_to_config": "fqn_to_config"},
}
"""Earlier names of fields, by config; torchao 0.15 and later write both, with one value."""


def name_of(wire_name: Any) -> str:
    """Return the registered name for torchao's.

    Raises:
        UnknownNameError: torchao has no such config, or qconfig does not read it yet.
    """
    name = ALIASES.get(wire_name, wire_name) if isinstance(wire_name, str) else None
    if name not in FORMS:
        known = [*FORMS, *ALIASES]
        raise UnknownNameError(
            "unknown torchao config",
            pointer="/_type",
            found=wire_name,
            expected="one of " + ", ".join(sorted(known)),
            hint=_near_name(str(wire_name), known),
        )
    return str(name)


def _near_name(wire_name: str, known: list[str]) -> str | None:
    # Names of torchao's differ by one character (Int4…, Int8…), so that only a slip is close.
    close = get_close_matches(wire_name.rpartition(".")[2], known, n=1, cutoff=0.96)
    return f"did you mean {close[0]!r}?" if close else None


def entry_for(name: str, wire_version: Any, keys: Iterable[str]) -> Entry:
    """Return the version of a config that torchao wrote with these keys.

    Args:
        name: the registered name.
        wire_version: torchao's `_version`; None where the document has none.
        keys: keys of `_data`, by the names of today.

    Raises:
        NewerVersionError: a `_version` that this release does not know yet.
        FieldError: a `_version` that is no integer or never was.
    """
    forms = FORMS[name]
    numbers = sorted({number for form in forms for number in form.wire})
    supported = f"{name} _version {numbers[0]} to {numbers[-1]}"
    if wire_version is not None and type(wire_version) is not int:
        raise FieldError(
            "_version must be an integer",
            pointer="/_version",
            found=wire_version,
            expected=supported,
        )
    if wire_version is not None and wire_version not in numbers:
        is_newer = wire_version > numbers[-1]
        message = f"{name} _version {shown(wire_version)} is newer than this qconfig"
        raise (NewerVersionError if is_newer else FieldError)(
            message if is_newer else "unknown _version",
            pointer="/_version",
            found=wire_version,
            expected=supported,
            hint="upgrade qconfig" if is_newer else None,
        )
    entries = [
        registry.get(name, form.version)
        for form in forms
        if wire_version is None or wire_version in form.wire
    ]
    return max(entries, key=lambda entry: (_fit(entry, set(keys)), entry.version))


def _fit(entry: Entry, keys: set[str]) -> int:
    """Return 2 for exactly these keys, 1 for keys that the version can have, else 0."""
    fields = attrs.fields(entry.cls)
    names = {field.name for field in fields}
    required = {field.name for field in fields if field.default is NOTHING}
    return 2 if keys == names else int(required <= keys <= names)
