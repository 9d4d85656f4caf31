"""Tensors that a config carries in memory: calibrated scales and zero points."""

from typing import TYPE_CHECKING, Any

from attrs import NOTHING

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_documents import tensor_bytes
from qconfig.codec.tensor_values import TensorValue
from qconfig.configs.choices import MappingType
from qconfig.errors import FieldError
from qconfig.versioning import attribute

if TYPE_CHECKING:
    import torch

_LOWEST, _HIGHEST = -128, 127
# Those of fewer bits have no values that torch would give out.
_INTEGERS = frozenset(DType(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64))


def tensor_setting(doc: str, *, required: bool = False) -> Any:
    """Declare a tensor of a config; two are equal if dtype, shape and every bit are.

    Args:
        doc: one sentence; it becomes the description in the JSON Schema.
        required: whether the constructor wants it; else it may be None, which is the default.
    """
    return attribute(doc, default=NOTHING if required else None, eq=_content)


def _content(value: Any) -> Any:
    """Return what a tensor is compared and hashed by."""
    if value is None or not _is_plain(value):
        return value
    return DType.parse(value.dtype), tuple(value.shape), tensor_bytes(value)


def _is_plain(value: Any) -> bool:
    import torch

    return type(value) in (torch.Tensor, torch.nn.Parameter)


def check_scale(value: Any, name: str, *, channels: str | None) -> None:
    """Check a static scale; None is no scale.

    Args:
        value: a floating-point tensor of one element, or of one for each channel, which then lie
            along the last dimension.
        name: the field.
        channels: what there may be a scale for each of, such as "input channel"; None for nothing.

    Raises:
        FieldError: another shape or dtype, or a value that is not positive and finite.
    """
    if value is None:
        return
    import torch

    _check_values(value, name)
    if not value.dtype.is_floating_point:
        raise FieldError(
            "a scale is not floating-point",
            pointer=f"/{name}",
            found=str(value.dtype),
            expected="a floating-point dtype",
        )
    _check_shape(value, name, channels)
    wide = value.detach().to(torch.float64)
    if not bool((torch.isfinite(wide) & (wide > 0)).all()):
        raise FieldError(
            "a scale is not positive and finite",
            pointer=f"/{name}",
            found=wide.flatten().tolist(),
            expected="numbers above 0",
        )


def check_zero_point(value: Any, name: str, scale: Any, scale_name: str) -> None:
    """Check a static zero point of int8 codes beside its scale; None is no zero point.

    Args:
        value: an integer tensor of one element, or of as many as `scale` has.
        name: the field.
        scale: the scale, or None.
        scale_name: the field of the scale.

    Raises:
        FieldError: no scale, another shape or dtype, or a value outside of [-128, 127].
    """
    if value is None:
        return
    pointer = f"/{name}"
    _check_values(value, name)
    if DType.parse(value.dtype) not in _INTEGERS:
        raise FieldError(
            "a zero point is not an integer",
            pointer=pointer,
            found=str(value.dtype),
            expected="an integer dtype of 8 bits or more",
        )
    if scale is None:
        raise FieldError(
            "a zero point without a scale",
            pointer=pointer,
            found=tuple(value.shape),
            expected=f"{scale_name} beside it, or null",
        )
    if value.numel() != 1 and tuple(value.shape) != tuple(scale.shape):
        raise FieldError(
            "a zero point has another shape than its scale",
            pointer=pointer,
            found=tuple(value.shape),
            expected=f"one element, or shape {tuple(scale.shape)} as {scale_name} has",
        )
    found = value.detach().flatten().tolist()
    if any(not _LOWEST <= number <= _HIGHEST for number in found):
        raise FieldError(
            "a zero point is no int8 code",
            pointer=pointer,
            found=found,
            expected=f"integers from {_LOWEST} to {_HIGHEST}",
        )


def check_symmetric(mapping: MappingType, zero_point: TensorValue | None) -> None:
    """Check that a symmetric activation has no zero point. Raises FieldError."""
    if mapping is MappingType.SYMMETRIC and zero_point is not None:
        raise FieldError(
            "a symmetric activation has no zero point",
            pointer="/act_quant_zero_point",
            found=tuple(zero_point.shape),
            expected="null, or act_mapping_type ASYMMETRIC",
        )


def check_output(scale: TensorValue | None, *, is_quantized: bool) -> None:
    """Check that a scale of outputs stands where outputs are quantized. Raises FieldError."""
    if scale is not None and not is_quantized:
        raise FieldError(
            "outputs have a scale but are not quantized",
            pointer="/output_act_quant_scale",
            found=tuple(scale.shape),
            expected="null, or quantize_and_dequantize_output true",
        )


def _check_values(value: Any, name: str) -> None:
    """Check for a plain tensor with data in memory."""
    import torch

    if not _is_plain(value) or value.layout != torch.strided or value.is_meta or value.is_quantized:
        raise FieldError(
            "not a plain tensor with data",
            pointer=f"/{name}",
            found=type(value).__name__,
            expected="a strided torch.Tensor",
        )


def _check_shape(value: "torch.Tensor", name: str, channels: str | None) -> None:
    along_last = channels is not None and value.dim() > 0 and value.shape[-1] == value.numel()
    if value.numel() == 1 or (along_last and value.numel()):
        return
    each = f", or one for each {channels} along the last dimension" if channels else ""
    raise FieldError(
        "a scale has a wrong shape",
        pointer=f"/{name}",
        found=tuple(value.shape),
        expected=f"one element{each}",
    )
