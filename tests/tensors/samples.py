"""Int8 tensors for tests, of every form the layout allows."""

from typing import Any

import torch

from qconfig.configs import PerAxis, PerGroup, PerRow, PerTensor
from qconfig.tensors import Int8Tensor
from qconfig.tensors.int8_quantize import quantize_int8

GRANULARITIES = {
    "row": PerRow(),
    "tensor": PerTensor(),
    "group": PerGroup(16),
    "column": PerRow(0),
    "axis": PerAxis(0),
}
FLOATS = (torch.bfloat16, torch.float16, torch.float32)


def float_weight(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Return a normal weight, the same for a seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape or (32, 64), generator=generator).to(dtype)


def packed(
    *shape: int,
    granularity: Any = None,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    zero_point: bool = False,
    **fields: Any,
) -> Int8Tensor:
    """Return a quantized weight, by default (32, 64) with a scale a row."""
    weight = float_weight(*shape, dtype=dtype, seed=seed)
    block = (granularity or PerRow()).block_of(tuple(weight.shape))
    codes, scale = quantize_int8(weight, block)
    if zero_point:
        generator = torch.Generator().manual_seed(seed + 1)
        zero = torch.randint(-128, 128, scale.shape, dtype=torch.int8, generator=generator)
        fields["zero_point"] = zero
    return Int8Tensor.from_fields(codes, scale, block, dtype, **fields)


def activation(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return normal activations, the same for a shape."""
    return float_weight(*shape, dtype=dtype, seed=99)


def double(tensor: Int8Tensor) -> torch.Tensor:
    """Return the exact values in float64, computed from the fields directly."""
    scale = tensor.scale.double()
    zero = torch.zeros_like(scale) if tensor.zero_point is None else tensor.zero_point.double()
    for dim, block in enumerate(tensor.block_size):
        scale = scale.repeat_interleave(block, dim)
        zero = zero.repeat_interleave(block, dim)
    return (tensor.qdata.double() - zero) * scale
