"""What is wrong between rules and parameters once builders have said what they serve."""

from collections.abc import Sequence

from attrs import evolve, frozen

from qconfig.builders.base import ModuleTarget
from qconfig.configs.fqn_to_config import FqnToConfig, Rule
from qconfig.engine.config_builders import ConfigBuilders, PlannedLayout
from qconfig.engine.name_hints import NameHints
from qconfig.errors import PlanError, QconfigError, shown
from qconfig.rules.assignment import Assignment, Decision, How

# A hint compares a rule with all names; beyond this many rules it would cost more than it tells.
_MOST_HINTS = 20


@frozen
class Treatment:
    """What a builder makes of a target.

    Args:
        config: name of the config that serves it, or None if it is left alone.
        reason: why, in words.
        layout: what comes out, or None.
        refused: whether a config reached it and its builder refused.
    """

    config: str | None
    reason: str
    layout: PlannedLayout | None = None
    refused: bool = False


def check_configs_used(rules: FqnToConfig) -> list[QconfigError]:
    """Return a problem if there are configs, and neither rules nor a default."""
    if not rules.configs or rules.rules or rules.default is not None:
        return []
    name = next(iter(rules.configs))
    return [
        PlanError(
            "no rule uses a config, so nothing would be quantized",
            pointer="/rules",
            found=", ".join(map(repr, rules.configs)),
            expected="a rule or a default that names one of the configs",
            hint=f"add a rule such as {{'match': 'model.layers.0.mlp', 'use': {name!r}}}; "
            "the keys of `configs` are names of configs, not of modules",
        )
    ]


def check_rules_served(
    rules: FqnToConfig,
    assignment: Assignment,
    treatments: Sequence[Treatment],
    builders: ConfigBuilders,
) -> list[QconfigError]:
    """Return a problem for each exact rule whose config cannot serve what the rule names."""
    problems: list[QconfigError] = []
    modules: dict[tuple[int, str], list[str]] = {}
    served: set[tuple[int, str]] = set()
    for target, decision, treatment in zip(
        assignment.targets, assignment.decisions, treatments, strict=True
    ):
        number = decision.rule
        if number is None or not decision.how.is_exact or decision.config is None:
            continue
        if decision.how is How.EXACT_MODULE:
            key = (number, target.module)
            reasons = modules.setdefault(key, [])
            if treatment.refused:
                reasons.append(f"{target.parameter}: {treatment.reason}")
            else:
                served.add(key)
        elif treatment.refused:
            problems.append(
                PlanError(
                    f"{decision.config} cannot serve this parameter: {treatment.reason}",
                    fqn=target.fqn,
                    pointer=f"/rules/{number}",
                    hint="remove the rule, or give it another config",
                )
            )
    left = {key: reasons for key, reasons in modules.items() if key not in served}
    others = _served_otherwise(rules, assignment, left, builders) if left else set()
    problems += [
        PlanError(
            f"{rules.rules[number].use} cannot serve any parameter of this module",
            fqn=module,
            pointer=f"/rules/{number}",
            found=reasons,
            hint="give it another config, remove the rule, or name the module of the weight",
        )
        for (number, module), reasons in left.items()
        if (number, module) not in others
    ]
    return problems


def _served_otherwise(
    rules: FqnToConfig,
    assignment: Assignment,
    keys: dict[tuple[int, str], list[str]],
    builders: ConfigBuilders,
) -> set[tuple[int, str]]:
    """Return those (rule, module) that could serve a parameter which a finer rule has taken."""
    found = set()
    numbers = {module: number for number, module in keys}
    for target, decision in zip(assignment.targets, assignment.decisions, strict=True):
        number = numbers.get(target.module)
        if number is not None and decision.rule != number:
            use = rules.rules[number].use
            named = evolve(target, named=target.parameter == "weight")
            if use is not None and builders.refusal(use, named) is None:
                found.add((number, target.module))
    return found


def check_unmatched(
    rules: FqnToConfig,
    assignment: Assignment,
    treatments: Sequence[Treatment],
    module_treatments: Sequence[Treatment],
    *,
    modules: Sequence[ModuleTarget],
    allow_unmatched: bool,
    inferred: bool,
) -> tuple[list[QconfigError], list[str]]:
    """Return problems of rules that do nothing, and notes where that is allowed.

    Args:
        rules: all of them.
        assignment: which of them won what.
        treatments: what builders make of the parameters.
        module_treatments: what they make of modules without parameters.
        modules: all modules without parameters, for hints.
        allow_unmatched: whether rules may do nothing.
        inferred: whether classes are those that names in a file suggest.
    """
    decided = [
        *zip(assignment.decisions, treatments, strict=True),
        *zip(assignment.module_decisions, module_treatments, strict=True),
    ]
    idle = _idle_patterns(decided)
    hints = None
    if assignment.unmatched:
        hints = NameHints(assignment.targets, modules, inferred=inferred)
    shadowed, unmatched = set(assignment.shadowed), set(assignment.unmatched)
    problems: list[QconfigError] = []
    notes: list[str] = []
    for i, rule in enumerate(rules.rules):
        name = f"rule {i} ({shown(rule.match)})"
        if i in shadowed:
            notes.append(f"{name} is shadowed: earlier or more exact rules win all it matches")
        elif i in unmatched and hints is not None:
            hint = hints.hint(rule) if len(problems) + len(notes) < _MOST_HINTS else None
            message = "matches nothing"
            if allow_unmatched:
                notes.append(f"{name} {message}" + (f": {hint}" if hint else ""))
            else:
                problems.append(_does_nothing(i, rule, message, hint))
        elif i in idle:
            message = f"matches only what {rule.use} cannot serve: {idle[i]}"
            if allow_unmatched or rule.optional:
                notes.append(f"{name} {message}")
            else:
                problems.append(_does_nothing(i, rule, message, None))
    if rules.default is not None and not _default_served(decided):
        notes.append("the default reaches nothing that it can serve")
    return problems, notes


def _does_nothing(number: int, rule: Rule, message: str, hint: str | None) -> PlanError:
    return PlanError(
        f"rule {message}",
        pointer=f"/rules/{number}/match",
        found=rule.match,
        expected='a rule that does something, or "optional": true',
        hint=hint,
    )


def _idle_patterns(decided: Sequence[tuple[Decision, Treatment]]) -> dict[int, str]:
    """Return the patterns with a config, all of whose targets are refused, and the first reason."""
    reasons: dict[int, str] = {}
    busy: set[int] = set()
    for decision, treatment in decided:
        if decision.rule is None or decision.how.is_exact or decision.config is None:
            continue
        if treatment.refused:
            reasons.setdefault(decision.rule, treatment.reason)
        else:
            busy.add(decision.rule)
    return {i: reason for i, reason in reasons.items() if i not in busy}


def _default_served(decided: Sequence[tuple[Decision, Treatment]]) -> bool:
    return any(
        decision.how is How.DEFAULT and not treatment.refused for decision, treatment in decided
    )
