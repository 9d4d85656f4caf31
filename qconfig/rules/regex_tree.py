"""Regular expressions as small trees, which the lint and the index of the matcher read.

This is the only module that knows the parser inside `re`, which Python does not document: its
operators (the same from 3.11 to 3.14) become a handful of nodes of our own here. A set of
characters is a bit mask over the code points below 256 and one bit for all others; where a set
cannot be told exactly, the mask is larger than the set, never smaller.
"""

import re
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from attrs import frozen

from qconfig.errors import RuleError
from qconfig.limits import current_limits

OTHER = 1 << 256
ALL = (1 << 257) - 1
DOT = 1 << ord(".")


@frozen
class Chars:
    """One character of a set; `text` if only that very character will do."""

    mask: int
    text: str | None = None


@frozen
class Repeat:
    """`body` at least `least` and at most `most` times, None for any number."""

    body: "Nodes"
    least: int
    most: int | None
    possessive: bool


@frozen
class Choice:
    """One of several alternatives."""

    options: "tuple[Nodes, ...]"


@frozen
class Aside:
    """A part that is matched without being taken back: a lookaround, or an atomic group."""

    body: "Nodes"
    takes: bool


@frozen
class Backreference:
    """What an earlier group matched, once more."""


Node = Chars | Repeat | Choice | Aside | Backreference
Nodes = tuple[Node, ...]


