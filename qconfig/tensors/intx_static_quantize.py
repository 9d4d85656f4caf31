"""Static int8 quantization of activations and outputs, as plain functions of ordinary tensors.

As torchao 0.18's `quantize_affine` does it, `q = clamp(round(x * (1 / scale)) + zero_point, -128,
127)` with halves to even, but all of it in float32 (float64 for float64), whatever the types of x
and scale: in bfloat16 the product alone would be off by half a step from code 64 on.
"""

import torch

LOW, HIGH = -128, 127


def work_type(values: torch.Tensor) -> torch.dtype:
    """Return the type in which products of these activations are computed: at least float32."""
    return torch.promote_types(values.dtype, torch.float32)


def static_codes(
    values: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor | None
) -> torch.Tensor:
    """Return the codes of activations or outputs, whole numbers from -128 to 127 as floats.

    Args:
        values: (..., C), floating point; it is left as it is.
        scale: floating point, (1,) or (C,).
        zero_point: integers, shaped like `scale`, or None for 0.

    Returns:
        (..., C) in the wider of float32 and the type of `values`; NaN stays NaN.
    """
    kind = work_type(values)
    codes = (values.to(kind) * (1.0 / scale.to(kind))).round_()
    if zero_point is not None:
        codes.add_(zero_point)
    return codes.clamp_(LOW, HIGH)


def static_values(
    values: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor | None
) -> torch.Tensor:
    """Return activations or outputs quantized and dequantized: `(q - zero_point) * scale`.

    Arguments and result are those of `static_codes`.
    """
    codes = static_codes(values, scale, zero_point)
    if zero_point is not None:
        codes.sub_(zero_point)
    return codes.mul_(scale.to(codes.dtype))
