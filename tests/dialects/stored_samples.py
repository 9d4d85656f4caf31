"""Parts of tensors as torchao stored them, made by hand: small, with the fields of a pickle."""

from collections.abc import Mapping
from typing import Any

import attrs
import torch

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.stored import Stored, StoredEnum, StoredFunction, StoredObject

N, K, G = 64, 128, 32
BF16 = DType.BFLOAT16


def lazy(*shape: int, dtype: torch.dtype = torch.bfloat16, fill: float = 1) -> LazyTensor:
    """Return a tensor of one value."""
    return LazyTensor.of(torch.full(shape, fill).to(dtype))


def int8(*shape: int, dtype: torch.dtype = torch.int8) -> LazyTensor:
    """Return codes from -8 to 7, or the same counted from 0."""
    count = int(torch.tensor(shape).prod())
    codes = torch.arange(count).reshape(shape) % 16
    return LazyTensor.of((codes - 8 if dtype is torch.int8 else codes).to(dtype))


def float8(*shape: int) -> LazyTensor:
    """Return float8 codes."""
    return lazy(*shape, dtype=torch.float8_e4m3fn)


def stored(name: str, path: str, **fields: Any) -> Stored:
    """Return a tensor of (N, K) that shows bfloat16."""
    return Stored(name, f"{path}.{name}", BF16, (N, K), fields)


def member(name: str, which: str) -> StoredEnum:
    """Return a member of an enum."""
    return StoredEnum(name, which)


def domain(which: str) -> StoredEnum:
    """Return a member of ZeroPointDomain."""
    return member("ZeroPointDomain", which)


def affine(implementation: Stored, **shell: Any) -> Stored:
    """Return an AffineQuantizedTensor around an arrangement of 0.7 or later."""
    values = {
        "tensor_impl": implementation,
        "block_size": (1, K),
        "quant_min": None,
        "quant_max": None,
        "zero_point_domain": domain("INT"),
    }
    path = "torchao.dtypes.affine_quantized_tensor"
    return stored("AffineQuantizedTensor", path, **values | shell)


def inside(name: str, module: str, layout: str, layout_fields: Any = None, **fields: Any) -> Stored:
    """Return an arrangement, with the object that names it."""
    named = StoredObject(layout, layout_fields or {})
    key = "layout_type" if name.endswith("AQTLayout") else "_layout"
    return Stored(name, f"{module}.{name}", DType.INT8, (N, K), {**fields, key: named})


def plain(**fields: Any) -> Stored:
    """Return plain int8 codes with one scale a row, as 0.7 to 0.17 stored them."""
    values = {"int_data": int8(N, K), "scale": lazy(N), "zero_point": lazy(N, dtype=torch.int64)}
    return inside(
        "PlainAQTTensorImpl",
        "torchao.dtypes.uintx.plain_layout",
        "PlainLayout",
        **values | fields,
    )


def int8_weight() -> Stored:
    """Return an int8 weight as 0.7 to 0.17 stored it."""
    return affine(plain())


def intx_weight() -> Stored:
    """Return an int4 weight, one code an int8, as 0.10 to 0.16 stored it."""
    codes = inside(
        "QDQTensorImpl",
        "torchao.dtypes.uintx.q_dq_layout",
        "QDQLayout",
        int_data=int8(N, K),
        scale=lazy(N, K // G),
        zero_point=lazy(N, K // G, dtype=torch.int8, fill=0),
    )
    return affine(codes, block_size=(1, G), quant_min=-8, quant_max=7)


def float8_weight(**fields: Any) -> Stored:
    """Return a float8 weight with one scale a row, as 0.7 to 0.16 stored it."""
    values = {"float8_data": float8(N, K), "scale": lazy(N), "transposed": False}
    codes = inside(
        "Float8AQTTensorImpl",
        "torchao.dtypes.floatx.float8_layout",
        "Float8Layout",
        {"mm_config": MM_CONFIG},
        **values | fields,
    )
    return affine(codes, quant_min=-448.0, quant_max=448.0, zero_point_domain=domain("NONE"))


def quantized(weight: Stored, function: str, **kwargs: Any) -> Stored:
    """Return a weight that quantizes its activations by a function of torchao's."""
    return stored(
        "LinearActivationQuantizedTensor",
        "torchao.quantization.linear_activation_quantized_tensor",
        original_weight_tensor=weight,
        input_quant_func=StoredFunction(function),
        quant_kwargs=kwargs,
    )


def scaled(weight: Stored, scale: LazyTensor) -> Stored:
    """Return a weight that divides its activations."""
    return stored(
        "WeightTensorWithLinearActivationScaleMetadata",
        "torchao.quantization.linear_activation_scale",
        original_weight_tensor=weight,
        scale=scale,
    )


def static(weight: Stored, function: str, **fields: Any) -> Stored:
    """Return a weight that quantizes its activations with a known scale."""
    values = {"scale": lazy(dtype=torch.float32), "zero_point": None, "quant_kwargs": {}}
    return stored(
        "WeightTensorWithLinearActivationQuantizationMetadata",
        "torchao.quantization.weight_tensor_linear_activation_quantization",
        original_weight_tensor=weight,
        input_quant_func_static=StoredFunction(function),
        **values | fields,
    )


MM_CONFIG = StoredObject(
    "Float8MMConfig", {"emulate": False, "use_fast_accum": True, "pad_inner_dim": False}
)
PER_ROW, PER_TENSOR = StoredObject("PerRow"), StoredObject("PerTensor")
FP8_KWARGS: Mapping[str, Any] = {
    "activation_granularity": PER_ROW,
    "activation_dtype": DType.FLOAT8_E4M3FN,
}
FLOAT8_ACTIVATION = StoredObject(
    "QuantizeTensorToFloat8Kwargs",
    {
        "float8_dtype": DType.FLOAT8_E4M3FN,
        "granularity": PER_ROW,
        "mm_config": None,
        "hp_value_lb": 0.001,
        "hp_value_ub": None,
        "kernel_preference": member("KernelPreference", "FBGEMM"),
    },
)
INT8_ACTIVATION = StoredObject(
    "QuantizeTensorToInt8Kwargs",
    {
        "granularity": StoredObject("PerRow", {"dim": -1}),
        "mapping_type": member("MappingType", "SYMMETRIC"),
    },
)


def chosen(name: str) -> Stored:
    """Return a weight that autoquant chose, and that quantizes activations to int8."""
    weight = quantized(int8_weight(), "_int8_symm_per_token_reduced_range_quant")
    return attrs.evolve(weight, name=name, path=f"torchao.quantization.autoquant.{name}")


def stretched() -> Stored:
    """Return a weight with codes around a half, as 0.13 stored it."""
    weight, name = intx_weight(), "StretchedAffineQuantizedTensor"
    codes: Stored = weight.fields["tensor_impl"]
    groups = {"scale": lazy(N, K // G, 1), "zero_point": lazy(N, K // G, 1, fill=-0.5)}
    codes = attrs.evolve(codes, fields=codes.fields | groups)
    said = {"tensor_impl": codes, "zero_point_domain": domain("FLOAT")}
    path = "torchao.prototype.parq.quant.quant_api"
    return stored(name, path, **weight.fields | said)
