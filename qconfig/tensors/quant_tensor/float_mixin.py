"""What tensors of small floats have: their format, the small floats, validity."""

from typing import Any, cast

import torch

from qconfig.errors import QuantTensorError
from qconfig.tensors.quant_tensor.fields import is_real
from qconfig.tensors.quant_tensor.inner import InnerTensors
from qconfig.tensors.quant_tensor.int_mixin import TOLERANCE
from qconfig.tensors.quant_tensor.rounding import round_ste


class FloatMixin(InnerTensors):
    """Properties and methods of small floats; mixed into QuantTensor."""

    @property
    def exponent_bit_width(self) -> torch.Tensor:
        """Bits of an exponent, shape ()."""
        return self.stored("exponent_bit_width")

    @property
    def mantissa_bit_width(self) -> torch.Tensor:
        """Bits of a mantissa, shape ()."""
        return self.stored("mantissa_bit_width")

    @property
    def exponent_bias(self) -> torch.Tensor:
        """What is subtracted from an exponent, shape ()."""
        return self.stored("exponent_bias")

    @property
    def saturating(self) -> bool:
        """Whether values out of range become the largest one."""
        return cast("bool", self.__dict__["_saturating"])

    @property
    def inf_values(self) -> tuple[str, ...] | None:
        """Mantissas, in bits, that mean infinity at the largest exponent."""
        return cast("tuple[str, ...] | None", self.__dict__["_inf_values"])

    @property
    def nan_values(self) -> tuple[str, ...] | None:
        """Mantissas, in bits, that mean no number at the largest exponent."""
        return cast("tuple[str, ...] | None", self.__dict__["_nan_values"])

    @property
    def max_value(self) -> Any:
        """The largest finite small float."""
        return max_value(
            self.number("exponent_bit_width"),
            self.number("mantissa_bit_width"),
            self.number("exponent_bias"),
            (*(self.inf_values or ()), *(self.nan_values or ())),
        )

    def _significands(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the small floats over their steps, not rounded, and the steps."""
        value, scale = self.value, self.scale
        if scale.dtype is torch.bfloat16:  # as in `IntMixin`: 8 bits of precision are too few
            value, scale = value.float(), scale.float()
        scaled = value / scale
        mantissa, bias = self.number("mantissa_bit_width"), self.number("exponent_bias")
        step = inner_scale(scaled.detach(), mantissa, bias)
        return scaled / step, step

    @property
    def is_valid(self) -> bool:
        """Whether every value is a small float of the format, times the scale.

        Infinities and NaNs are, where the format has them. Not for compiled regions.
        """
        return bool(self._check().item())

    def _check(self) -> torch.Tensor:
        with torch.no_grad():
            significands, step = self._significands()
            if not significands.numel():
                return torch.ones((), dtype=torch.bool, device=significands.device)
            rounded = significands.round()
            tolerance = TOLERANCE[self.value.dtype]
            small = rounded * step
            on_grid = ((significands - rounded).abs() < tolerance) & (small.abs() <= self.max_value)
            if not self.signed:
                on_grid &= small >= 0
            infinite = significands.isinf() if self.inf_values else torch.zeros_like(on_grid)
            nan = significands.isnan() if self.nan_values else torch.zeros_like(on_grid)
            valid: torch.Tensor = (on_grid | infinite | nan).all()
            return valid

    def int(self, float_datatype: bool = True) -> torch.Tensor:  # noqa: FBT001, FBT002
        """Return the significands as integers, in floats: 1.0 is 8 where mantissas have 3 bits.

        Floats are of the type of the values, or float32 where the scale is bfloat16.

        Args:
            float_datatype: not read, as in Brevitas: floats are all there is.
        """
        significands, _ = self._significands()
        return round_ste(significands)

    def minifloat(self, float_datatype: bool = True) -> torch.Tensor:  # noqa: FBT001, FBT002
        """Return the small floats, `value / scale` on their grid, in the type of `scale`.

        Args:
            float_datatype: as Brevitas has it: True is all there is.

        Raises:
            QuantTensorError: the tensor is not valid, or float_datatype is False. A compiled
                region raises RuntimeError.
        """
        if not float_datatype:
            raise QuantTensorError(
                "small floats are given in floats",
                found="float_datatype=False",
                expected="float_datatype=True",
            )
        valid = self._check()
        if not is_real(valid):
            torch._assert_async(valid, "a quant tensor is not valid: its floats do not fit")  # noqa: SLF001
        elif not valid.item():
            raise QuantTensorError(
                "the quant tensor is not valid: its values are not the small floats that it says",
                expected=f"multiples of their steps up to {float(self.max_value):g}, times scale",
            )
        significands, step = self._significands()
        minifloats: torch.Tensor = (round_ste(significands) * step).to(self.scale.dtype)
        return minifloats


def inner_scale(scaled: torch.Tensor, mantissa: Any, bias: Any) -> torch.Tensor:
    """Return the step of the small-float grid at each value: `2**max(floor(log2|x|)-m, 1-b-m)`.

    Args:
        scaled: values over their scale, without a graph.
        mantissa: bits of a mantissa.
        bias: exponent bias.
    """
    tiny = torch.finfo(scaled.dtype).tiny
    exponent = torch.floor(torch.log2(scaled.abs() + tiny)) - mantissa
    least = 1 - bias - mantissa
    if isinstance(least, torch.Tensor):
        return torch.exp2(torch.maximum(exponent, least.to(exponent.dtype)))
    return torch.exp2(exponent.clamp(min=least))


def max_value(exponent: Any, mantissa: Any, bias: Any, special: tuple[str, ...]) -> Any:
    """Return the largest finite value of a format (OCP 8-bit floating point, section 5).

    At the largest exponent, the mantissas below the first that means infinity or no number are
    finite; if there is none, the exponent below is the largest. `Minifloat.largest` of the configs
    is the same; here, widths may be learned.

    Args:
        exponent: bits of an exponent.
        mantissa: bits of a mantissa.
        bias: what is subtracted from an exponent.
        special: mantissas, in bits, that mean infinity or no number.
    """
    top = 2**exponent - 1 - bias
    if not special:
        return (2 - 2 ** (-1.0 * mantissa)) * 2.0**top
    steps, first = 2 ** len(special[0]), min(int(code, 2) for code in special)
    if not first:
        return (2 - 2 ** (-1.0 * mantissa)) * 2.0 ** (top - 1)
    return (1 + (first - 1) / steps) * 2.0**top
