"""Wrappers of torchao 0.5 to 0.17 that scale activations, or quantize them with known scales."""

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor
from qconfig.configs.choices import MappingType
from qconfig.configs.granularity import PerTensor
from qconfig.dialects.torchao.stored import Stored, StoredFunction
from qconfig.dialects.torchao.tensors import activation_changes as changes
from qconfig.dialects.torchao.tensors import arithmetic
from qconfig.dialects.torchao.tensors.activation import float8_kwargs_of
from qconfig.dialects.torchao.tensors.reading import Context, Fields, Read, inner, wrong
from qconfig.errors import MigrationError
from qconfig.layouts.activation import Int8Arithmetic, QuantizeTensorToInt8Kwargs
from qconfig.versioning import Layout, registry

if TYPE_CHECKING:
    import torch

_WIDER = {
    DType.BFLOAT16: DType.FLOAT32,
    DType.FLOAT16: DType.FLOAT64,
    DType.FLOAT32: DType.FLOAT64,
    DType.FLOAT64: DType.FLOAT64,
}
_HAS_PRE_SCALE = {
    "Float8TensorLayout": 3,
    "Int4OpaqueTensorLayout": 2,
    "Int4PlainInt32TensorLayout": 2,
    "Int4TensorLayout": 3,
    "Int4TilePackedTo4dTensorLayout": 2,
    "Int8TensorLayout": 3,
    "IntxUnpackedToInt8TensorLayout": 3,
    "UintxTensorLayout": 2,
}
_DOUBLE = (
    "the divisor of activations is carried as its reciprocal, both in float64: a product differs "
    "from the quotient by at most 2**-52 of it"
)


def read_scaled(stored: Stored, context: Context) -> Read:
    """Read a WeightTensorWithLinearActivationScaleMetadata, which divides activations by `scale`.

    Ours multiply, by the reciprocal in the next wider type: the product, rounded to the type of the
    divisor, is then the quotient.

    Raises:
        MigrationError: a weight whose layout has no factor for activations, or has one already.
        ContainerError or UnknownFieldError: fields that no release wrote.
    """
    fields = Fields(stored)
    weight = inner(context, fields.take("original_weight_tensor"), "original_weight_tensor")
    divisor = fields.tensor("scale")
    fields.done()
    wide = _WIDER.get(divisor.dtype)
    if wide is None:
        raise wrong("scale", divisor.dtype.value, "a floating-point type")
    name = registry.entry_of(type(weight.layout)).name
    version = _HAS_PRE_SCALE.get(name)
    if version is None:
        raise MigrationError(
            f"{weight.origin.type} has no factor for activations",
            pointer="/scale",
            found=name,
            expected="one of " + ", ".join(_HAS_PRE_SCALE),
        )
    quantizes = name == "Int8TensorLayout" and _quantizes(weight.layout)
    result = weight.at_least(5 if quantizes else version)
    if getattr(result.layout, "act_pre_scale", None) is not None:
        raise MigrationError(
            "activations are scaled twice",
            pointer="/scale",
            found=f"{weight.origin.type} with a factor for activations",
            expected="a weight without one",
        )
    columns = result.layout.shape[-1]
    if not divisor.shape or divisor.shape[-1] not in (1, columns):
        divisor = divisor.reshape(*divisor.shape, 1)
    factor = divisor.map(partial(_reciprocal, dtype=wide), dtype=wide)
    if factor.shape[-1] == 1 and columns != 1:
        factor = factor.map(
            partial(_repeated, columns=columns), shape=(*factor.shape[:-1], columns)
        )
    notes: tuple[str, ...] = (_DOUBLE,) if divisor.dtype is DType.FLOAT64 else ()
    added: dict[str, Any] = {"act_pre_scale": factor}
    if quantizes:
        how: Int8Arithmetic | None = result.layout.arithmetic  # type: ignore[attr-defined]
        if how is None:
            notes += (changes.UNROUNDED_QUOTIENT,)
        else:
            added["arithmetic"] = attrs.evolve(how, rounds_scaled=True)
    return result.with_fields(**added).noting(changes=notes).inside(stored.name)


def _quantizes(layout: Layout) -> bool:
    return getattr(layout, "act_quant_kwargs", None) is not None


def read_static(stored: Stored, context: Context) -> Read:
    """Read a WeightTensorWithLinearActivationQuantizationMetadata: known scales of activations.

    Raises:
        MigrationError: a function that does not go with the weight.
        ContainerError or UnknownFieldError: fields that no release wrote.
    """
    fields = Fields(stored)
    weight = inner(context, fields.take("original_weight_tensor"), "original_weight_tensor")
    function = fields.value("input_quant_func_static", StoredFunction)
    kwargs = {**function.kwargs, **(fields.optional("quant_kwargs", dict) or {})}
    scale, zero_point = fields.tensor("scale"), fields.optional_tensor("zero_point")
    fields.done()
    name = registry.entry_of(type(weight.layout)).name
    how = function.name, name
    if how == ("_input_activation_quant_func_fp8", "Float8TensorLayout") and zero_point is None:
        result = weight.with_fields(
            act_quant_scale=scale, act_quant_kwargs=float8_kwargs_of(kwargs)
        )
    elif how == ("_ActQuantizer.static_quantize", "Int8TensorLayout") and not kwargs:
        result = _static_int8(weight, scale, zero_point)
    else:
        raise MigrationError(
            f"{function.name} does not go with {weight.origin.type}",
            pointer="/input_quant_func_static",
            found=function.name,
            expected="_input_activation_quant_func_fp8 or _ActQuantizer.static_quantize",
        )
    return result.inside(stored.name)


def _static_int8(weight: Read, scale: LazyTensor, zero_point: LazyTensor | None) -> Read:
    if any(n != 1 for n in scale.shape):
        raise wrong("scale", scale.shape, "one scale for all activations")
    how = QuantizeTensorToInt8Kwargs(PerTensor(), MappingType.SYMMETRIC)
    codes = None
    if zero_point is not None:
        codes = zero_point.map(_to_int8, dtype=DType.INT8).reshape(1, 1)
    return arithmetic.following(
        weight.at_least(5),
        arithmetic.of_static(),
        act_quant_scale=scale.reshape(1, 1),
        act_quant_zero_point=codes,
        act_quant_kwargs=how,
    )


def _reciprocal(divisor: "torch.Tensor", *, dtype: DType) -> "torch.Tensor":
    return divisor.to(dtype.to_torch()).reciprocal()


def _repeated(factor: "torch.Tensor", *, columns: int) -> "torch.Tensor":
    return factor.expand(*factor.shape[:-1], columns).contiguous()


def _to_int8(zero_point: "torch.Tensor") -> "torch.Tensor":
    import torch

    if bool(((zero_point < -128) | (zero_point > 127)).any()):
        raise MigrationError(
            "zero_point does not fit int8",
            pointer="/zero_point",
            found=zero_point.tolist(),
            expected="a code from -128 to 127",
        )
    return zero_point.to(torch.int8)
