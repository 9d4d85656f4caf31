"""What ours computes otherwise than torchao did where activations are quantized to int8.

A step of an activation is the distance between two codes: the scale of its token.
"""

from qconfig.codec.dtypes import DType

_ONE_STEP = "a quantized activation differs by at most one step of its token"
_WIDE = frozenset({DType.FLOAT32, DType.FLOAT64})

REDUCED_RANGE = (
    "activations: torchao used codes -127 to 127 and scales max|x|/127, at least 1e-5; here codes "
    f"are -128 to 127 and scales max|x|/127.5, at least 2**-23: {_ONE_STEP}"
)
SINGLE_TOKENS = (
    "activations of shape (B, 1, K), one token each, were not quantized in torchao; here they are: "
    "each differs by at most one step of its token"
)
CAST = (
    "activations: torchao made them bfloat16 or float16 first, here they keep their type: each "
    "differs by at most half a last place of the narrower type"
)
UNSIGNED = (
    "activations: torchao used codes 0 to 255 and chose scales in float32, here in the "
    f"activation's type: {_ONE_STEP}"
)
UNROUNDED_QUOTIENT = (
    "activations: torchao rounded the scaled activation to its type before it was quantized, here "
    f"it is quantized as it is: {_ONE_STEP}"
)
PRODUCT = (
    "products: values of activation and weight are multiplied in the activation's type, as by "
    "torchao, but summed in another order, and the bias is added after rounding: an output differs "
    "by at most the type's epsilon, or 2**-23 for each of its products, times the sum of their "
    "magnitudes and the bias's"
)
SPARSE_PRODUCT = (
    "products: torchao's kernel for block sparse weights, for GPUs alone, multiplies codes and "
    "rounds their sum to bfloat16 with each scale; here values of activation and weight are "
    "multiplied: an output differs by at most 2**-6 of the sum of its products' magnitudes and the "
    "bias's"
)
SWAPPED_ZERO_POINTS = (
    "activations: up to 0.10 torchao's module chose zero points from both ends of a token, here as "
    f"later from its least value: {_ONE_STEP}"
)
SMALL_HALVES = (
    "activations: float16 tokens whose largest magnitude is under 127.5 * 2**-16 were saturated, "
    "for their scales have no reciprocal in float16; here they get their codes: each differs by "
    "at most that magnitude"
)
_SCALE_TYPE = (
    "activations: scales are float32 in one of torchao and this library, and of the activation's "
    f"type in the other: {_ONE_STEP}"
)


def scale_type(dtype: DType) -> tuple[str, ...]:
    """Return the change that a type narrower than float32 brings, none for another.

    Args:
        dtype: element type that the tensor shows.
    """
    return () if dtype in _WIDE else (_SCALE_TYPE,)
