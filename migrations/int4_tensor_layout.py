"""Int4TensorLayout: the form of FBGEMM's kernels, then torchao's Int4Tensor release by release.

| ours | torchao | what was new |
|---|---|---|
| 1 | 0.12, FbgemmInt4Tensor | – |
| 2 | 0.13, Int4Tensor | qdata for packed_weight; block_size and shape for group_size |
| 3 | 0.14 to 0.16 (pull request 2753) | act_pre_scale |
| 4 | 0.17 and later (pull request 3714) | activation_dtype |

torchao restores activation_dtype of older files as None, and then refuses cat, view, transpose and
bmm; it was bfloat16. In torchao 0.13 a factor for the activation was a wrapper around the tensor
that divided by it; act_pre_scale is multiplied, so it is the reciprocal.
"""

from typing import Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.errors import LayoutError
from qconfig.layouts.blocks import scale_shape
from qconfig.layouts.int4 import Int4TensorLayout
from qconfig.versioning import Layout, attribute, migration, register_layout, tensor

_SHOWN = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.FLOAT64)


@register_layout("Int4TensorLayout", 1)
@frozen
class Int4TensorLayoutV1(Layout):
    """FbgemmInt4Tensor of torchao 0.12: codes of a matrix, or of several, two a byte."""

    packed_weight: TensorValue = tensor("Codes, two a byte along the last.", "int8", "*B N _")
    scale: TensorValue = tensor("One scale a group: (K/g, N).", "float", "*B _ N")
    zero_point: TensorValue = tensor("Value of code 0 of each group.", "float", "*B _ N")
    group_size: int = attribute(
        "Elements of a row that share a scale.", minimum=1, maximum=2**31 - 1
    )
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, K), or (B, N, K)."""
        return _shape_of(self)

    def check_relations(self) -> None:
        """Check that there are as many scales as groups."""
        _check_dtype(self.dtype)
        shape = _shape_of(self)
        _check_scales(self, shape, _blocks_of(self))


@register_layout("Int4TensorLayout", 2)
@frozen
class Int4TensorLayoutV2(Layout):
    """Int4Tensor of torchao 0.13."""

    qdata: TensorValue = tensor(
        "Codes, two a byte along the dimension where shape is twice as large.", "int8", "*B _ _"
    )
    scale: TensorValue = tensor("One scale a group: (K/g, N).", "float", "*B _ _")
    zero_point: TensorValue = tensor("Value of code 0 of each group.", "float", "*B _ _")
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension of shape.", min_length=2
    )
    shape: tuple[int, ...] = attribute("Shape that the tensor shows: (N, K).", min_length=2)
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)

    def check_relations(self) -> None:
        """Check shape and scales."""
        _check_packed(self)


@register_layout("Int4TensorLayout", 3)
@frozen
class Int4TensorLayoutV3(Layout):
    """Int4Tensor of torchao 0.14 to 0.16: a factor for activations."""

    qdata: TensorValue = tensor(
        "Codes, two a byte along the dimension where shape is twice as large.", "int8", "*B _ _"
    )
    scale: TensorValue = tensor("One scale a group: (K/g, N).", "float", "*B _ _")
    zero_point: TensorValue = tensor("Value of code 0 of each group.", "float", "*B _ _")
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension of shape.", min_length=2
    )
    shape: tuple[int, ...] = attribute("Shape that the tensor shows: (N, K).", min_length=2)
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)
    act_pre_scale: TensorValue | None = tensor(
        "Factor by which the activation is multiplied.", "float", "*P _", default=None
    )

    def check_relations(self) -> None:
        """Check shape, scales and factor."""
        _check_packed(self)
        factor = self.act_pre_scale
        if factor is not None and factor.shape[-1] not in {1, self.shape[-1]}:
            raise LayoutError(
                "act_pre_scale has a wrong size for K",
                pointer="/act_pre_scale",
                found=tuple(factor.shape),
                expected=f"(..., {self.shape[-1]})",
            )


@migration()
def say_shape_and_blocks(old: Int4TensorLayoutV1) -> Int4TensorLayoutV2:
    """Say group_size as the block of each dimension, and the shape that the tensor shows."""
    return Int4TensorLayoutV2(
        old.packed_weight, old.scale, old.zero_point, _blocks_of(old), _shape_of(old), old.dtype
    )


@migration()
def add_activation_factor(old: Int4TensorLayoutV2) -> Int4TensorLayoutV3:
    """Add an optional factor for activations, absent so far."""
    return Int4TensorLayoutV3(
        old.qdata, old.scale, old.zero_point, old.block_size, old.shape, old.dtype
    )


@migration()
def add_activation_dtype(old: Int4TensorLayoutV3) -> Int4TensorLayout:
    """Say that activations are bfloat16."""
    return Int4TensorLayout(
        old.qdata,
        old.scale,
        old.zero_point,
        old.block_size,
        old.shape,
        old.dtype,
        act_pre_scale=old.act_pre_scale,
        activation_dtype=DType.BFLOAT16,
    )


# Checks of retired classes are frozen with them: they do not follow those of the current class.


def _check_dtype(dtype: DType) -> None:
    if dtype not in _SHOWN:
        raise LayoutError(
            "dtype is not a floating-point type",
            pointer="/dtype",
            found=dtype.value,
            expected="float16, bfloat16, float32 or float64",
        )


def _check_packed(layout: Any) -> None:
    """Check that one dimension of the codes is halved, and the scales."""
    _check_dtype(layout.dtype)
    packed, shape = tuple(layout.qdata.shape), layout.shape
    halved = [
        len(packed) == len(shape) and (*packed[:d], 2 * packed[d], *packed[d + 1 :]) == shape
        for d in range(len(packed))
    ]
    if not any(halved):
        raise LayoutError(
            "qdata has a wrong size for shape, two codes a byte",
            pointer="/qdata",
            found=packed,
            expected=f"shape {tuple(shape)} with one dimension halved",
        )
    _check_scales(layout, shape, layout.block_size)


def _check_scales(layout: Any, shape: tuple[int, ...], blocks: tuple[int, ...]) -> None:
    """Check that scales and zero points have one entry per block; blocks may be too large."""
    if len(blocks) == len(shape):
        blocks = tuple(min(b, n) if n else b for b, n in zip(blocks, shape, strict=True))
    expected = list(scale_shape(shape, blocks))
    expected[-2:] = reversed(expected[-2:])
    for name in ("scale", "zero_point"):
        found = tuple(getattr(layout, name).shape)
        if found != tuple(expected):
            raise LayoutError(
                f"{name} has a wrong shape for its blocks",
                pointer=f"/{name}",
                found=found,
                expected=f"shape {tuple(expected)}",
            )


def _shape_of(layout: Int4TensorLayoutV1) -> tuple[int, ...]:
    *leading, half = layout.packed_weight.shape
    return (*leading, 2 * half)


def _blocks_of(layout: Int4TensorLayoutV1) -> tuple[int, ...]:
    return (*[1] * (len(layout.packed_weight.shape) - 1), layout.group_size)
