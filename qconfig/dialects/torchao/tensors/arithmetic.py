"""In which types and bounds a release quantized activations to int8, by function and release.

What a form does not tell apart, the writer does; without one, the newest release of the form is
taken and the report says so. Where torch was older than 2.6, torchao 0.7 to 0.11 computed as 0.6.
"""

from math import prod
from typing import Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.dialects.torchao.stored import Stored
from qconfig.dialects.torchao.tensors.reading import Context, Read
from qconfig.layouts.activation import Int8Arithmetic, Int8Product
from qconfig.layouts.int8 import Int8TensorLayout

_FLOAT32_EPS = 2.0**-23
_REDUCED = frozenset(
    {
        "_ActQuantizer.dynamic_quantize",
        "_int8_symm_per_token_quant",
        "_int8_symm_per_token_reduced_range_quant",
        "_int8_symm_per_token_reduced_range_quant_noop_decode",
    }
)
_ASYMMETRIC = "_int8_asymm_per_token_quant"
_UNKNOWN_ASYMMETRIC = (
    "activations: scales are float32 and at least 2**-23, as by torchao 0.12 to 0.17; from 0.7 to "
    "0.11 they were at least the epsilon of the activation's type; name the writer to have that"
)
_UNKNOWN_TENSOR = (
    "activations: scales are chosen as by torchao 0.18; from 0.14 to 0.17 they were at least the "
    "epsilon of the activation's type; name the writer to have that"
)
_NOT_FOLLOWED = (
    "products: with scales of groups, or static scales of channels, torchao multiplied no int8 "
    "activations, and a shape failed; here products are scaled and rounded once, as for 0.18"
)


def following(read: Read, how: Int8Arithmetic, **fields: Any) -> Read:
    """Return a weight that computes as an older torchao did, where that computed at all.

    Args:
        read: the weight, in a layout that can say so.
        how: the arithmetic.
        fields: others to set in the layout.

    Raises:
        LayoutError: the fields do not fit the others.
    """
    layout: Any = read.layout
    if not isinstance(layout, Int8TensorLayout) or _is_followed(layout, how, fields):
        return read.with_fields(**fields, arithmetic=how)
    return read.with_fields(**fields).noting(changes=(_NOT_FOLLOWED,))


def _is_followed(layout: Int8TensorLayout, how: Int8Arithmetic, fields: dict[str, Any]) -> bool:
    static = fields.get("act_quant_scale", layout.act_quant_scale)
    shape = () if static is None else tuple(static.shape)
    of_tokens = len(shape) > 1 and shape[-1] == 1
    whole = how.product is Int8Product.VALUES or layout.scale.shape[-1] == 1
    return bool(whole and (of_tokens or prod(shape) == 1))


@frozen
class Era:
    """Which releases may have written a tensor.

    Args:
        release: the writer, where it is known, else the newest release that wrote the form.
        is_known: whether it is known.
    """

    release: tuple[int, int]
    is_known: bool

    @classmethod
    def of_wrapped(cls, stored: Stored, context: Context) -> "Era":
        """Return the releases of a wrapper around an AffineQuantizedTensor.

        Its implementation lay in `layout_tensor` up to 0.6.
        """
        if context.writer is not None and context.writer.library == "torchao":
            return cls(context.writer.release, is_known=True)
        inside = [stored]
        while inside:
            found = inside.pop()
            if "layout_tensor" in found.fields:
                return cls((0, 6), is_known=False)
            inside += [value for value in found.fields.values() if isinstance(value, Stored)]
        return cls((0, 17), is_known=False)


def of_function(
    name: str, dtype: DType, era: Era, *, codes: bool
) -> tuple[Int8Arithmetic | None, tuple[str, ...]]:
    """Return the arithmetic of a function that quantized activations, and what is not known of it.

    Args:
        name: the function.
        dtype: type of the activation, which is the weight's.
        era: who wrote the tensor.
        codes: whether the weight has int8 codes, with which those of activations are multiplied.
    """
    if name == _ASYMMETRIC:
        return _asymmetric(era)
    if name not in _REDUCED:
        return None, ()
    # Up to 0.6 codes were multiplied on GPUs only.
    early = era.release < (0, 7)
    product = Int8Product.SCALE_TYPE if codes and not early else Int8Product.VALUES
    wide = name == "_int8_symm_per_token_quant" or (
        dtype is DType.FLOAT16 and name != "_ActQuantizer.dynamic_quantize"
    )
    return (
        Int8Arithmetic(
            product,
            least_code=-127,
            least_scale=None if name == "_ActQuantizer.dynamic_quantize" else 1e-5,
            scale_dtype=DType.FLOAT32 if wide else None,
            skips_single_tokens=name.endswith("_noop_decode"),
        ),
        (),
    )


def _asymmetric(era: Era) -> tuple[Int8Arithmetic, tuple[str, ...]]:
    if era.release < (0, 7):
        return Int8Arithmetic(Int8Product.VALUES), ()
    if era.release < (0, 11):
        return Int8Arithmetic(Int8Product.VALUES, scale_dtype=DType.FLOAT64), ()
    if era.release < (0, 12):
        return Int8Arithmetic(Int8Product.VALUES, scale_dtype=DType.FLOAT32), ()
    found = Int8Arithmetic(Int8Product.VALUES, least_scale=_FLOAT32_EPS, scale_dtype=DType.FLOAT32)
    return found, () if era.is_known else (_UNKNOWN_ASYMMETRIC,)


def of_swapped_module() -> Int8Arithmetic:
    """Return the arithmetic of Int8DynActInt4WeightLinear, but for its zero points up to 0.10."""
    return Int8Arithmetic(Int8Product.VALUES, least_scale=_FLOAT32_EPS, scale_dtype=DType.FLOAT32)


def of_static() -> Int8Arithmetic:
    """Return the arithmetic of `_ActQuantizer.static_quantize`."""
    return Int8Arithmetic(Int8Product.SCALE_TYPE, least_code=-127)


def of_int8_tensor(release: tuple[int, int]) -> Int8Arithmetic:
    """Return the arithmetic of Int8Tensor, torchao 0.15 to 0.17.

    Args:
        release: major and minor number.
    """
    least = None if release < (0, 16) else _FLOAT32_EPS
    return Int8Arithmetic(Int8Product.ROUNDED_SUM, least_scale=least)


def of_intx_tensor(context: Context) -> tuple[Int8Arithmetic | None, tuple[str, ...]]:
    """Return the arithmetic of IntxUnpackedToInt8Tensor, torchao 0.14 to 0.18.

    Null where that of 0.18 is taken.
    """
    before = context.is_before((0, 18))
    if before:
        return Int8Arithmetic(Int8Product.VALUES), ()
    return None, (_UNKNOWN_TENSOR,) if before is None else ()
