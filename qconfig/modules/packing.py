"""From quantized weights that hold their values to packed ones: what a trained model deploys as."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from qconfig.errors import QconfigError, raise_problems
from qconfig.tensors.quant_tensor import GroupwiseIntQuantTensor, IntQuantTensor
from qconfig.tensors.quant_tensor.packing import to_packed

_KINDS = (nn.Linear, nn.Embedding)


@torch.no_grad()
def pack(model: nn.Module) -> list[str]:
    """Put packed weights in place of integers that a model keeps as values.

    `freeze(model)` makes such weights of what was trained. Packed, they hold a byte for each
    integer, run with the kernels of the packed family, and dequantize to the same values, bit for
    bit. Weights of torch's own Linear and Embedding are packed; those of convolutions, and of
    modules that round activations, stay as they are. Either all are packed or none.

    Args:
        model: any module; it is changed.

    Returns:
        The names of the weights that were packed.

    Raises:
        QconfigError: weights that cannot be packed, all of them, with the reasons.
    """
    packed: dict[int, nn.Parameter] = {}
    problems: list[QconfigError] = []
    found = list(_weights(model))
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
