"""Patterns over fully qualified names: exact names, segment-wise globs, regular expressions."""

import re
from collections.abc import Callable
from functools import lru_cache

from qconfig.rules.regex_tree import compile_regex

_REGEX = "re:"


def is_exact(match: str) -> bool:
    """Return whether `match` is a plain name, neither glob nor regular expression."""
    return not match.startswith(_REGEX) and "*" not in match


@lru_cache(maxsize=4096)
def glob_to_regex(glob: str) -> str:
    """Return the regular expression of a glob: `*` stays within one segment, `**` crosses them."""
    parts = re.split(r"(\*\*|\*)", glob)
    return "".join({"**": ".*", "*": r"[^.]*"}.get(p, re.escape(p)) for p in parts)


def expression(match: str) -> str:
    """Return the regular expression that stands for `match`, without the prefix `re:`."""
    if match.startswith(_REGEX):
        return match[len(_REGEX) :]
    return re.escape(match) if is_exact(match) else glob_to_regex(match)


def compile_pattern(match: str) -> Callable[[str], object]:
    """Return a function that gives something true for a name which `match` matches as a whole.

    Args:
        match: an exact name, a glob, or `re:` and a regular expression.

    Raises:
        RuleError: not a regular expression; the hint names the character.
    """
    if is_exact(match):
        return match.__eq__
    return compile_regex(expression(match)).fullmatch
