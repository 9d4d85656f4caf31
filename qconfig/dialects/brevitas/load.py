"""Load a state_dict of Brevitas into a model of ours, whole or not at all."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.brevitas.evidence import NO_CONFIG
from qconfig.dialects.brevitas.expectations import ROLES
from qconfig.dialects.brevitas.quantizer_keys import dotted
from qconfig.dialects.brevitas.selection import first_word, selects
from qconfig.dialects.brevitas.stages import Done, Settings, Stage
from qconfig.dialects.brevitas.state_dict import StateDictReport, converted, lazy_state
from qconfig.dialects.brevitas.steps_missing import INITIALISE
from qconfig.errors import MOST_PROBLEMS, CheckpointError, QconfigError, nearest, raise_problems

if TYPE_CHECKING:
    import torch
    from torch import nn

_MOST_HINTS = 20
_QUANTIZE = (
    "qconfig.quantize_ the model first, with the config that this one was quantized with, or drop "
    "the names of the quantizer"
)


def load_brevitas_state_dict(
    model: "nn.Module",
    state_dict: "Mapping[str, torch.Tensor]",
    *,
    missing: Mapping[str, str] | None = None,
    dropped: Sequence[str] = (),
    expanded: Sequence[str] = (),
    cast: Sequence[str] = (),
    norms: Mapping[str, str] | None = None,
    eps: float = 1e-5,
) -> StateDictReport:
    """Copy a state_dict of Brevitas' modules into a model that is quantized with our configs.

    Values are copied into the parameters that the model has, so that an optimizer made before goes
    on. The configs of the model's quantizers decide what the state_dict means, and it is compared
    with them: other bit widths, or learned scales where the config has none, are errors.

    Args:
        model: has the layers' names of the state_dict, and our modules in place of Brevitas'.
        state_dict: of releases 0.8 to 0.13; left as it is.
        missing: what to do about what is not there, see `convert_state_dict`; "initialise" keeps
            what the model has.
        dropped: patterns of old names that may be left out.
        expanded: patterns of new names of scales: one number for all channels may be repeated.
        cast: patterns of new names whose values may be rounded to the type that the model has.
        norms: batch norms that the model has no more, see `convert_state_dict`.
        eps: of those norms.

    Raises:
        CheckpointError: what does not fit, all of it at once; the model is as it was.
    """
    from qconfig.modules.recorded_config import RECORD, recorded_config

    own = model.state_dict(keep_vars=True)
    configs = {
        name.removesuffix(f".{RECORD}"): recorded_config(tensor)
        for name, tensor in own.items()
        if name.endswith(f".{RECORD}") and name.split(".")[-2] in ROLES
    }
    lazy = lazy_state(state_dict)
    reached: dict[str, tuple[str, ...]] = {}
    for quantizer in configs:
        layer, _, role = quantizer.rpartition(".")
        reached[layer] = (*reached.get(layer, ()), role)
    settings = Settings(
        lambda layer, role: configs.get(dotted(layer, role)),
        reached,
        dict(missing or {}),
        tuple(dropped),
        tuple(expanded),
        {name: tuple(tensor.shape) for name, tensor in own.items()},
        dict(norms or {}),
        eps,
    )
    try:
        stage = converted(lazy, settings)
    except QconfigError as error:
        prefix = _foreign_prefix(lazy, own)
        for problem in error.problems:
            problem.hint = prefix or (_QUANTIZE if problem.hint == NO_CONFIG else problem.hint)
        raise
    entries = _entries(own, stage, settings, tuple(cast))
    model.load_state_dict(entries, strict=True)
    return StateDictReport(stage.changes, stage.ambiguities)


def _entries(
    own: "Mapping[str, torch.Tensor]", stage: Stage, settings: Settings, cast: tuple[str, ...]
) -> "dict[str, torch.Tensor]":
    """Return the whole state_dict that the model is to have, checked against the one it has."""
    problems: list[QconfigError] = []
    entries: dict[str, Any] = {}
    prefix = _foreign_prefix(stage.state, own)
    for name, lazy in stage.state.items():
        if name not in own:
            near = nearest(name, own) if len(problems) < _MOST_HINTS else None
            hint = prefix or near or "drop its name to leave it out"
            problems.append(CheckpointError("the model has no such tensor", fqn=name, hint=hint))
            continue
        problem, entries[name] = _fitted(name, lazy, own[name], cast)
        problems += [problem] if problem is not None else []
    kept = {change.after for change in stage.changes if change.done is Done.INITIALISED}
    kept |= {_beside(name) for name in kept if name is not None}
    for name, tensor in own.items():
        if name in entries:
            continue
        if name.rpartition(".")[0] in kept or name in kept or _may_stay(name, settings):
            entries[name] = tensor
        else:
            problems.append(CheckpointError("the file lacks a tensor of the model", fqn=name))
    raise_problems(problems[:MOST_PROBLEMS])
    return entries


def _foreign_prefix(state: Mapping[str, LazyTensor], own: Mapping[str, Any]) -> str | None:
    """Return what to do where all names begin with a word that the model does not know."""
    first = {name.partition(".")[0] for name in state}
    if len(first) != 1 or not any(name.partition(".")[2] in own for name in state):
        return None
    return f"take {first.pop()!r} and its dot off the names of the state_dict"


def _beside(name: str) -> str:
    """Return the quantizer of a tensor: what was not seen keeps its count of steps, too."""
    return name.rpartition(".")[0]


def _may_stay(name: str, settings: Settings) -> bool:
    return first_word(settings.missing, name) == INITIALISE


def _fitted(
    name: str, lazy: LazyTensor, own: "torch.Tensor", cast: tuple[str, ...]
) -> "tuple[QconfigError | None, torch.Tensor]":
    """Return a tensor in the type that the model has, and what stands against it."""
    tensor = lazy.load()
    if tuple(tensor.shape) != tuple(own.shape):
        return _misfit("shape", name, tuple(tensor.shape), tuple(own.shape)), tensor
    if own.is_meta:
        return _misfit("device", name, tensor.device, own.device), tensor
    if tensor.dtype == own.dtype:
        return None, tensor
    if tensor.dtype.is_floating_point != own.dtype.is_floating_point:
        return _misfit("kind of elements", name, tensor.dtype, own.dtype), tensor
    found = tensor.to(own.dtype)
    if selects(cast, name) or found.to(tensor.dtype).equal(tensor):
        return None, found
    return _misfit("type, which rounds it", name, tensor.dtype, own.dtype), tensor


def _misfit(what: str, name: str, found: object, expected: object) -> QconfigError:
    return CheckpointError(
        f"the tensor of the model has another {what}", fqn=name, found=found, expected=str(expected)
    )
