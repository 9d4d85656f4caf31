"""Refuse, when a document is read, patterns that cannot be compiled or that can run away."""

import re
from functools import lru_cache

from qconfig.configs.fqn_to_config import FqnToConfig
from qconfig.errors import QconfigError, RuleError, shown
from qconfig.limits import Limits, current_limits, use_limits
from qconfig.rules.patterns import expression, is_exact
from qconfig.rules.regex_tree import parse
from qconfig.rules.runaway import check_backtracking

_HEAD_END = re.compile(r"[(\[{]")
# A name between dots, or after the last one, that no repeat follows.
_NAME = re.compile(r"(?<=\.)[A-Za-z0-9_]+(?![A-Za-z0-9_*+?{])")
# Expressions whose alternatives, if any, all stand in groups without further structure.
_GROUPED = re.compile(r"(?:[^|()\[\\]|\\.|\((?:\?:)?[^()\[\\?]*\))*", re.DOTALL)


def lint(pattern: str) -> None:
    """Check a regular expression, without the prefix `re:`.

    Raises:
        RuleError: it cannot be compiled or can run away.
    """
    try:
        check_backtracking(parse(pattern))
    except RuleError as error:
        error.found = error.found or shown(pattern)
        raise


def skeleton(pattern: str) -> str:
    """Return an expression with the same verdict, the same one for many patterns.

    A config that lists its layers one by one has thousands of patterns and few skeletons; linting
    each would take 0.2 ms.

    Names after a dot become `x`, up to the first group, set or count. The verdict depends on a
    character only through what precedes it: a repeat that could take it, or a choice of which it
    starts an alternative. A dot, escaped or not, is one character that has to be there, and shields
    the name from both. Where alternatives stand outside of groups the pattern is kept.
    """
    if "|" in pattern and not _GROUPED.fullmatch(pattern):
        return pattern
    end = _HEAD_END.search(pattern)
    if end is None:
        return _NAME.sub("x", pattern)
    cut = end.end()
    return _NAME.sub("x", pattern[:cut]) + pattern[cut:]


@lru_cache(maxsize=4096)
def _passes(pattern: str, limits: Limits) -> bool:
    # Limits are part of the key: a verdict holds for those that it was found under.
    try:
        with use_limits(limits):
            lint(pattern)
    except RuleError:
        return False
    return True


def check_pattern(match: str) -> None:
    """Check the `match` of a rule: a name, a glob, or `re:` and a regular expression.

    Raises:
        RuleError: it cannot be compiled, or can run away.
    """
    if is_exact(match):
        return
    pattern = expression(match)
    if not _passes(skeleton(pattern), current_limits()):
        lint(pattern)


def check_rules(config: FqnToConfig) -> list[QconfigError]:
    """Return the problems of all patterns and fused groups, each with its JSON pointer.

    Those of a pattern have the pointer `/rules/<i>/match`.
    """
    problems: list[QconfigError] = []
    for i, rule in enumerate(config.rules):
        try:
            check_pattern(rule.match)
        except RuleError as error:
            problems.append(error.at(pointer_prefix=f"/rules/{i}/match"))
    return problems + _check_fused(config)


def _check_fused(config: FqnToConfig) -> list[QconfigError]:
    problems: list[QconfigError] = []
    group_of: dict[str, int] = {}
    for i, group in enumerate(config.fused):
        for member in group:
            other = group_of.setdefault(member, i)
            if other != i or "." in member:
                problems.append(
                    RuleError(
                        "not a member that a fused group can have",
                        pointer=f"/fused/{i}",
                        found=member,
                        expected="the last segment of a module's name, in one group only",
                    )
                )
    return problems
