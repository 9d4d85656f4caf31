"""Values of AffineQuantizedTensor with int4 codes in the order of a kernel.

Its `dequantize` multiplied the kernel with an identity in bfloat16, found the codes again, and made
values of them, step by step in the type that it showed. Its `linear` was the kernel's product, on
CPUs from 0.9 on.
"""

from typing import Any

from qconfig.codec.dtypes import DType
from qconfig.dialects.torchao.tensors.reading import Context, Read
from qconfig.migrations.int4_opaque_tensor_layout import Int4OpaqueTensorLayoutV1
from qconfig.migrations.int4_tile_packed_to4d_tensor_layout import Int4TilePackedTo4dTensorLayoutV1

_FIRST_CPU_KERNEL = (0, 9)
_ROUNDED_WEIGHTS = (
    "linear: torchao up to 0.8 multiplied with dequantized values, for which (code - 8) * scale is "
    "rounded before the zero point is added; here, as in its kernel since 0.9, nothing is rounded "
    "before the end: in bfloat16 a weight differs by at most 2**-8 of that product and a last place"
)
_SLAB = 1 << 18
_MOST_SCALES = 40
"""Up to so many scales of a group a zero point leaves its codes apart in bfloat16.

Rounding a value and the least value, and their difference over the scale, moves a code by at most
`2**-7 * (zero / scale + 8) + 2**-3`, which is less than a half.
"""
_NOT_LOOKED_AT = (
    "values: zero points were not looked at, since the checkpoint has many; where one is more than "
    f"{_MOST_SCALES} times its scale, torchao's dequantize shows values of other codes, as it "
    "finds codes again from bfloat16 values; here they are of the stored ones"
)
_LOST_CODES = (
    "values: zero points are up to {ratio:.0f} times their scales, so that torchao's dequantize, "
    "which finds codes again from bfloat16 values, shows those of other codes; here they are of "
    "the stored ones: a value differs by at most 15 scales and a last place"
)


def with_rounded_products(read: Read, context: Context) -> Read:
    """Return a packed int4 tensor in its current layout, with values that are rounded as torchao's.

    Args:
        read: what an AffineQuantizedTensor is; any other than packed int4 is returned as it is.
        context: who wrote it, and the looks at the file's data.

    Raises:
        MigrationError: a step cannot carry what it meets.
    """
    layout: Any = read.layout
    if not isinstance(layout, Int4OpaqueTensorLayoutV1 | Int4TilePackedTo4dTensorLayoutV1):
        return read
    result = read.newest().with_fields(rounds_products=True)
    if not context.looks.allow(layout.scale_and_zero):
        result = result.noting(ambiguities=(_NOT_LOOKED_AT,))
    elif (ratio := _largest_zero_point(layout.scale_and_zero)) > _MOST_SCALES:
        result = result.noting(changes=(_LOST_CODES.format(ratio=ratio),))
    narrow = layout.dtype in (DType.FLOAT16, DType.BFLOAT16)
    if not isinstance(layout, Int4OpaqueTensorLayoutV1) or not narrow:
        return result
    before = context.is_before(_FIRST_CPU_KERNEL)
    if before is None:
        return result.noting(ambiguities=(_ROUNDED_WEIGHTS,))
    return result.noting(changes=(_ROUNDED_WEIGHTS,)) if before else result


def _largest_zero_point(pairs: Any) -> float:
    """Return the largest zero point in scales of its group; padding has a scale of 0 or 1."""
    largest = 0.0
    for part in pairs.load().flatten(0, -2).split(_SLAB):
        scale, zero = part.double().unbind(-1)
        ratios = (zero / scale).abs_().nan_to_num_(0.0, 0.0)
        largest = max(largest, float(ratios.max()) if ratios.numel() else 0.0)
    return largest
