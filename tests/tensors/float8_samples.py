"""Float8 tensors for tests, of every form the layout allows, and torchao's beside them."""

import logging
import warnings
from typing import Any

import torch

from qconfig.configs import PerBlock, PerGroup, PerRow, PerTensor, PerToken
from qconfig.layouts.float8 import QuantizeTensorToFloat8Kwargs
from qconfig.tensors.float8 import Float8Tensor
from qconfig.tensors.float8_quantize import quantize_float8
from tests.tensors.samples import float_weight

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
GRANULARITIES: dict[str, Any] = {
    "row": PerRow(),
    "tensor": PerTensor(),
    "group": PerGroup(32),
    "tile": PerBlock((16, 32)),
    "column": PerRow(0),
}
ACTIVATIONS = {
    "none": None,
    "row": QuantizeTensorToFloat8Kwargs(granularity=PerRow()),
    "tensor": QuantizeTensorToFloat8Kwargs(granularity=PerTensor()),
    "token_e5m2": QuantizeTensorToFloat8Kwargs("float8_e5m2", PerToken()),
    "tile": QuantizeTensorToFloat8Kwargs(granularity=PerBlock((1, 32))),
    "bounds": QuantizeTensorToFloat8Kwargs(hp_value_lb=1.0, hp_value_ub=1.5),
}


def torchao_float8() -> tuple[Any, Any]:
    """Return torchao's Float8Tensor and its granularity module."""
    logging.getLogger("torchao").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchao.quantization import Float8Tensor as Theirs
        from torchao.quantization import granularity
    return Theirs, granularity


def theirs(weight: torch.Tensor, granularity: Any, dtype: torch.dtype = E4M3) -> Any:
    """Return torchao's tensor for one of our granularities."""
    tensor_class, module = torchao_float8()
    peers = {
        PerRow: lambda g: module.PerRow(g.dim),
        PerTensor: lambda _: module.PerTensor(),
        PerGroup: lambda g: module.PerGroup(g.group_size),
        PerBlock: lambda g: module.PerBlock(g.block_size),
    }
    return tensor_class.from_hp(weight, dtype, peers[type(granularity)](granularity))


def packed(
    *shape: int,
    granularity: Any = None,
    dtype: torch.dtype = torch.float32,
    codes: torch.dtype = E4M3,
    seed: int = 0,
    **fields: Any,
) -> Float8Tensor:
    """Return a quantized weight, by default (32, 64) with a scale a row."""
    weight = float_weight(*shape, dtype=dtype, seed=seed)
    block = (granularity or PerRow()).block_of(tuple(weight.shape))
    qdata, scale = quantize_float8(weight, block, codes)
    return Float8Tensor(qdata, scale, block, dtype, **fields)


def exact(tensor: Float8Tensor) -> torch.Tensor:
    """Return the exact values in float64, computed from the fields directly."""
    scale = tensor.scale.double()
    for dim, block in enumerate(tensor.block_size):
        scale = scale.repeat_interleave(block, dim)
    return tensor.qdata.double() * scale


def bits(codes: torch.Tensor) -> torch.Tensor:
    """Return codes as bytes, which compare bit by bit."""
    return codes.view(torch.uint8)
