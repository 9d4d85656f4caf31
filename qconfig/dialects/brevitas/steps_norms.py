"""The step that folds batch norms, as Brevitas does when it merges or replaces them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.brevitas.stages import Change, Done, Settings, Stage
from qconfig.errors import CheckpointError

if TYPE_CHECKING:
    import torch

_PARTS = ("weight", "bias", "running_mean", "running_var")
_COUNT = "num_batches_tracked"
_SCALE = "a batch norm, as a factor and an addend for each channel"
_MERGED = "the layer with the batch norm behind it, as one layer"


def with_folded_norms(stage: Stage, settings: Settings) -> Stage:
    """Fold batch norms into the layers that the caller names, or into a scale and a bias.

    `factor = weight / sqrt(running_var + eps)` and `addend = bias - running_mean * factor`, in
    the order in which Brevitas computes them, so that bits are the same. A norm that was folded
    when the file was written has no statistics, and is left as it is.
    """
    for norm, layer in settings.norms.items():
        stage = _folded(stage, norm, layer, settings.eps)
    return stage


def _folded(stage: Stage, norm: str, layer: str, eps: float) -> Stage:
    names = {part: f"{norm}.{part}" for part in _PARTS}
    found = [name for name in names.values() if name in stage.state]
    if not any(names[part] in found for part in _PARTS[2:]):
        return stage
    target = {part: f"{layer}.{part}" for part in ("weight", "bias")}
    lacking = [n for n in (*names.values(), target["weight"]) if n not in stage.state]
    shapes = {stage.state[n].shape for n in found}
    taken = (*found, *(n for n in target.values() if n in stage.state))
    lacking += [n for n in taken if not stage.state[n].dtype.is_float]
    if lacking or len(shapes) != 1 or len(next(iter(shapes))) != 1:
        error = CheckpointError(
            "a batch norm cannot be folded",
            fqn=norm,
            found=f"no {lacking[0]} of floats" if lacking else sorted(shapes),
            expected="weight, bias and running statistics of one shape, and the layer's weight",
        )
        return stage.noting(problems=[error])
    tensors = [stage.state[names[part]] for part in _PARTS]
    gone = [*names.values(), f"{norm}.{_COUNT}"]
    if layer == norm:
        made = {names["weight"]: _factor(tensors, eps), names["bias"]: _addend(tensors, eps)}
        changes = [Change(Done.DERIVED, tuple(found), name, _SCALE) for name in made]
        return stage.without(gone).adding(made).noting(changes)
    weight, bias = stage.state[target["weight"]], stage.state.get(target["bias"])
    if not weight.shape or weight.shape[0] != tensors[0].shape[0]:
        error = CheckpointError(
            "a batch norm has other channels than its layer",
            fqn=norm,
            found=tensors[0].shape,
            expected=f"as many as {target['weight']} has: {weight.shape}",
        )
        return stage.noting(problems=[error])
    made = {
        target["weight"]: weight.map(_times(_factor(tensors, eps))),
        target["bias"]: _merged_bias(bias, tensors, eps),
    }
    before = (*found, *(n for n in target.values() if n in stage.state))
    changes = [Change(Done.DERIVED, before, name, _MERGED) for name in made]
    return stage.without(gone).adding(made).noting(changes)


def _factor(tensors: list[LazyTensor], eps: float) -> LazyTensor:
    weight, _, _, variance = tensors

    def factor(values: "torch.Tensor") -> "torch.Tensor":
        import torch

        return values / torch.sqrt(variance.load() + eps)

    return weight.map(factor)


def _addend(tensors: list[LazyTensor], eps: float) -> LazyTensor:
    _, bias, mean, _ = tensors

    def addend(values: "torch.Tensor") -> "torch.Tensor":
        return -mean.load() * _factor(tensors, eps).load() + values

    return bias.map(addend)


def _times(factor: LazyTensor) -> "Callable[[torch.Tensor], torch.Tensor]":
    def times(values: "torch.Tensor") -> "torch.Tensor":
        return values * factor.load().reshape(-1, *[1] * (values.dim() - 1))

    return times


def _merged_bias(bias: LazyTensor | None, tensors: list[LazyTensor], eps: float) -> LazyTensor:
    if bias is None:
        return _addend(tensors, eps)

    def merged(values: "torch.Tensor") -> "torch.Tensor":
        return values * _factor(tensors, eps).load() + _addend(tensors, eps).load()

    return bias.map(merged)
