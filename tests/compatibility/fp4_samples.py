"""MX and NVFP4 tensors of stored files, as layouts of the form that their release wrote."""

from typing import Any

import torch
from safetensors.torch import load_file

from qconfig.configs.choices import KernelPreference, ScaleCalculationMode
from qconfig.layouts.mx import MXElementType, MXTensorLayout, QuantizeTensorToMXKwargs
from qconfig.layouts.nvfp4 import NVFP4TensorLayout, QuantizeTensorToNVFP4Kwargs
from qconfig.migrations.mx_tensor_layout import (
    MXElementTypeV1,
    MXTensorLayoutV1,
    MXTensorLayoutV2,
    MXTensorLayoutV3,
    MXTensorLayoutV4,
    QuantizeTensorToMXKwargs013,
)
from qconfig.migrations.nvfp4_tensor_layout import NVFP4TensorLayoutV2, NVFP4TensorLayoutV3
from qconfig.versioning import Layout
from tests.torchao_files import Sample

_ELEMENTS = {
    "mxfp4": MXElementType.FLOAT4_E2M1FN_X2,
    "mxfp6_e2m3": MXElementType.FP6_E2M3,
    "mxfp8": MXElementType.FLOAT8_E4M3FN,
}


def layouts(sample: Sample) -> dict[str, Layout]:
    """Return the quantized tensors by parameter name, as layouts of the release's form."""
    parts: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in load_file(sample.file).items():
        if "::" in name:
            parameter, _, field = name.partition("::")
            parts.setdefault(parameter, {})[field.lstrip("_")] = tensor
        elif "._weight_" in name:
            module, _, field = name.partition("._weight_")
            parts.setdefault(f"{module}.weight", {})[field] = tensor
    dtype = load_file(sample.weights).popitem()[1].dtype
    minor = int(sample.release.split(".")[1])
    for fields in parts.values() if minor >= 10 else ():
        for name in {"scale_e8m0", "scale"} & fields.keys():
            if fields[name].dtype == torch.uint8:  # the collection had no other way to store it
                fields[name] = fields[name].view(torch.float8_e8m0fnu)
    make = _nvfp4 if "nvfp4" in sample.id else _mx
    return {parameter: make(sample, minor, fields, dtype) for parameter, fields in parts.items()}


def _mx(sample: Sample, minor: int, fields: dict[str, Any], dtype: torch.dtype) -> Layout:
    kind = next(k for k in _ELEMENTS if k in sample.id)
    element = _ELEMENTS[kind]
    common: dict[str, Any] = {"block_size": 32, "dtype": dtype}
    if minor < 13:
        old = "fp4_e2m1" if kind == "mxfp4" else element.value
        form = MXTensorLayoutV1 if minor < 10 else MXTensorLayoutV2
        return form(**fields, elem_dtype=MXElementTypeV1(old), **common)
    if minor < 15:
        kwargs = QuantizeTensorToMXKwargs013(element) if "inference" in sample.id else None
        return MXTensorLayoutV3(**fields, elem_dtype=element, act_quant_kwargs=kwargs, **common)
    common["kernel_preference"] = KernelPreference.EMULATED
    if "dynact" in sample.id:
        common["act_quant_kwargs"] = QuantizeTensorToMXKwargs(
            element, scaling_mode=ScaleCalculationMode.RCEIL, is_swizzled_scales=True
        )
    common["is_swizzled_scales"] = "dynact" in sample.id
    form = MXTensorLayoutV4 if minor == 15 else MXTensorLayout
    return form(**fields, elem_dtype=element, **common)


def _nvfp4(sample: Sample, minor: int, fields: dict[str, Any], dtype: torch.dtype) -> Layout:
    kwargs = None
    if "dyn" in sample.id:
        kwargs = QuantizeTensorToNVFP4Kwargs(use_dynamic_per_tensor_scale="pts" in sample.id)
    common: dict[str, Any] = {
        "block_size": 16,
        "dtype": dtype,
        "act_quant_kwargs": kwargs,
        "is_swizzled_scales": "config" in sample.id,
    }
    if minor < 15:
        return NVFP4TensorLayoutV2(**fields, **common)
    if minor == 15:
        return NVFP4TensorLayoutV3(**fields, **common)
    rounds = minor < 18 and "per_tensor_scale" in fields
    return NVFP4TensorLayout(**fields, **common, rounds_scales=rounds)
