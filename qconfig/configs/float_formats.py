"""Small floating-point formats: their fields, their largest value, and those with a name."""

from collections.abc import Mapping
from math import frexp
from types import MappingProxyType
from typing import Any, NamedTuple

from qconfig.configs.quant_choices import FloatFormat
from qconfig.errors import FieldError, nearest

Codes = tuple[str, ...]
_LARGEST_FLOAT32 = (2 - 2.0**-23) * 2.0**127


class Minifloat(NamedTuple):
    """A format of sign, exponent and mantissa.

    Args:
        exponent_bit_width: bits of the exponent.
        mantissa_bit_width: bits of the mantissa.
        exponent_bias: what is subtracted from a stored exponent.
        inf_values: mantissas, in binary, that mean infinity beside the greatest exponent.
        nan_values: those that mean NaN.
    """

    exponent_bit_width: int
    mantissa_bit_width: int
    exponent_bias: int
    inf_values: Codes | None = None
    nan_values: Codes | None = None

    @property
    def is_fnuz(self) -> bool:
        """Whether the code of -0 means NaN: no other NaN, and a bias greater by 1."""
        is_finite = self.inf_values is None and self.nan_values is None
        return is_finite and self.exponent_bias == 2 ** (self.exponent_bit_width - 1)

    @property
    def largest_exponent(self) -> int:
        """The exponent of the largest finite value."""
        return frexp(self.largest)[1] - 1

    @property
    def largest(self) -> float:
        """The largest finite value: below the first code that means infinity or NaN."""
        exponent = 2**self.exponent_bit_width - 1 - self.exponent_bias
        steps = 2**self.mantissa_bit_width
        first = steps
        for code in (*(self.inf_values or ()), *(self.nan_values or ())):
            first = min(first, int(code, 2))
        if first == 0:
            exponent, first = exponent - 1, steps
        return float((1 + (first - 1) / steps) * 2.0**exponent)


FORMATS: Mapping[FloatFormat, Minifloat] = MappingProxyType(
    {
        FloatFormat.OCP_E4M3: Minifloat(4, 3, 7, None, ("111",)),
        FloatFormat.OCP_E5M2: Minifloat(5, 2, 15, ("00",), ("01", "11", "10")),
        FloatFormat.OCP_E3M2: Minifloat(3, 2, 3),
        FloatFormat.OCP_E2M3: Minifloat(2, 3, 1),
        FloatFormat.OCP_E2M1: Minifloat(2, 1, 1),
        FloatFormat.FNUZ_E4M3: Minifloat(4, 3, 8),
        FloatFormat.FNUZ_E5M2: Minifloat(5, 2, 16),
        FloatFormat.FINITE_E4M3: Minifloat(4, 3, 7),
        FloatFormat.FINITE_E5M2: Minifloat(5, 2, 15),
    }
)
"""By name. Codes stand in the order in which Brevitas has them."""


def minifloat_of(config: Any) -> Minifloat:
    """Return the format of a config of floats."""
    bias = config.exponent_bias
    if bias is None:
        bias = 2 ** (config.exponent_bit_width - 1) - 1
    return Minifloat(
        config.exponent_bit_width,
        config.mantissa_bit_width,
        bias,
        config.inf_values,
        config.nan_values,
    )


def format_fields(name: FloatFormat | str) -> dict[str, Any]:
    """Return the fields of a config that make a format that has a name.

    Raises:
        FieldError: there is no format of that name.
    """
    try:
        found = FORMATS[FloatFormat(name)]
    except ValueError:
        raise FieldError(
            "no format of that name",
            found=name,
            expected="one of " + ", ".join(FORMATS),
            hint=nearest(str(name).upper(), [known.value for known in FORMATS]),
        ) from None
    return {
        "exponent_bit_width": found.exponent_bit_width,
        "mantissa_bit_width": found.mantissa_bit_width,
        "exponent_bias": found.exponent_bias,
        "inf_values": found.inf_values,
        "nan_values": found.nan_values,
    }


def check_format(config: Any) -> None:
    """Check the format of a config of floats.

    Raises:
        FieldError: codes of infinity or NaN are not mantissas, or stand twice; infinity without
            NaN; values out of range become what the format lacks; float32 cannot hold its values.
    """
    found = minifloat_of(config)
    seen: set[str] = set()
    for name, codes in (("inf_values", found.inf_values), ("nan_values", found.nan_values)):
        for place, code in enumerate(codes or ()):
            is_binary = bool(code) and not set(code) - {"0", "1"}
            if len(code) != found.mantissa_bit_width or not is_binary or code in seen:
                raise FieldError(
                    "a code does not go with mantissa_bit_width",
                    pointer=f"/{name}/{place}",
                    found=code,
                    expected=f"{found.mantissa_bit_width} binary digits, each code once",
                    hint="take the fields of a named format, from of_format",
                )
            seen.add(code)
    if found.inf_values is not None and found.nan_values is None:
        raise FieldError(
            "inf_values does not go with nan_values null",
            pointer="/inf_values",
            found=found.inf_values,
            expected="null, or codes of NaN beside it",
        )
    if not config.saturating and found.nan_values is None and not found.is_fnuz:
        raise FieldError(
            "saturating does not go with a format of finite values only",
            pointer="/saturating",
            found=False,
            expected="true, or nan_values",
        )
    if not 2.0**-126 <= found.largest <= _LARGEST_FLOAT32 or _least(found) < 2.0**-149:
        raise FieldError(
            "exponent_bias does not go with float32, which cannot hold such values",
            pointer="/exponent_bias",
            found=found.exponent_bias,
            expected="values within the range of float32",
        )


def _least(found: Minifloat) -> float:
    return float(2.0 ** (1 - found.exponent_bias - found.mantissa_bit_width))
