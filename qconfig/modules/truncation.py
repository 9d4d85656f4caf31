"""Fewer bits for integers that have many: the lowest ones are dropped."""

import torch

from qconfig.configs.quant_choices import RoundingMode
from qconfig.errors import QuantTensorError
from qconfig.tensors.quant_tensor.fields import is_real
from qconfig.tensors.quant_tensor.int_mixin import int_range
from qconfig.tensors.quantizers import clamp, code_bounds, rounded


def averaged_bits(bits: torch.Tensor, count: int) -> torch.Tensor:
    """Return the bits of the sum of `count` integers: `ceil(log2((2**bits - 1) * count))`.

    Args:
        bits: those of one integer, shape ().
        count: how many are summed.
    """
    return rounded(torch.log2((2**bits - 1) * count), RoundingMode.CEIL)


def truncated(
    value: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    bits: torch.Tensor,
    kept: int,
    *,
    signed: bool,
    narrow_range: bool = False,
    rounding: RoundingMode = RoundingMode.ROUND,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return values of fewer bits, their scale and their zero point.

    `scale' = scale * 2**(bits - kept)`, `zero_point' = zero_point / 2**(bits - kept)`; integers
    are divided by the same power, rounded, and clamped to the range of `kept` bits.

    Args:
        value: on the grid of `scale` and `zero_point`, up to the error of floats.
        scale: step of the grid, broadcasts to `value`.
        zero_point: integer of the value zero, broadcasts to `value`.
        bits: how many the integers have, shape ().
        kept: how many are left.
        signed: whether integers may be negative.
        narrow_range: whether the least signed or greatest unsigned integer is left out.
        rounding: how the quotient becomes an integer.

    Raises:
        QuantTensorError: integers leave the range of `bits`, which a zero point that was not summed
            as often as the integers were can make them do. A graph raises RuntimeError.
    """
    dropped = 2.0 ** (bits - kept)
    integers = rounded(value / scale + zero_point)
    _check_range(integers, zero_point, bits, signed=signed)
    low, high = code_bounds(
        torch.tensor(float(kept), device=value.device), signed=signed, narrow_range=narrow_range
    )
    codes = clamp(rounded(integers / dropped, rounding), low, high)
    result_scale, result_zero_point = scale * dropped, zero_point / dropped
    return (codes - result_zero_point) * result_scale, result_scale, result_zero_point


def _check_range(
    integers: torch.Tensor, zero_point: torch.Tensor, bits: torch.Tensor, *, signed: bool
) -> None:
    if not integers.numel():
        return
    traced = torch.compiler.is_compiling() or not is_real(integers)
    if not traced and not zero_point.any():
        return
    low, high = int_range(bits, signed=signed)
    least, most = integers.detach().min(), integers.detach().max()
    within = (least >= low) & (most <= high)
    if traced:
        torch._assert_async(within, "integers of an average leave their range")  # noqa: SLF001
    elif not within:
        raise QuantTensorError(
            "integers of an average leave their range: the zero point of the input is not that "
            "of a sum",
            found=f"{least.item():g} to {most.item():g} with zero point "
            f"{zero_point.flatten()[0].item():g}",
            expected=f"{float(low):g} to {float(high):g}",
            hint="quantize the input symmetrically, or average its values",
        )
