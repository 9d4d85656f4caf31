"""Patterns over fully qualified names: exact names, segment-wise globs, regular expressions."""

import re
from collections.abc import Callable
from functools import lru_cache

from attrs import frozen

from qconfig.errors import RuleError
from qconfig.rules.regex_tree import compile_regex

MAX_PATTERN = 1000
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


@frozen
class Pattern:
    """A compiled `match` of a rule.

    Args:
        match: as written in the rule.
        fullmatch: returns something true for a name that matches as a whole.
    """

    match: str
    fullmatch: Callable[[str], object]

    @property
    def is_exact(self) -> bool:
        """Whether it is a plain name."""
        return is_exact(self.match)


def compile_pattern(match: str, pointer: str | None = None) -> Pattern:
    """Compile the `match` of a rule.

    Args:
        match: an exact name, a glob, or `re:` and a regular expression.
        pointer: JSON pointer of the text, for the error.

    Raises:
        RuleError: too long, or not a regular expression; the hint names the character.
    """
    check_length(match, pointer)
    if is_exact(match):
        return Pattern(match, match.__eq__)
    try:
        return Pattern(match, compile_regex(expression(match)).fullmatch)
    except RuleError as error:
        raise error.at(pointer_prefix=pointer) from None


def check_length(match: str, pointer: str | None = None) -> None:
    """Raise RuleError if a pattern is longer than rules may be."""
    if len(match) > MAX_PATTERN:
        raise RuleError(
            "pattern is too long",
            pointer=pointer,
            found=match,
            expected=f"at most {MAX_PATTERN} characters",
            hint="split it into several rules",
        )
