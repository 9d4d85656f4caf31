"""The element type that a packed tensor shows."""

from qconfig.codec.dtypes import DType
from qconfig.errors import LayoutError


def check_shown_dtype(dtype: DType) -> None:
    """Raise LayoutError unless a tensor can show this element type and dequantize to it."""
    if not dtype.is_float:
        raise LayoutError(
            "dtype is not a floating-point type",
            pointer="/dtype",
            found=dtype.value,
            expected="float16, bfloat16, float32 or float64",
        )
