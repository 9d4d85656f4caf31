"""Where a stored fake-quantized weight is not what its config makes of weights."""

from math import prod
from typing import Any

from qconfig.codec.tensor_values import LazyTensor
from qconfig.configs.float_formats import minifloat_of
from qconfig.configs.float_quant import FloatQuantConfig
from qconfig.configs.groupwise_quant import GroupwiseFloatQuantConfig

_FORMAT = ("exponent_bit_width", "mantissa_bit_width", "exponent_bias")


def stored_disagreement(config: Any, found: Any, expected: Any) -> tuple[str, str] | None:
    """Return what a stored layout says in bit widths and shapes, and what its config does.

    Args:
        config: one of the fake-quantized family.
        found: the stored layout; tensors of one number are loaded.
        expected: the layout that the config gives, with specs for tensors.

    Returns:
        What was found and what was expected; None if they agree.
    """
    for name, (least, most) in _numbers(config).items():
        value = getattr(found, name)
        if not isinstance(value, LazyTensor):
            continue
        number = float(value.load())
        if not least <= number <= most:
            wanted = f"{least}" if least == most else f"{least} to {most}"
            return f"{name} {number:g}", f"{name} {wanted}"
    for name in ("scale", "zero_point"):
        shapes = tuple(getattr(found, name).shape), tuple(getattr(expected, name).shape)
        # One entry is one entry, in however many dimensions.
        if shapes[0] != shapes[1] and {prod(shape) for shape in shapes} != {1}:
            return f"{name} of shape {shapes[0]}", f"{name} of shape {shapes[1]}"
    return None


def _numbers(config: Any) -> dict[str, tuple[int, int]]:
    """Return the least and the most that a config allows for the numbers of its layout."""
    if isinstance(config, FloatQuantConfig | GroupwiseFloatQuantConfig):
        kind = minifloat_of(config)
        return {name: (getattr(kind, name), getattr(kind, name)) for name in _FORMAT}
    if config.learned_bit_width:
        return {"bit_width": (config.min_bit_width, 32)}
    return {"bit_width": (config.bit_width, config.bit_width)}
