"""What float16 can hold: numbers up to 65504."""

from typing import Any

from qconfig.configs.float_formats import minifloat_of

_LARGEST = 65504.0


def float16_refusal(config: Any) -> str | None:
    """Return what float16 cannot hold of what a config quantizes to, or None.

    Args:
        config: one of the fake-quantized family.
    """
    bits = getattr(config, "bit_width", None)
    if bits is not None:
        if (2 ** (bits - 1) if config.signed else 2**bits - 1) <= _LARGEST:
            return None
        return f"float16 does not hold integers of {bits} bits"
    largest = minifloat_of(config).largest
    if largest <= _LARGEST:
        return None
    return f"float16 does not hold the largest value of the format, {largest:g}"
