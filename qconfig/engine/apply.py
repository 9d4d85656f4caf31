"""Put quantized tensors into a live model, all or none."""

from typing import TYPE_CHECKING

from qconfig.builders.base import builder_of
from qconfig.codec.dtypes import DType
from qconfig.engine.plan import Action, Plan, PlanEntry, make_plan
from qconfig.engine.targets import model_targets
from qconfig.errors import PlanError, QconfigError, raise_problems
from qconfig.versioning import Config

if TYPE_CHECKING:
    from torch import nn


def quantize_(model: "nn.Module", config: Config, *, allow_unmatched: bool = False) -> Plan:
    """Quantize the parameters of a model in place and return the plan that was followed.

    Args:
        model: any module; tied parameters stay tied.
        config: an `FqnToConfig`, or one config for every Linear.
        allow_unmatched: accept rules that match nothing.

    Raises:
        PlanError: rules and model do not fit together.
        BuildError: a weight cannot be quantized; the model is then as it was.
    """
    targets, tied = model_targets(model)
    plan = make_plan(targets, config, tied=tied, allow_unmatched=allow_unmatched)
    apply_plan(model, plan)
    return plan


def apply_plan(model: "nn.Module", plan: Plan) -> None:
    """Build every tensor that the plan lists, then put all of them into the model.

    Nothing in the model changes before the last tensor is built, so a failure leaves it as it was.

    Raises:
        PlanError: the model has other parameters than the plan.
        BuildError: a weight cannot be quantized.
    """
    from torch import nn

    parameters = dict(model.named_parameters(remove_duplicate=False))
    raise_problems(_differences(plan, parameters))
    built: dict[str, nn.Parameter] = {}
    for entry in plan.entries:
        if entry.action is not Action.QUANTIZE:
            continue
        config = chosen_config(plan, entry)
        try:
            tensor = builder_of(config).build(config, parameters[entry.fqn].detach())
        except QconfigError as error:
            raise error.at(fqn=entry.fqn) from None
        built[entry.fqn] = nn.Parameter(tensor, requires_grad=False)
    for entry in plan.entries:
        source = entry.tied_to if entry.action is Action.TIED else entry.fqn
        if source in built:
            owner, _, name = entry.fqn.rpartition(".")
            setattr(model.get_submodule(owner), name, built[source])


def chosen_config(plan: Plan, entry: PlanEntry) -> Config:
    """Return the config that a plan chose for a parameter.

    Raises:
        PlanError: the plan leaves the parameter alone, or lacks the config that it names.
    """
    config = plan.configs.get(entry.config or "")
    if config is None:
        raise PlanError("the plan has no config for it", fqn=entry.fqn, found=entry.config)
    return config


def _differences(plan: Plan, parameters: "dict[str, nn.Parameter]") -> list[QconfigError]:
    problems: list[QconfigError] = []
    for entry in plan.entries:
        found = parameters.get(entry.fqn)
        if found is None:
            problems.append(PlanError("the model has no such parameter", fqn=entry.fqn))
        elif (tuple(found.shape), DType.parse(found.dtype)) != (entry.shape, entry.dtype):
            problems.append(
                PlanError(
                    "the parameter differs from the plan",
                    fqn=entry.fqn,
                    found=f"{found.dtype} {tuple(found.shape)}",
                    expected=f"{entry.dtype} {entry.shape}",
                    hint="make a new plan for this model",
                )
            )
    return problems
