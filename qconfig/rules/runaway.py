"""How much a regular expression may backtrack on a name that it does not match.

Python's `re` backtracks: where a text can be read in several ways, it tries them all. A repeat or
a choice is *open* here if what follows it can start with a character that it could take itself;
only open ones are tried in several ways. An open one inside an unbounded repeat costs time
exponential in the length of the name and is refused, as is, for a rule that one can remember, any
unbounded repeat inside another. Elsewhere each open unbounded repeat multiplies the time by the
length of the name, which may happen three times: 2 ms for a name of 200 characters. A repeat that
crosses dots (`.*`) always counts as open.
"""

from math import ceil, log2

from attrs import evolve, frozen

from qconfig.errors import RuleError
from qconfig.limits import current_limits
from qconfig.rules.regex_tree import DOT, Aside, Backreference, Chars, Choice, Nodes, Repeat, first

# Cost is counted in doublings: an open repeat counts as the 128 characters of a long name.
_REPEAT_COST = 7
# A bounded repeat of more than this is as good as an unbounded one.
_MANY = 16
_SIMPLER = "name more of the path, or write several rules: the first that matches wins"


@frozen
class _Place:
    """Where a node stands: within an unbounded repeat or not, and how often it may occur."""

    loop: bool = False
    times: int = 1


def check_backtracking(nodes: Nodes) -> None:
    """Check that matching a whole name takes time at most cubic in its length.

    Raises:
        RuleError: it may take longer.
    """
    _sequence(nodes, 0, _Place(), 0)


def _sequence(nodes: Nodes, after: int, place: _Place, spent: int) -> int:
    """Return the cost of `nodes` on top of `spent`; `after` holds what may come next."""
    follows = []
    for node in reversed(nodes):
        follows.append(after)
        starts, empty = first((node,))
        after = starts | after if empty else starts
    for node, follow in zip(nodes, reversed(follows), strict=True):
        match node:
            case Repeat():
                spent = _repeat(node, follow, place, spent)
            case Choice():
                spent = _choice(node, follow, place, spent)
            case Aside():
                # Nothing comes back into it, so its ways do not multiply with those that follow.
                _sequence(node.body, 0, place, spent)
            case Backreference() if place.loop:
                raise RuleError("a backreference inside a repeat can run away", hint=_SIMPLER)
            case _:
                pass
    return spent


def _repeat(node: Repeat, after: int, place: _Place, spent: int) -> int:
    starts, _ = first(node.body)
    many = node.most is None or node.most > _MANY
    if many and place.loop:
        raise RuleError(
            "an unbounded repeat inside an unbounded repeat can run away",
            hint="one .* says the same as a repeated group of them",
        )
    plain = len(node.body) == 1 and isinstance(node.body[0], Chars)
    again = after if node.most == 1 else after | starts
    inner = evolve(place, loop=place.loop or (many and not plain))
    if not many and node.most:
        inner = evolve(inner, times=place.times * node.most)
    spent = _sequence(node.body, again, inner, spent)
    if node.least == node.most or node.possessive:
        return spent
    crosses = many and bool(starts & DOT)
    if not crosses and not starts & after:
        return spent
    if many:
        return _pay(spent, _REPEAT_COST * place.times)
    ways = (node.most or 1) - node.least + 1
    return _open(place, spent, ways)


def _choice(node: Choice, after: int, place: _Place, spent: int) -> int:
    dearest = spent
    firsts = []
    for option in node.options:
        dearest = max(dearest, _sequence(option, after, place, spent))
        starts, empty = first(option)
        firsts.append(starts | after if empty else starts)
    seen, overlapping = 0, 0
    for starts in firsts:
        overlapping += bool(starts & seen)
        seen |= starts
    return _open(place, dearest, overlapping + 1) if overlapping else dearest


def _open(place: _Place, spent: int, ways: int) -> int:
    """Pay for something bounded that can be read in `ways` ways. Raises RuleError in a loop."""
    if place.loop:
        raise RuleError(
            "a repeat over parts that can read the same text in two ways can run away",
            hint="let the alternatives start with different characters",
        )
    return _pay(spent, ceil(log2(ways)) * place.times)


def _pay(spent: int, cost: int) -> int:
    limits = current_limits()
    if spent + cost > limits.pattern_cost:
        raise RuleError(
            "more than three unbounded repeats that can read the same text can run away",
            expected=f"doublings of the time: {limits.describe('pattern_cost')}",
            hint=_SIMPLER,
        )
    return spent + cost
