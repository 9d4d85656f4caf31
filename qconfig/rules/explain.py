"""Say for one target which rule wins, and of every other rule why it does not."""

from enum import StrEnum
from typing import Any

from attrs import frozen

from qconfig.builders.base import Target
from qconfig.configs.fqn_to_config import FqnToConfig, Rule
from qconfig.errors import printable
from qconfig.rules.assignment import Decision, How
from qconfig.rules.matcher import RuleSet


class Outcome(StrEnum):
    """What became of a rule, or of the default, for one target."""

    WON = "won"
    LOST = "lost"
    NO_MATCH = "no_match"
    OTHER_CLASS = "other_class"


@frozen
class Line:
    """One rule's part in an explanation.

    Args:
        rule: its number; None for the default.
        match: what it matches, as written; "default" for the default.
        config: name of the config that it would give, or None.
        outcome: what became of it.
        reason: the same in words.
    """

    rule: int | None
    match: str
    config: str | None
    outcome: Outcome
    reason: str


@frozen
class Explanation:
    """Why a target gets its config."""

    target: Target
    decision: Decision
    lines: tuple[Line, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain data."""
        decision = self.decision
        return {
            "fqn": self.target.fqn,
            "module_classes": list(self.target.module_classes),
            "rule": decision.rule,
            "how": decision.how.value,
            "config": decision.config,
            "rules": [
                {
                    "rule": line.rule,
                    "match": line.match,
                    "config": line.config,
                    "outcome": line.outcome.value,
                    "reason": line.reason,
                }
                for line in self.lines
            ],
        }

    def __str__(self) -> str:
        """One line for the target, one for every rule."""
        rows = [f"{self.target.fqn}: {_verdict(self.decision)}"]
        for line in self.lines:
            name = line.match if line.rule is None else f"rule {line.rule} {line.match}"
            rows.append(f"  {name} -> {line.config or 'skip'}: {line.reason}")
        return "\n".join(map(printable, rows))


def explain(config: FqnToConfig, target: Target) -> Explanation:
    """Return which rule wins a target, and why each of the others does not.

    Raises:
        RuleError: a pattern that cannot be used, or a name too long to be matched.
    """
    rules = RuleSet(config)
    decision = rules.assign([target]).decisions[0]
    lines = [_line(rules, i, rule, target, decision) for i, rule in enumerate(config.rules)]
    if config.default is not None:
        lines.append(_default(rules, config.default, target, decision))
    return Explanation(target, decision, tuple(lines))


def _line(rules: RuleSet, number: int, rule: Rule, target: Target, decision: Decision) -> Line:
    names = {"parameter": target.fqn, "module": target.module}
    matched = [kind for kind, name in names.items() if rules.matches(number, name)]
    if not matched:
        outcome, reason = Outcome.NO_MATCH, "does not match"
    elif not rules.applies(number, target):
        outcome = Outcome.OTHER_CLASS
        reason = f"is for {' or '.join(rule.modules)}, not for {_class_of(target)}"
    elif number == decision.rule:
        outcome = Outcome.WON
        reason = f"won by the {decision.how.value.replace('_', ' ')}"
    else:
        outcome = Outcome.LOST
        reason = f"matches the {' and the '.join(matched)}, lost to rule {decision.rule}"
    return Line(number, rule.match, rule.use, outcome, reason)


def _default(rules: RuleSet, config: str, target: Target, decision: Decision) -> Line:
    if decision.how is How.DEFAULT:
        outcome, reason = Outcome.WON, "won, since no rule applies"
    elif decision.rule is not None:
        outcome, reason = Outcome.LOST, f"lost to rule {decision.rule}"
    else:
        outcome = Outcome.OTHER_CLASS
        classes = " or ".join(rules.config.default_modules) or "no class"
        reason = f"is for {classes}, not for {_class_of(target)}"
    return Line(None, "default", config, outcome, reason)


def _class_of(target: Target) -> str:
    return target.module_classes[0] if target.module_classes else "a module of unknown class"


def _verdict(decision: Decision) -> str:
    if decision.how is How.NONE:
        return "left alone, no rule applies"
    by = "by default" if decision.rule is None else f"by rule {decision.rule}"
    return f"skipped {by}" if decision.config is None else f"gets {decision.config} {by}"
