r"""Regular expressions of the plain kind that lists of layers have, read without a parser.

`model\.layers\.7\.mlp\.(gate|up)_proj` is text and alternatives; in `.*\.layers\.7\..*norm` some
parts are open. A config may have tens of thousands of these, and Python takes 0.2 ms to compile
one. What is of another kind is left to the parser.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

MOST_TEXTS = 128
"""Most texts that are written out for the alternatives of an expression."""

_TOKEN = re.compile(
    r"(?P<text>(?:[A-Za-z0-9_-]|\\[.-])+)"
    r"|\((?:\?:)?(?P<choice>[A-Za-z0-9_-]+(?:\|[A-Za-z0-9_-]+)*)\)"
    r"|\[(?P<set>[A-Za-z0-9_]+)\]"
    r"|(?P<open>(?:\.|\\[dw]|\[\^\\?\.\]|\[0-9\])(?:[*+]\??)?)"
)


@lru_cache(maxsize=4096)
def plain_parts(pattern: str) -> tuple[tuple[str, ...] | None, ...] | None:
    """Return the parts of an expression that names are matched with as a whole.

    Args:
        pattern: without the prefix `re:`.

    Returns:
        For each part the texts that it may be, or None if it is open or they are many; None for an
        expression that is not of the plain kind.
    """
    position, end = int(pattern.startswith("^")), len(pattern)
    if pattern.endswith("$") and not pattern.endswith("\\$"):
        end -= 1
    parts: list[tuple[str, ...] | None] = []
    while position < end:
        token = _TOKEN.match(pattern, position, end)
        if token is None:
            return None
        parts.append(_texts(token))
        position = token.end()
    return tuple(parts)


def plain_texts(pattern: str) -> list[str] | None:
    """Return all names that an expression matches as a whole, or None if they are not few.

    Args:
        pattern: without the prefix `re:`.
    """
    parts = plain_parts(pattern)
    return None if parts is None else _product(parts)


def plain_prefix(pattern: str) -> str:
    """Return the whole segments, with the dot after each, that all names start with; "" if unknown.

    Args:
        pattern: without the prefix `re:`.
    """
    start = ""
    for texts in plain_parts(pattern) or ():
        if texts is None or len(texts) > 1:
            break
        start += texts[0]
    return start[: start.rfind(".") + 1]


def _texts(token: re.Match[str]) -> tuple[str, ...] | None:
    text, choice, characters = token.group("text", "choice", "set")
    if text is not None:
        return (text.replace("\\", ""),)
    if choice is not None:
        texts = tuple(dict.fromkeys(choice.split("|")))
        return texts if len(texts) <= MOST_TEXTS else None
    return None if characters is None else tuple(dict.fromkeys(characters))


def _product(parts: Sequence[tuple[str, ...] | None]) -> list[str] | None:
    names = [""]
    for texts in parts:
        if texts is None or len(names) * len(texts) > MOST_TEXTS:
            return None
        names = [name + text for name in names for text in texts]
    return list(dict.fromkeys(names))
