"""Make the fields of fake-quantized layouts that strategies draw fit each other."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.layouts.quant_shapes import grouped_shape
from qconfig.versioning import Entry

Draw = Callable[[Any], Any]

_FLOATS = st.sampled_from(["float16", "bfloat16", "float32", "float64"]).map(DType)
_SHAPES = st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)
_CODES = st.sampled_from([None, ("111",), ("00",), ("01", "10", "11")])
_NUMBERS = ("bit_width", "exponent_bit_width", "mantissa_bit_width", "exponent_bias")


def align(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Give scale and zero point shapes that broadcast to the values, and numbers one entry."""
    shape = draw(_SHAPES)
    values["value"] = TensorSpec(draw(_FLOATS), shape)
    for name in ("scale", "zero_point"):
        values[name] = TensorSpec(draw(_FLOATS), _aligned(draw, shape))
    _fit_numbers(draw, values)


def group(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Put values into groups of a logical shape, and give scales an entry a group."""
    shape = draw(_SHAPES)
    size, dim = draw(st.integers(1, 4)), draw(st.integers(-len(shape), len(shape) - 1))
    stored = grouped_shape(shape, size, dim)
    suffix = "_" if entry.version == 1 else ""
    values |= {"group_size": size, "group_dim": dim, "dequant_shape": shape}
    values["value" + suffix] = TensorSpec(draw(_FLOATS), stored)
    for name in ("scale", "zero_point"):
        one = tuple(draw(st.sampled_from([1, n])) for n in stored)
        shown = draw(st.sampled_from([(), one]))
        values[name + suffix] = TensorSpec(draw(_FLOATS), shown)
    _fit_numbers(draw, values)


def _aligned(draw: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    first = draw(st.integers(0, len(shape)))
    return tuple(draw(st.sampled_from([1, n])) for n in shape[first:])


def _fit_numbers(draw: Draw, values: dict[str, Any]) -> None:
    for name in _NUMBERS:
        if name in values:
            values[name] = TensorSpec(draw(_FLOATS), draw(st.sampled_from([(), (1,)])))
    for name in ("inf_values", "nan_values"):
        if name in values:
            values[name] = draw(_CODES)
