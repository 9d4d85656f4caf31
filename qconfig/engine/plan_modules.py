"""The part of a plan that is about modules without parameters, such as activation functions. Pure.

They are no targets of rules for weights: only a rule that gives their name or their class reaches
them, and only for a config whose builder serves them. Plans of other models do not mention them.
"""

from collections.abc import Sequence

from qconfig.builders.base import ModuleTarget
from qconfig.engine.config_builders import ConfigBuilders, serving_modules
from qconfig.engine.plan_checks import Treatment
from qconfig.engine.plan_document import Action, ModuleEntry
from qconfig.engine.plan_words import leaders, reached, unreached
from qconfig.errors import PlanError, QconfigError
from qconfig.rules.assignment import Assignment, Decision, How
from qconfig.rules.matcher import RuleSet
from qconfig.rules.tied import split_ties


def named_modules(
    rules: RuleSet, modules: Sequence[ModuleTarget], shared: Sequence[Sequence[str]]
) -> tuple[ModuleTarget, ...]:
    """Return the modules that rules name for configs which can serve them, under all names."""
    configs = serving_modules(rules.config.configs) if modules else set()
    if not configs:
        return ()
    named = {target.fqn for target in rules.named_modules(modules, configs)}
    for group in shared:
        if not named.isdisjoint(group):
            named.update(group)
    return tuple(target for target in modules if target.fqn in named)


def treat_modules(assignment: Assignment, builders: ConfigBuilders) -> list[Treatment]:
    """Return what builders make of the modules."""
    pairs = zip(assignment.modules, assignment.module_decisions, strict=True)
    return [_treat(builders, target, decision) for target, decision in pairs]


def _treat(builders: ConfigBuilders, target: ModuleTarget, decision: Decision) -> Treatment:
    if decision.config is None:
        return Treatment(None, unreached(decision))
    refusal = builders.module_refusal(decision.config, target)
    if refusal is not None:
        return Treatment(None, refusal, refused=True)
    return Treatment(decision.config, reached(decision))


def check_modules_served(
    assignment: Assignment, treatments: Sequence[Treatment]
) -> list[QconfigError]:
    """Return a problem for each exact rule whose config cannot serve the module it names."""
    return [
        PlanError(
            f"{decision.config} cannot serve this module: {treatment.reason}",
            fqn=target.fqn,
            pointer=f"/rules/{decision.rule}",
            hint="remove the rule, or give it another config",
        )
        for target, decision, treatment in zip(
            assignment.modules, assignment.module_decisions, treatments, strict=True
        )
        if treatment.refused and decision.how is How.EXACT_MODULE
    ]


def split_modules(
    assignment: Assignment, treatments: Sequence[Treatment], shared: Sequence[Sequence[str]]
) -> list[PlanError]:
    """Return a problem for each name of a module that gets another config than its other names."""
    return split_ties(shared, _effective(assignment, treatments))


def module_entries(
    assignment: Assignment, treatments: Sequence[Treatment], shared: Sequence[Sequence[str]]
) -> tuple[ModuleEntry, ...]:
    """Return what a plan says of the modules."""
    leader_of = leaders(shared, _effective(assignment, treatments))
    entries = []
    for target, decision, treatment in zip(
        assignment.modules, assignment.module_decisions, treatments, strict=True
    ):
        leader = leader_of.get(target.fqn)
        action = Action.SKIP if treatment.config is None else Action.QUANTIZE
        entries.append(
            ModuleEntry(
                fqn=target.fqn,
                module_class=target.module_classes[0],
                action=Action.TIED if leader else action,
                reason=f"the same module as {leader}" if leader else treatment.reason,
                rule=decision.rule,
                how=decision.how,
                config=decision.config,
                tied_to=leader,
            )
        )
    return tuple(entries)


def _effective(assignment: Assignment, treatments: Sequence[Treatment]) -> dict[str, str | None]:
    pairs = zip(assignment.modules, treatments, strict=True)
    return {target.fqn: treatment.config for target, treatment in pairs}
