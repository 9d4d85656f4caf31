"""What tensors on a grid of integers have: bit width, integers, validity."""

import math
from typing import Any

import torch

from qconfig.errors import QuantTensorError
from qconfig.tensors.quant_tensor.fields import is_real
from qconfig.tensors.quant_tensor.inner import InnerTensors
from qconfig.tensors.quant_tensor.rounding import round_ste

TOLERANCE = {torch.float64: 0.1, torch.float32: 0.2, torch.float16: 0.5, torch.bfloat16: 0.5}
"""How far `value / scale + zero_point` may lie from an integer, by the type of the values."""

_HALVES = (torch.bfloat16, torch.float16)


class IntMixin(InnerTensors):
    """Properties and methods of integers; mixed into QuantTensor."""

    @property
    def bit_width(self) -> torch.Tensor:
        """Bits of an integer, shape ()."""
        return self.stored("bit_width")

    def _integers(self) -> torch.Tensor:
        """Return `value / scale + zero_point`, not rounded."""
        value, scale, zero_point = self.value, self.scale, self.zero_point
        if scale.dtype is torch.bfloat16:
            value, scale, zero_point = value.float(), scale.float(), zero_point.float()
        return value / scale + zero_point

    @property
    def is_valid(self) -> bool:
        """Whether every value is on the grid, and its integer within the range of the bit width.

        Integers of 1 bit are -1 and 1, or 0 and 1. The tolerance is `TOLERANCE`. Not for compiled
        regions: it looks at the elements.
        """
        return bool(self._check().item())

    def _check(self) -> torch.Tensor:
        with torch.no_grad():
            exact = self._integers()
            if not exact.numel():
                return torch.ones((), dtype=torch.bool, device=exact.device)
            rounded = exact.round()
            on_grid: torch.Tensor = (exact - rounded).abs().max() < TOLERANCE[self.value.dtype]
            bits = self.number("bit_width")
            if isinstance(bits, int) and bits < 2:
                return on_grid & _is_binary(rounded, signed=self.signed)
            low, high = map(_float, int_range(bits, signed=self.signed))
            within: torch.Tensor = (rounded.min() >= low) & (rounded.max() <= high)
            if isinstance(bits, int):
                return on_grid & within
            binary = _is_binary(rounded, signed=self.signed)
            return on_grid & torch.where(bits < 2, binary, within)

    def int(self, float_datatype: bool = False) -> torch.Tensor:  # noqa: FBT001, FBT002
        """Return the integers; gradients pass straight through the rounding, to value and scale.

        Args:
            float_datatype: whether to give floats: of the type of `scale` up to 8 bits, else
                float32. Otherwise int8 or uint8 up to 8 bits, int32 up to 32, int64 beyond.

        Raises:
            QuantTensorError: the tensor is not valid, or has more than 64 bits. A compiled region
                raises RuntimeError.
        """
        valid = self._check()
        if is_real(valid):
            if not valid.item():
                raise self._invalid()
        else:
            torch._assert_async(valid, "a quant tensor is not valid: its integers do not fit")  # noqa: SLF001
        integers = round_ste(self._integers())
        return integers.to(self._dtype(float_datatype=float_datatype))

    def _dtype(self, *, float_datatype: bool) -> torch.dtype:
        bits = self.number("bit_width")
        if isinstance(bits, torch.Tensor):
            # While a graph is traced, nobody knows a learned width: what holds any is taken.
            bits = bits.item() if is_real(bits) else 32
        if float_datatype:
            return self.scale.dtype if bits <= 8 else torch.float32
        if bits > 63 + self.signed:
            raise QuantTensorError(
                "no integer type holds so many bits",
                found=f"{bits} bits",
                expected="64 bits or fewer",
                hint="float_datatype=True gives floats",
            )
        if bits <= 8:
            return torch.int8 if self.signed else torch.uint8
        return torch.int32 if bits <= 31 + self.signed else torch.int64

    def _invalid(self) -> QuantTensorError:
        exact = self._integers().detach()
        low, high = int_range(self.number("bit_width"), signed=self.signed)
        far = (exact - exact.round()).abs().max().item()
        return QuantTensorError(
            "the quant tensor is not valid: its values are not the integers that it says",
            found=f"integers {exact.min().item():g} to {exact.max().item():g}, "
            f"up to {far:g} off the grid",
            expected=f"integers {_float(low):g} to {_float(high):g}, "
            f"off by less than {TOLERANCE[self.value.dtype]:g}",
        )


def int_range(bits: Any, *, signed: bool) -> tuple[Any, Any]:
    """Return the smallest and the largest integer of a bit width.

    Args:
        bits: an int, or a tensor of a learned width, which may be a fraction.
        signed: whether half of the integers are negative.

    Returns:
        `-2**(b-1)` and `2**(b-1) - 1`, or 0 and `2**b - 1`; ints or tensors as `bits` is.
    """
    if signed:
        half = 2 ** (bits - 1) if isinstance(bits, torch.Tensor) or bits > 0 else 0
        return -half, half - 1
    return 0, 2**bits - 1


def _float(bound: Any) -> Any:
    """Return a bound as a float, which holds what an integer of 1,000 bits is compared with."""
    if isinstance(bound, torch.Tensor):
        return bound
    if abs(bound).bit_length() < 1024:
        return float(bound)
    return math.inf if bound > 0 else -math.inf


def _is_binary(integers: torch.Tensor, *, signed: bool) -> torch.Tensor:
    low, high = integers.min(), integers.max()
    one_of_two = ((integers == low) | (integers == high)).all()
    if signed:
        return one_of_two & ((low < 0) | (low == high))
    return one_of_two & (low >= 0)
