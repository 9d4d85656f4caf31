"""From quantized weights that hold their values to packed ones: what a trained model deploys as."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from qconfig.errors import QconfigError, UsageError, raise_problems
from qconfig.modules.embedding import QuantEmbedding
from qconfig.modules.layer import QuantWeightLayer
from qconfig.tensors import PackedTensor
from qconfig.tensors.quant_tensor import GroupwiseIntQuantTensor, IntQuantTensor
from qconfig.tensors.quant_tensor.base import QuantTensor
from qconfig.tensors.quant_tensor.packing import to_packed

_KINDS = (nn.Linear, nn.Embedding)
_TRAINS = "modules that are not frozen"
_ROUNDS = "modules that still round activations or a bias"
_NAMED = 3


@torch.no_grad()
def pack(model: nn.Module) -> list[str]:
    """Put packed weights in place of integers that a model keeps as values.

    `freeze(model)` makes such weights of what was trained. Packed, they hold a byte for each
    integer, run with the kernels of the packed family, and dequantize to the same values, bit for
    bit. Weights of torch's own Linear and Embedding are packed; those of convolutions, and of
    modules that round activations, stay as they are; where there are no others, that is an error.
    Either all are packed or none.

    Args:
        model: any module; it is changed.

    Returns:
        The names of the weights that were packed.

    Raises:
        QconfigError: weights that cannot be packed, all of them, with the reasons.
        UsageError: there is nothing to pack, and what there is instead.
    """
    packed: dict[int, nn.Parameter] = {}
    problems: list[QconfigError] = []
    found = list(_weights(model))
    if not found:
        raise _nothing(model)
    for name, _, weight in found:
        if id(weight) in packed:
            continue
        try:
            packed[id(weight)] = nn.Parameter(to_packed(weight.detach()), requires_grad=False)
        except QconfigError as problem:
            problems.append(problem.at(fqn=name))
    raise_problems(problems)
    for _, module, weight in found:
        module.weight = packed[id(weight)]
    return [name for name, _, _ in found]


def _weights(model: nn.Module) -> Iterator[tuple[str, Any, Any]]:
    for prefix, module in model.named_modules():
        if type(module) not in _KINDS:
            continue
        weight: Any = module.weight
        if isinstance(weight, IntQuantTensor | GroupwiseIntQuantTensor):
            yield f"{prefix}.weight" if prefix else "weight", module, weight


def _nothing(model: nn.Module) -> UsageError:
    """Return the error of a model without a weight that could be packed."""
    others: dict[str, list[str]] = defaultdict(list)
    for prefix, module in model.named_modules():
        what = _instead(module)
        if what is not None:
            others[what].append(prefix or "the model")
    said = [
        f"{what}: {', '.join(names[:_NAMED])}{', …' * (len(names) > _NAMED)}"
        for what, names in others.items()
    ]
    hint = "quantize the weights with an integer config, and freeze the model, first"
    if _TRAINS in others:
        hint = "freeze the model first: pack(freeze(model))"
    elif _ROUNDS in others:
        hint = (
            "packed weights do not round activations: keep the model frozen, or quantize it by a "
            "config without input, output and bias"
        )
    error = UsageError(
        "the model has no weight that could be packed",
        expected="Linear or Embedding modules with frozen weights of integers",
        hint=hint,
    )
    error.found = "; ".join(said) or "no quantized weight"
    return error


def _instead(module: Any) -> str | None:
    """Return what a module has in place of a weight that could be packed, or None."""
    weight: Any = getattr(module, "weight", None)
    if isinstance(module, QuantWeightLayer | QuantEmbedding):
        return _TRAINS if module.weight_quant is not None else _ROUNDS
    if isinstance(weight, PackedTensor):
        return "weights that are packed already"
    if isinstance(weight, QuantTensor):
        return f"{type(module).__name__} with {type(weight).__name__}"
    return None
