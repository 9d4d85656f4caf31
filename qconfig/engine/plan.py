"""Make a plan: which parameter gets which config, why, and how large it will be. Pure.

What a rule means depends on how it names its target. An exact rule whose config cannot serve the
parameter, or no parameter of the module, is an error. A pattern reaches what it can serve: norms
and biases under it stay as they are and the plan says why; but a pattern with a config that serves
nothing at all counts as unmatched. A rule that matches nothing is an error unless it is optional.
"""

from collections.abc import Mapping, Sequence

from attrs import evolve

from qconfig.builders.base import ModuleTarget, Target
from qconfig.codec.collector import collector_paused
from qconfig.codec.tensor_values import TensorSpec, nbytes
from qconfig.configs.fqn_to_config import FqnToConfig
from qconfig.engine.config_builders import ConfigBuilders
from qconfig.engine.plan_checks import (
    Treatment,
    check_configs_used,
    check_rules_served,
    check_unmatched,
)
from qconfig.engine.plan_document import Action, ModuleEntry, Plan, PlanEntry, RuleReport
from qconfig.engine.plan_modules import (
    check_modules_served,
    module_entries,
    named_modules,
    split_modules,
    treat_modules,
)
from qconfig.engine.plan_words import leaders, reached, unreached
from qconfig.errors import raise_problems
from qconfig.rules.assignment import Assignment, Decision, How
from qconfig.rules.fused import split_groups
from qconfig.rules.matcher import RuleSet, rules_of
from qconfig.rules.tied import split_ties
from qconfig.versioning import Config, registry


@collector_paused()
def make_plan(
    targets: Sequence[Target],
    config: Config,
    *,
    tied: Sequence[Sequence[str]] = (),
    packed: Mapping[str, str] | None = None,
    modules: Sequence[ModuleTarget] = (),
    shared: Sequence[Sequence[str]] = (),
    allow_unmatched: bool = False,
    inferred: bool = False,
) -> Plan:
    """Return what quantizing would do; nothing is built.

    Args:
        targets: the parameters.
        config: an `FqnToConfig`, or one config for every Linear.
        tied: groups of names of one tensor; the first that is among the targets stands for all.
        packed: class names of the targets that are quantized already: no config can serve them.
        modules: the modules without parameters; only those that a rule names for a config which
            can serve such modules are planned.
        shared: groups of names of one such module.
        allow_unmatched: note rules that match nothing, instead of raising.
        inferred: classes of the targets are those that names in a file suggest.

    Raises:
        RuleError: a pattern that cannot be used.
        PlanError, BuildError: all the ways in which rules and targets do not fit together.
    """
    config = registry.convert(config)
    rules = rules_of(config)
    rule_set = RuleSet(rules)
    assignment = rule_set.assign(targets, named_modules(rule_set, modules, shared))
    decisions = (*assignment.decisions, *assignment.module_decisions)
    used = {d.config for d in decisions if d.config is not None}
    builders = ConfigBuilders(rules.configs, used, "/configs" if rules is config else "")
    treatments = [
        _treat(
            builders, _as_named(rules, target, decision), decision, (packed or {}).get(target.fqn)
        )
        for target, decision in zip(assignment.targets, assignment.decisions, strict=True)
    ]
    module_treatments = treat_modules(assignment, builders)
    served = [
        *check_rules_served(rules, assignment, treatments, builders),
        *check_modules_served(assignment, module_treatments),
    ]
    unmatched, notes = check_unmatched(
        rules,
        assignment,
        treatments,
        module_treatments,
        modules=modules,
        allow_unmatched=allow_unmatched,
        inferred=inferred,
    )
    effective = {
        target.fqn: treatment.config
        for target, treatment in zip(assignment.targets, treatments, strict=True)
    }
    raise_problems(
        [
            *builders.problems,
            *check_configs_used(rules),
            *served,
            *unmatched,
            *split_groups(rules.fused, list(effective), list(effective.values())),
            *split_ties(tied, effective),
            *split_modules(assignment, module_treatments, shared),
        ]
    )
    entries = _entries(assignment, treatments, leaders(tied, effective))
    done = module_entries(assignment, module_treatments, shared)
    reports = _reports(rules, assignment, entries, done)
    return Plan(entries, reports, tuple(notes), rules.configs, done)


def _as_named(rules: FqnToConfig, target: Target, decision: Decision) -> Target:
    """Say of a target that the rule which reached it names it, or means it by naming its module."""
    by_class = decision.rule is not None and bool(rules.rules[decision.rule].modules)
    by_module = by_class or decision.how is How.EXACT_MODULE
    if decision.how is How.EXACT_PARAMETER or (by_module and target.parameter == "weight"):
        return evolve(target, named=True)
    return target


def _treat(
    builders: ConfigBuilders, target: Target, decision: Decision, packed: str | None
) -> Treatment:
    if decision.config is None:
        return Treatment(None, unreached(decision))
    refusal = (
        f"quantized already, as {packed}" if packed else builders.refusal(decision.config, target)
    )
    if refusal is not None:
        return Treatment(None, refusal, refused=True)
    return Treatment(decision.config, reached(decision), builders.planned(decision.config, target))


def _entries(
    assignment: Assignment, treatments: Sequence[Treatment], leaders: dict[str, str]
) -> tuple[PlanEntry, ...]:
    entries = []
    for target, decision, treatment in zip(
        assignment.targets, assignment.decisions, treatments, strict=True
    ):
        leader, layout = leaders.get(target.fqn), treatment.layout
        size = 0 if leader else nbytes(TensorSpec(target.dtype, target.shape))
        action = Action.SKIP if layout is None else Action.QUANTIZE
        entries.append(
            PlanEntry(
                fqn=target.fqn,
                shape=target.shape,
                dtype=target.dtype,
                module_class=target.module_classes[0] if target.module_classes else None,
                action=Action.TIED if leader else action,
                reason=f"tied to {leader}" if leader else treatment.reason,
                rule=decision.rule,
                how=decision.how,
                config=decision.config,
                layout=layout.name if layout else None,
                layout_version=layout.version if layout else None,
                tied_to=leader,
                bytes_before=size,
                bytes_after=size if leader or layout is None else layout.bytes,
            )
        )
    return tuple(entries)


def _reports(
    rules: FqnToConfig,
    assignment: Assignment,
    entries: Sequence[PlanEntry],
    modules: Sequence[ModuleEntry],
) -> tuple[RuleReport, ...]:
    quantized = [0] * len(rules.rules)
    for module in modules:
        if (
            module.rule is not None
            and module.config is not None
            and module.action is not Action.SKIP
        ):
            quantized[module.rule] += 1
    for entry in entries:
        if entry.rule is not None and entry.layout is not None:
            quantized[entry.rule] += 1
    return tuple(
        RuleReport(rule.match, rule.use, assignment.hits[i], quantized[i])
        for i, rule in enumerate(rules.rules)
    )
