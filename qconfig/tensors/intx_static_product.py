"""The product of statically quantized activations and intx weights, from plain tensors.

With `a` the activation's codes, `w` the weight's, `A` and `W` their zero points, `s` the scales,

    y[m, n] = sum over k of (a[m, k] - A) * s_a * (w[n, k] - W[n, k/g]) * s_w[n, k/g]

Floats of similar size are never subtracted: that would cancel what is wanted and leave their
rounding. Zero points are taken off whole numbers, exactly, in one of two ways.

- One scale a row and one scale for the activation: the codes are multiplied as integers and the
  int32 result is corrected in int32,
  `a @ w.T - A * rowsum(w) - W * rowsum(a) + K * A * W`, then scaled once. Row sums of the weight
  come with it; terms whose zero points are all 0 are left out.
- Groups, or a scale for each input channel: there is no common scale to take out, so `a - A` and
  `w - W` are formed first, in float32, where such small numbers are exact; `w - W` takes its scale
  (and `a - A` its channel's) with one rounding, and the products are summed in float32.

For groups, summing exact integers group by group and scaling each sum was measured, too: 5 to 10
times slower than the one product (4096 x 4096, groups of 32 and 128), for an error that is the same
within a factor of 2.
"""

import torch

from qconfig.tensors.int8_linear import int8_linear
from qconfig.tensors.intx_static_quantize import HIGH, LOW, static_codes, static_values, work_type

_EXACT_IN_FLOAT32 = 1 << 24
_LONGEST_IN_INT32 = ((1 << 31) - 1) // (HIGH - LOW) ** 2


def product(  # noqa: PLR0917
    activation: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    act_scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    act_zero_point: torch.Tensor | None,
    weight_sums: torch.Tensor | None,
) -> torch.Tensor:
    """Return `static_values(activation) @ dequantized.T` in the type of computation.

    Args:
        activation: (M, K), floating point.
        qdata: (N, K) int8 codes, any strides.
        scale: floating point, (N, K/g) or any other that divides (N, K).
        act_scale: floating point, (1,) or (K,).
        zero_point: int8, shaped like `scale`, or None.
        act_zero_point: int8, shaped like `act_scale`, or None.
        weight_sums: int32 (N, 1), the sums of `qdata` along K, or None to compute them if needed.

    Returns:
        (M, N), float64 for float64 activations, else float32.
    """
    zero_point, act_zero_point = _effective(zero_point), _effective(act_zero_point)
    kind = work_type(activation)
    if act_scale.numel() != 1:
        seen = static_values(activation, act_scale, act_zero_point)
        return int8_linear(seen, qdata, scale.to(kind), zero_point)
    codes = static_codes(activation, act_scale, act_zero_point)
    if tuple(scale.shape) in ((qdata.shape[0], 1), (1, 1)):
        total = integer_product(codes, qdata, zero_point, act_zero_point, weight_sums)
        result = total.to(kind).mul_(act_scale.to(kind) * scale.to(kind).reshape(-1))
        # A NaN has no code: it makes its row NaN, as in a product of floats.
        return result.add_(codes.sum(1, keepdim=True).mul_(0))
    if act_zero_point is not None:
        codes.sub_(act_zero_point)
    return int8_linear(codes, qdata, scale.to(kind), zero_point).mul_(act_scale.to(kind))


def _effective(zero_point: torch.Tensor | None) -> torch.Tensor | None:
    # Asking another device would wait for it; there a correction by 0 is computed.
    if zero_point is None or (zero_point.device.type == "cpu" and not bool(zero_point.any())):
        return None
    return zero_point


def integer_product(
    codes: torch.Tensor,
    qdata: torch.Tensor,
    zero_point: torch.Tensor | None,
    act_zero_point: torch.Tensor | None,
    weight_sums: torch.Tensor | None,
) -> torch.Tensor:
    # Sums of K products of differences, each at most 255 * 255, fit int32 up to a K of 33025;
    # corrections that pass its range on the way come back, for int32 wraps.
    columns = qdata.shape[1]
    wide = torch.int32 if columns <= _LONGEST_IN_INT32 else torch.int64
    total = exact_product(codes, qdata, wide)
    if act_zero_point is not None:
        if weight_sums is None or weight_sums.shape != (qdata.shape[0], 1):
            weight_sums = row_sums(qdata)
        total -= weight_sums.reshape(-1).to(wide) * act_zero_point.to(wide)
    if zero_point is not None:
        zeros = zero_point.reshape(-1).to(wide)
        sums = codes.to(torch.int8).sum(1, keepdim=True, dtype=wide)
        if act_zero_point is not None:
            sums -= columns * act_zero_point.to(wide)
        total -= sums * zeros
    return total


def row_sums(qdata: torch.Tensor) -> torch.Tensor:
    """Return the sums of codes along the last dimension, int32, (..., 1)."""
    return qdata.sum(-1, keepdim=True, dtype=torch.int32)


def exact_product(codes: torch.Tensor, qdata: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return `codes @ qdata.T` as integers, exactly.

    float32 sums whole numbers exactly up to 2**24, so K is cut into pieces of at most 1024.

    Args:
        codes: (M, K), whole numbers from -128 to 127 in a floating-point type.
        qdata: (N, K), int8.
        dtype: int32 or int64.

    Returns:
        (M, N) of that type.
    """
    rows, columns = qdata.shape
    length = _EXACT_IN_FLOAT32 // LOW**2
    one = codes.new_ones((1, 1))
    total = torch.zeros((codes.shape[0], rows), dtype=dtype, device=codes.device)
    for start in range(0, columns, length):
        stop = min(start + length, columns)
        total += int8_linear(codes[:, start:stop], qdata[:, start:stop], one, None).to(dtype)
    return total
