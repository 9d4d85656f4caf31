"""Tensors as torchao 0.18 flattens them, and files that hold them in one shard or several."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from qconfig.codec.safetensors_header import read_header
from qconfig.codec.safetensors_reader import lazy_tensors
from qconfig.dialects.torchao.safetensors_read import Flattened, read_flattened
from tests.tensors.torchao_peer import quiet_torchao

with quiet_torchao():
    from torchao.float8.inference import Float8MMConfig
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import MXTensor, QuantizeTensorToMXKwargs
    from torchao.prototype.mx_formats.nvfp4_tensor import (
        NVFP4Tensor,
        QuantizeTensorToNVFP4Kwargs,
    )
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
    from torchao.quantization import (
        Float8Tensor,
        Int4PlainInt32Tensor,
        Int4Tensor,
        Int4TilePackedTo4dTensor,
        Int8Tensor,
        IntxUnpackedToInt8Tensor,
        MappingType,
    )
    from torchao.quantization.granularity import PerRow, PerTensor
    from torchao.quantization.quantize_.common import KernelPreference
    from torchao.quantization.quantize_.workflows import (
        QuantizeTensorToFloat8Kwargs,
        QuantizeTensorToInt8Kwargs,
    )

Files = Mapping[str, tuple[Mapping[str, torch.Tensor], Mapping[str, str]]]
"""Tensors and metadata by file name."""


def weight(*shape: int, seed: int = 0, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Return random values."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def torchao_tensors() -> dict[str, torch.Tensor]:
    """Return one tensor of each class and kind of activation, made by torchao itself."""
    mm_config = Float8MMConfig(use_fast_accum=True)
    bits = torch.randint(-128, 128, (16, 32), dtype=torch.int8)
    row, tensor = PerRow(), PerTensor()
    int8 = QuantizeTensorToInt8Kwargs(granularity=row)
    fp4 = torch.float4_e2m1fn_x2
    emulated = KernelPreference.EMULATED
    mx_kwargs = QuantizeTensorToMXKwargs(elem_dtype=fp4, scaling_mode=ScaleCalculationMode.RCEIL)
    return {
        "int8_rows": Int8Tensor.from_hp(weight(16, 64), row),
        "int8_tensor": Int8Tensor.from_hp(
            weight(16, 64),
            tensor,
            act_quant_kwargs=QuantizeTensorToInt8Kwargs(tensor, MappingType.ASYMMETRIC),
            act_quant_scale=torch.full((1, 1), 0.02),
            act_quant_zero_point=torch.zeros(1, 1, dtype=torch.int8),
        ),
        "int8_scaled": Int8Tensor.from_hp(
            weight(16, 64), row, act_quant_kwargs=int8, act_pre_scale=weight(64, seed=1).abs()
        ),
        "int8_experts": Int8Tensor.from_hp(weight(3, 16, 64), row),
        "int4": Int4Tensor(
            bits, weight(2, 16).abs(), weight(2, 16, seed=2), [1, 32], torch.Size((16, 64))
        ),
        "int4_float8": Int4Tensor(
            bits,
            weight(2, 16).abs(),
            torch.zeros(2, 16, dtype=torch.bfloat16),
            [1, 32],
            torch.Size((16, 64)),
            act_pre_scale=weight(64, seed=1).abs(),
            activation_dtype=torch.float8_e4m3fn,
        ),
        "intx": IntxUnpackedToInt8Tensor.from_hp(weight(16, 64), (1, 32), torch.int4),
        "intx_tokens": IntxUnpackedToInt8Tensor.from_hp(
            weight(16, 64), (1, 64), torch.int3, activation_quantization="int8_asym_per_token"
        ),
        "float8_rows": Float8Tensor.from_hp(weight(16, 64), granularity=row),
        "float8_dynamic": Float8Tensor.from_hp(
            weight(16, 64),
            granularity=tensor,
            mm_config=mm_config,
            act_quant_kwargs=QuantizeTensorToFloat8Kwargs(
                granularity=tensor, mm_config=mm_config, hp_value_lb=0.5, hp_value_ub=100.0
            ),
        ),
        "float8_experts": Float8Tensor.from_hp(weight(3, 16, 64), granularity=row),
        "mxfp8": MXTensor.to_mx(weight(16, 64), torch.float8_e4m3fn, kernel_preference=emulated),
        "mxfp4": MXTensor.to_mx(weight(16, 64), fp4, act_quant_kwargs=mx_kwargs),
        "mxfp6": MXTensor.to_mx(weight(16, 64), "fp6_e2m3", kernel_preference=emulated),
        "mx_swizzled": MXTensor.to_mx(
            weight(128, 128), torch.float8_e4m3fn, is_swizzled_scales=True
        ),
        "nvfp4": NVFP4Tensor.to_nvfp4(weight(16, 64)),
        "nvfp4_second": NVFP4Tensor.to_nvfp4(
            weight(128, 64),
            per_tensor_scale=torch.tensor(0.25),
            act_per_tensor_scale=torch.tensor(0.5),
            is_swizzled_scales=True,
            act_quant_kwargs=QuantizeTensorToNVFP4Kwargs(use_dynamic_per_tensor_scale=True),
        ),
    }


def packed_elsewhere() -> dict[str, torch.Tensor]:
    """Return tensors that torchao flattens and that have no present-day layout of their own."""
    shape = torch.Size((16, 64))
    return {
        "tiles": Int4TilePackedTo4dTensor(
            torch.zeros(2, 8, 32, 4, dtype=torch.int32), weight(32, 16, 2), [1, 32], shape
        ),
        "words": Int4PlainInt32Tensor(
            torch.zeros(16, 8, dtype=torch.int32),
            weight(2, 16),
            torch.zeros(2, 16, dtype=torch.int8),
            [1, 32],
            shape,
        ),
    }


def flattened(
    tensors: Mapping[str, torch.Tensor],
) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Return what torchao 0.18 gives to safetensors."""
    parts, metadata = flatten_tensor_state_dict(dict(tensors))
    return {key: part.contiguous() for key, part in parts.items()}, metadata


def named(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return tensors under the names of weights in modules."""
    return {f"model.{name}.weight": tensor for name, tensor in tensors.items()}


def read_files(directory: Path, files: Files) -> Flattened:
    """Write files with the reference library and read them with ours."""
    headers = {}
    for name, (tensors, metadata) in files.items():
        save_file(dict(tensors), directory / name, metadata=dict(metadata))
        headers[name] = read_header(directory / name)
    lazies = {k: t for header in headers.values() for k, t in lazy_tensors(header).items()}
    return read_flattened(headers, lazies)


def changed(metadata: Mapping[str, str], name: str, **entries: Any) -> dict[str, str]:
    """Return metadata with other entries in the description of a tensor; None takes one out."""
    description = json.loads(metadata[name]) | entries
    kept = {key: value for key, value in description.items() if value is not None}
    return {**metadata, name: json.dumps(kept)}
