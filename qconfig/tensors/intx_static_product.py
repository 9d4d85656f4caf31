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

Groups could also be summed as exact integers, each scaled on its own: by a batched product of
floats, or by `int8_matmul` group by group. Measured on one core of a Zen 4 EPYC with torch 2.13,
weight 4096 x 4096 of 4 bits with zero points, milliseconds of processor time, and the largest error
against float64, as a part of the largest result:

|             | here        | batched     | integers    |
|-------------|-------------|-------------|-------------|
| g=32, M=1   | 6.4, 2.5e-7 | 8.9, 1.4e-7 | 17, 5.6e-7  |
| g=32, M=64  | 31, 8.6e-7  | 49, 1.6e-7  | 139, 4.2e-7 |
| g=128, M=1  | 5.7, 2.8e-7 | 7.5, 1.1e-7 | 6.6, 2.0e-7 |
| g=128, M=64 | 35, 9.2e-7  | 42, 1.3e-7  | 35, 2.2e-7  |

All are at the rounding level of float32, so the fastest serves.
"""

import torch

from qconfig.tensors.int8_linear import int8_linear
from qconfig.tensors.int8_matmul import int8_matmul
from qconfig.tensors.intx_static_quantize import HIGH, LOW, static_codes, static_values, work_type

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
        whole = codes.to(torch.int8)
        total = integer_product(whole, qdata, zero_point, act_zero_point, weight_sums)
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
    """Return the sums of `(codes - act_zero_point) * (qdata - zero_point)` over K, exactly.

    Args:
        codes: (M, K), int8.
        qdata: (N, K), int8.
        zero_point: int8, (N, 1) or (1, 1), or None for 0.
        act_zero_point: int8, (1,), or None for 0.
        weight_sums: int32 (N, 1), or None to compute them if needed.

    Returns:
        (M, N), int32; int64 if K is over 33025, where K products of up to 255 * 255 pass int32.
    """
    columns = qdata.shape[1]
    # Corrections that pass the range of int32 on the way come back, for int32 wraps.
    kind = torch.int32 if columns <= _LONGEST_IN_INT32 else torch.int64
    total = int8_matmul(codes, qdata).to(kind)
    if act_zero_point is not None:
        if weight_sums is None or weight_sums.shape != (qdata.shape[0], 1):
            weight_sums = row_sums(qdata)
        total -= weight_sums.reshape(-1).to(kind) * act_zero_point.to(kind)
    if zero_point is not None:
        sums = codes.sum(1, keepdim=True, dtype=kind)
        if act_zero_point is not None:
            sums -= columns * act_zero_point.to(kind)
        total -= sums * zero_point.reshape(-1).to(kind)
    return total


def row_sums(qdata: torch.Tensor) -> torch.Tensor:
    """Return the sums of int8 codes, (..., N, K), along the last dimension: int32, (..., N, 1).

    They are a product with ones: torch 2.13 sums int8 slower, and through an int32 copy.
    """
    rows = qdata.flatten(0, -2)
    sums = int8_matmul(rows.new_ones((1, rows.shape[1])), rows)
    return sums.to(torch.int32).reshape(*qdata.shape[:-1], 1)
