"""Modules that take the place of others, where a builder changes more than a parameter."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import evolve

from qconfig.builders.base import ModuleBuilder, NotesCheckpoints, builder_of
from qconfig.engine.chosen import chosen_config
from qconfig.engine.plan_document import Action, Plan, PlanEntry
from qconfig.errors import BuildError, QconfigError
from qconfig.versioning import Config

if TYPE_CHECKING:
    from torch import nn


def with_module_notes(plan: Plan) -> Plan:
    """Return the plan with what builders that change modules say about it."""

    def note(config: Config) -> str | None:
        builder = builder_of(config)
        return builder.plan_note(config) if isinstance(builder, ModuleBuilder) else None

    return _with_notes(plan, note)


def with_checkpoint_notes(plan: Plan) -> Plan:
    """Return the plan with what builders leave out where there is no model."""

    def note(config: Config) -> str | None:
        builder = builder_of(config)
        return builder.checkpoint_note(config) if isinstance(builder, NotesCheckpoints) else None

    return _with_notes(plan, note)


def _with_notes(plan: Plan, note_of: Callable[[Config], str | None]) -> Plan:
    used = {e.config for e in plan.entries if e.action is Action.QUANTIZE and e.config is not None}
    found = {name: note_of(plan.configs[name]) for name in sorted(used)}
    notes = [f"{name}: {note}" for name, note in found.items() if note is not None]
    return evolve(plan, notes=(*plan.notes, *notes)) if notes else plan


def tied_names(plan: Plan) -> dict[str, list[str]]:
    """Return the other names of each parameter that has some, by the name it is planned under."""
    names: dict[str, list[str]] = {}
    for entry in plan.entries:
        if entry.action is Action.TIED and entry.tied_to is not None:
            names.setdefault(entry.tied_to, []).append(entry.fqn)
    return names


def built_module(
    model: "nn.Module",
    config: Config,
    entry: PlanEntry,
    tied: list[str],
    built: "dict[str, nn.Module]",
) -> "dict[str, nn.Module]":
    """Return the module that takes the place of the owner of a parameter, by its name.

    Args:
        model: the whole model.
        config: the config that the plan chose.
        entry: the parameter.
        tied: its other names.
        built: the modules made so far: that of another parameter of the same owner goes on.

    Raises:
        BuildError: the parameter is tied, its owner is the model itself, or the builder refuses.
    """
    owner, _, name = entry.fqn.rpartition(".")
    module = model.get_submodule(owner)
    # A module under several names has one parameter; those of other modules would part from it.
    aliases = [fqn for fqn in tied if model.get_submodule(fqn.rpartition(".")[0]) is not module]
    if aliases:
        raise BuildError(
            f"{type(config).__name__} changes the module of a tied parameter",
            fqn=entry.fqn,
            found=", ".join(aliases),
            expected="a parameter of one module",
            hint="leave it out with a rule, or untie it",
        )
    if not owner:
        raise BuildError(
            f"{type(config).__name__} changes the module, which is the model itself",
            fqn=entry.fqn,
            hint="put the model into a torch.nn.Sequential",
        )
    builder: Any = builder_of(config)
    try:
        return {owner: builder.build_module(config, built.get(owner, module), name)}
    except QconfigError as error:
        raise error.at(fqn=entry.fqn) from None


def built_activations(model: "nn.Module", plan: Plan) -> "dict[str, nn.Module]":
    """Return what takes the place of the modules without parameters that a plan quantizes.

    Raises:
        BuildError: a builder refuses one.
    """
    import torch

    parameters = list(model.parameters())
    devices = {parameter.device for parameter in parameters}
    types = {parameter.dtype for parameter in parameters if parameter.is_floating_point()}
    built: dict[str, nn.Module] = {}
    for entry in plan.modules:
        if entry.action is not Action.QUANTIZE:
            continue
        config = chosen_config(plan, entry)
        builder: Any = builder_of(config)
        try:
            module = builder.build_activation_module(config, model.get_submodule(entry.fqn))
        except QconfigError as error:
            raise error.at(fqn=entry.fqn) from None
        # Nothing in the module says where it runs and on what, but the rest of the model does.
        if len(devices) == 1:
            module = module.to(next(iter(devices)))
        if types == {torch.float64}:
            module = module.double()
        built[entry.fqn] = module
    return built


def put_modules(model: "nn.Module", modules: "dict[str, nn.Module]") -> None:
    """Put modules into a model under every name that the ones they replace have there."""
    replaced = {id(model.get_submodule(name)): module for name, module in modules.items()}
    places = [
        (parent, child, replaced[id(module)])
        for parent in list(model.modules())
        for child, module in parent._modules.items()  # noqa: SLF001 (shared ones too)
        if id(module) in replaced
    ]
    for parent, child, module in places:
        setattr(parent, child, module)
