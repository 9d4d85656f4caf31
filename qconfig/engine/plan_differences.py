"""How a model differs from the one that a plan was made for."""

from qconfig.builders.base import Target
from qconfig.engine.plan_document import Action, Plan, PlanEntry
from qconfig.engine.targets import ModelTargets
from qconfig.errors import PlanError, QconfigError


def differences(plan: Plan, model: ModelTargets) -> list[QconfigError]:
    """Return a problem for each parameter, or module, that is not as the plan says."""
    found = {target.fqn: target for target in model.targets}
    leaders = {name: group[0] for group in model.tied for name in group[1:]}
    problems: list[QconfigError] = []
    for entry in plan.entries:
        target = found.pop(entry.fqn, None)
        if target is None:
            problems.append(PlanError("the model has no such parameter", fqn=entry.fqn))
        else:
            problems += _differences(entry, target, leaders.get(entry.fqn), model)
    problems += [
        PlanError("the plan has no such parameter", fqn=name, hint="make a new plan for this model")
        for name in found
    ]
    classes = {module.fqn: module.module_classes[0] for module in model.modules}
    owners = {name: group[0] for group in model.shared for name in group[1:]}
    for module in plan.modules:
        found_class = classes.get(module.fqn)
        if found_class is None:
            problems.append(
                PlanError("the model has no such module without parameters", fqn=module.fqn)
            )
            continue
        problems += _unequal(
            "module",
            module.fqn,
            (found_class, module.module_class),
            (_same_as(owners.get(module.fqn)), _same_as(module.tied_to)),
        )
    return problems


def _same_as(name: str | None) -> str:
    return f"tied to {name or 'nothing'}"


def _differences(
    entry: PlanEntry, target: Target, leader: str | None, model: ModelTargets
) -> list[QconfigError]:
    packed = model.packed.get(entry.fqn) if entry.action is Action.QUANTIZE else None
    pairs = (
        (_form(target.dtype, target.shape), _form(entry.dtype, entry.shape)),
        (_same_as(leader), _same_as(entry.tied_to)),
        (packed or "a plain tensor", "a plain tensor"),
    )
    return _unequal("parameter", entry.fqn, *pairs)


def _unequal(kind: str, fqn: str, *pairs: tuple[str, str]) -> list[QconfigError]:
    return [
        PlanError(
            f"the {kind} differs from the plan",
            fqn=fqn,
            found=found,
            expected=expected,
            hint="make a new plan for this model",
        )
        for found, expected in pairs
        if found != expected
    ]


def _form(dtype: object, shape: tuple[int, ...]) -> str:
    return f"{dtype} {shape}"
