"""Int4 tensors for tests, and what follows from the formulas in float64."""

from typing import Any

import torch

from qconfig.tensors import int4_codes
from qconfig.tensors.int4 import Int4Tensor
from qconfig.tensors.int4_quantize import quantize_tinygemm
from tests.tensors.samples import float_weight

FLOATS = (torch.bfloat16, torch.float16, torch.float32)


def packed_int4(
    *shape: int, group: int = 32, dtype: torch.dtype = torch.float32, seed: int = 0, **fields: Any
) -> Int4Tensor:
    """Return a quantized weight, by default (32, 64)."""
    weight = float_weight(*shape, dtype=dtype, seed=seed)
    qdata, scale, zero_point = quantize_tinygemm(weight, group)
    swapped = (t.transpose(-1, -2).contiguous() for t in (scale, zero_point))
    block = (*(1 for _ in weight.shape[:-1]), group)
    return Int4Tensor(qdata, *swapped, block, tuple(weight.shape), dtype, **fields)


def double(tensor: Int4Tensor) -> torch.Tensor:
    """Return the exact values in float64, computed from the fields of an untransposed tensor."""
    group = tensor.block_size[-1]
    scale, zero = (
        t.double().transpose(-1, -2).repeat_interleave(group, -1)
        for t in (tensor.scale, tensor.zero_point)
    )
    return int4_codes.unpack(tensor.qdata).double() * scale + zero


def assert_close(found: torch.Tensor, exact: torch.Tensor, steps: int = 8) -> None:
    """Compare with an exact result, in roundings of the type of what was found."""
    error = (found.double() - exact).abs().max() / exact.abs().max()
    assert error <= steps * torch.finfo(found.dtype).eps
