"""Put quantized tensors into a live model, all or none."""

from typing import TYPE_CHECKING

from qconfig.builders.base import ModuleBuilder, builder_of
from qconfig.calibration.calibration import Calibration
from qconfig.engine.calibrated import build_layer, check_calibrated, with_calibration_notes
from qconfig.engine.chosen import chosen_config
from qconfig.engine.modules import (
    built_activations,
    built_module,
    put_modules,
    tied_names,
    with_module_notes,
)
from qconfig.engine.plan import make_plan
from qconfig.engine.plan_differences import differences
from qconfig.engine.plan_document import Action, Plan, PlanEntry
from qconfig.engine.targets import model_targets
from qconfig.errors import BuildError, QconfigError, raise_problems
from qconfig.versioning import Config

if TYPE_CHECKING:
    import torch
    from torch import nn


def quantize_(
    model: "nn.Module",
    config: Config,
    *,
    allow_unmatched: bool = False,
    calibration: Calibration | None = None,
) -> Plan:
    """Quantize the parameters of a model in place and return the plan that was followed.

    Args:
        model: any module; tied parameters stay tied.
        config: an `FqnToConfig`, or one config for every Linear.
        allow_unmatched: accept rules that match nothing.
        calibration: what `calibrate` observed, for configs that need it.

    Raises:
        PlanError: rules and model do not fit together, or layers lack the calibration that their
            config needs; all of them are named.
        BuildError: a weight cannot be quantized; the model is then as it was.
    """
    plan = plan_model(model, config, allow_unmatched=allow_unmatched, calibration=calibration)
    apply_plan(model, plan, calibration=calibration)
    return plan


def plan_model(
    model: "nn.Module",
    config: Config,
    *,
    allow_unmatched: bool = False,
    calibration: Calibration | None = None,
) -> Plan:
    """Return the plan that `quantize_` would follow; nothing is changed.

    Arguments are those of `quantize_`. Without a calibration, the plan has notes of the configs
    that need one.

    Raises:
        PlanError: rules and model do not fit together, or rules and calibration.
    """
    found = model_targets(model)
    plan = with_module_notes(
        make_plan(
            found.targets,
            config,
            tied=found.tied,
            packed=found.packed,
            modules=found.modules,
            shared=found.shared,
            allow_unmatched=allow_unmatched,
        )
    )
    if calibration is None:
        return with_calibration_notes(plan)
    check_calibrated(plan, calibration)
    return plan


def apply_plan(model: "nn.Module", plan: Plan, *, calibration: Calibration | None = None) -> None:
    """Build every tensor that the plan lists, then put all of them into the model.

    Nothing in the model changes before the last tensor is built, so a failure leaves it as it was.

    Args:
        model: the model that the plan is for.
        plan: what to do.
        calibration: what `calibrate` observed, for configs that need it.

    Raises:
        PlanError: the model is not as the plan says: other parameters, other ties, or quantized;
            or layers lack the calibration that their config needs.
        BuildError: a weight cannot be quantized.
    """
    from torch import nn

    parameters = dict(model.named_parameters(remove_duplicate=False))
    raise_problems(differences(plan, model_targets(model)))
    check_calibrated(plan, calibration)
    ties = tied_names(plan)
    built: dict[str, nn.Parameter] = {}
    modules: dict[str, nn.Module] = {}
    for entry in plan.entries:
        if entry.action is not Action.QUANTIZE:
            continue
        config = chosen_config(plan, entry)
        if isinstance(builder_of(config), ModuleBuilder):
            modules |= built_module(model, config, entry, ties.get(entry.fqn, []), modules)
        else:
            tensor = _built(config, entry, parameters[entry.fqn], calibration)
            built[entry.fqn] = nn.Parameter(tensor, requires_grad=False)
    modules |= built_activations(model, plan)
    for entry in plan.entries:
        source = entry.tied_to if entry.action is Action.TIED else entry.fqn
        if source in built:
            owner, _, name = entry.fqn.rpartition(".")
            setattr(model.get_submodule(owner), name, built[source])
    put_modules(model, modules)


def _built(
    config: Config, entry: PlanEntry, parameter: "nn.Parameter", calibration: Calibration | None
) -> "torch.Tensor":
    if parameter.is_meta:
        raise BuildError(
            "the parameter has no data",
            fqn=entry.fqn,
            found="the meta device",
            hint="load it first",
        )
    try:
        tensor = build_layer(config, parameter.detach(), entry.fqn, calibration)
    except QconfigError as error:
        raise error.at(fqn=entry.fqn) from None
    if (tensor.shape, tensor.dtype) != (parameter.shape, parameter.dtype):
        raise BuildError(
            f"the builder of {type(config).__name__} returns another tensor than it was asked for",
            fqn=entry.fqn,
            found=f"{tensor.dtype} {tuple(tensor.shape)}",
            expected=f"{parameter.dtype} {tuple(parameter.shape)}",
        )
    return tensor
