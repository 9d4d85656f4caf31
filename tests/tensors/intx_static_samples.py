"""Intx tensors with static activation scales, of every form the layout allows."""

from typing import Any

import torch

from qconfig.builders.intx_static import IntxStaticBuilder
from qconfig.codec.dtypes import DType
from qconfig.configs import Int8StaticActivationIntxWeightConfig, PerAxis, PerGroup, PerTensor
from qconfig.configs.choices import MappingType
from qconfig.tensors.intx_static import IntxStaticActivationTensor
from tests.tensors.samples import float_weight

ROWS, GROUPS = PerAxis(0), PerGroup(16)
ASYMMETRIC = MappingType.ASYMMETRIC


def config(
    *,
    bits: int = 4,
    granularity: Any = GROUPS,
    act_scale: Any = 0.03,
    act_zero_point: Any = None,
    output_scale: Any = None,
    output_zero_point: Any = None,
    **fields: Any,
) -> Int8StaticActivationIntxWeightConfig:
    """Return a config that carries scales: numbers per tensor, lists or tensors per channel."""
    scale, output = _tensor(act_scale), _tensor(output_scale)
    per_channel = scale is not None and scale.numel() > 1
    return Int8StaticActivationIntxWeightConfig(
        weight_dtype=DType(f"int{bits}"),
        weight_granularity=granularity,
        act_quant_scale=scale,
        act_quant_zero_point=_tensor(act_zero_point),
        act_granularity=PerAxis(-1) if per_channel else PerTensor(),
        quantize_and_dequantize_output=output is not None,
        output_act_quant_scale=output,
        output_act_quant_zero_point=_tensor(output_zero_point),
        **fields,
    )


def packed(
    *shape: int, dtype: torch.dtype = torch.float32, seed: int = 0, **options: Any
) -> IntxStaticActivationTensor:
    """Return a quantized weight, by default (32, 64), int4 in groups of 16, scale 0.03."""
    weight = float_weight(*shape, dtype=dtype, seed=seed)
    tensor = IntxStaticBuilder().build(config(**options), weight)
    assert isinstance(tensor, IntxStaticActivationTensor)
    return tensor


def channel_scales(size: int, dtype: torch.dtype = torch.float32, seed: int = 5) -> torch.Tensor:
    """Return a positive scale for each of `size` channels."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(size, generator=generator) * 0.05 + 0.01).to(dtype)


def zero_points(size: int, seed: int = 6) -> torch.Tensor:
    """Return a zero point for each of `size` channels, int8."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-128, 128, (size,), dtype=torch.int8, generator=generator)


def reference(tensor: Any, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Return what linear means, in float64 and by the letter, the output not quantized."""
    codes = static_reference(x, tensor.act_quant_scale, tensor.act_quant_zero_point)
    scale, zero = tensor.scale.double(), tensor.zero_point
    zero = torch.zeros_like(scale) if zero is None else zero.double()
    repeats = tensor.shape[1] // scale.shape[1]
    weight = tensor.qdata.double() - zero.repeat_interleave(repeats, 1)
    weight = weight * scale.repeat_interleave(repeats, 1)
    result = codes @ weight.T
    return result if bias is None else result + bias.double()


def static_reference(
    x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor | None
) -> torch.Tensor:
    """Return values quantized as the layout says, codes chosen in float32, values in float64."""
    zero = torch.zeros_like(scale, dtype=torch.int64) if zero_point is None else zero_point.long()
    codes = torch.round(x.float() * (1 / scale.float())) + zero
    return (codes.clamp(-128, 127).double() - zero) * scale.double()


def _tensor(value: Any) -> torch.Tensor | None:
    if value is None or isinstance(value, torch.Tensor):
        return value
    return torch.tensor(value)
