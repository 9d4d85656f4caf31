"""Which names the caller's patterns select."""

from collections.abc import Iterable, Mapping

from qconfig.rules.patterns import compile_pattern


def selects(patterns: Iterable[str], *names: str) -> bool:
    """Return whether a pattern matches one of the names of a thing.

    Raises:
        RuleError: a pattern that cannot be compiled, or that can run away.
    """
    return any(compile_pattern(pattern)(name) for pattern in patterns for name in names)


def first_word(words: Mapping[str, str], *names: str) -> str | None:
    """Return the word of the first pattern that matches one of the names of a thing, or None.

    Raises:
        RuleError: a pattern that cannot be compiled, or that can run away.
    """
    for pattern, word in words.items():
        if selects((pattern,), *names):
            return word
    return None