# Where Python may see a nested set or a set operation, of which it warns as a change to come.
_DOUBTFUL = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*?(?:\[|--|&&|~~|\|\|)")


def compile_regex(pattern: str) -> re.Pattern[str]:
    """Return the compiled regular expression.

    Raises:
        RuleError: not a regular expression, or one whose meaning Python is about to change.
    """
    # Without a bound of ours, how deep groups may be nested would depend on the stack at hand.
    if pattern.count("(") > current_limits().pattern_groups:
        raise _too_deep(pattern)
    try:
        if not _DOUBTFUL.search(pattern):
            return re.compile(pattern)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(pattern)
    except re.error as error:
        raise RuleError(
            f"not a regular expression: {error.msg}",
            found=pattern,
            expected="the syntax of Python's re module",
            hint=None if error.pos is None else f"look at character {error.pos + 1}",
        ) from None
    except FutureWarning as warning:
        raise RuleError(
            f"a regular expression whose meaning will change: {warning}",
            found=pattern,
            hint="escape the character with a backslash",
        ) from None
    except (RecursionError, OverflowError):
        raise _too_deep(pattern) from None


def parse(pattern: str) -> Nodes:
    """Return the tree of a regular expression; capturing groups are dissolved into it.

    Raises:
        RuleError: as for `compile_regex`.
    """
    compile_regex(pattern)
    try:
        tree: Any = re._parser.parse(pattern)  # type: ignore[attr-defined]  # noqa: SLF001
        return _nodes(tree, tree.state.flags)
    except RecursionError:
        raise _too_deep(pattern) from None


def _too_deep(pattern: str) -> RuleError:
    return RuleError(
        "a regular expression too deep or with too large a number",
        found=pattern,
        expected=f"groups: {current_limits().describe('pattern_groups')}; repeats below 2**32",
    )


def _nodes(items: Any, flags: int) -> Nodes:
    nodes: list[Node] = []
    for operator, value in items:
        name = str(operator)
        if name in _SINGLE:
            nodes.append(_SINGLE[name](value, flags))
        elif name == "SUBPATTERN":
            nodes += _nodes(value[3], (flags | value[1]) & ~value[2])
        elif name != "AT":
            nodes.append(_compound(name, value, flags))
    return tuple(nodes)


def _compound(name: str, value: Any, flags: int) -> Node:
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, most, body = value
        unbounded = most is re._constants.MAXREPEAT  # type: ignore[attr-defined]  # noqa: SLF001
        possessive = name == "POSSESSIVE_REPEAT"
        return Repeat(_nodes(body, flags), least, None if unbounded else most, possessive)
    if name == "BRANCH":
        return Choice(tuple(_nodes(option, flags) for option in value[1]))
    if name == "GROUPREF_EXISTS":
        return Choice((_nodes(value[1], flags), _nodes(value[2] or (), flags)))
    if name in ("ASSERT", "ASSERT_NOT"):
        return Aside(_nodes(value[1], flags), takes=False)
    if name == "ATOMIC_GROUP":
        return Aside(_nodes(value, flags), takes=True)
    if name == "GROUPREF":
        return Backreference()
    raise RuleError(f"a construct that rules do not have: {name.lower()}")


def _literal(code: int, flags: int) -> Chars:
    return _folded(code) if flags & re.IGNORECASE else _exactly(code)


@lru_cache(maxsize=1024)
def _exactly(code: int) -> Chars:
    return Chars(_bit(code), chr(code))


def _folded(code: int) -> Chars:
    """The character in either case; other scripts have letters that fold to ours."""
    both = (chr(code).lower(), chr(code).upper())
    return Chars(OTHER | _bit(code) | sum({_bit(ord(c)) for c in both if len(c) == 1}))


def _bit(code: int) -> int:
    return 1 << code if code < 256 else OTHER


def _set(items: Any, flags: int) -> Chars:
    negated = bool(items) and str(items[0][0]) == "NEGATE"
    largest, smallest = 0, 0
    for operator, value in items[negated:]:
        match str(operator):
            case "LITERAL":
                largest |= _literal(value, flags).mask
                smallest |= _bit(value)
            case "RANGE":
                codes = range(value[0], min(value[1], 255) + 1)
                span = sum(1 << code for code in codes) | (OTHER if value[1] > 255 else 0)
                largest |= ALL if flags & re.IGNORECASE else span
                smallest |= span
            case "CATEGORY":
                large, small = _CATEGORIES[str(value)]
                largest |= large
                smallest |= small
    return Chars(ALL & ~smallest | OTHER if negated else largest)


def _where(test: Callable[[str], bool], stop: int) -> int:
    return sum(1 << code for code in range(stop) if test(chr(code)))


def _category(test: Callable[[str], bool]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (largest, smallest) masks of a category and of its opposite, with re.ASCII or not."""
    wide, ascii_only = _where(test, 256) | OTHER, _where(test, 128)
    return (wide, ascii_only), (ALL & ~ascii_only, ALL & ~wide)


_DIGIT, _NOT_DIGIT = _category(str.isdecimal)
_SPACE, _NOT_SPACE = _category(str.isspace)
_WORD, _NOT_WORD = _category(lambda c: c.isalnum() or c == "_")
_CATEGORIES = {
    "CATEGORY_DIGIT": _DIGIT,
    "CATEGORY_NOT_DIGIT": _NOT_DIGIT,
    "CATEGORY_SPACE": _SPACE,
    "CATEGORY_NOT_SPACE": _NOT_SPACE,
    "CATEGORY_WORD": _WORD,
    "CATEGORY_NOT_WORD": _NOT_WORD,
}
_SINGLE: dict[str, Callable[[Any, int], Chars]] = {
    "LITERAL": _literal,
    "NOT_LITERAL": lambda code, _: Chars(ALL & ~_bit(code) | OTHER),
    "ANY": lambda _, __: Chars(ALL),
    "IN": _set,
    "FAILURE": lambda _, __: Chars(0),
}


def first(nodes: Nodes) -> tuple[int, bool]:
    """Return the characters that a match may start with, and whether it may be empty."""
    mask = 0
    for node in nodes:
        starts, empty = _first(node)
        mask |= starts
        if not empty:
            return mask, False
    return mask, True


def _first(node: Node) -> tuple[int, bool]:
    match node:
        case Chars():
            return node.mask, False
        case Repeat():
            mask, empty = first(node.body)
            return mask, empty or node.least == 0
        case Choice():
            firsts = [first(option) for option in node.options]
            mask = 0
            for starts, _ in firsts:
                mask |= starts
            return mask, any(empty for _, empty in firsts)
        case Aside():
            return first(node.body) if node.takes else (0, True)
        case Backreference():
            return ALL, True
