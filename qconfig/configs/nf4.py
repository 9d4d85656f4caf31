"""Config of NF4 weights (QLoRA), current version."""

from attrs import frozen

from qconfig.versioning import Config, attribute, register_config

_LARGEST = 2**31 - 1


@register_config("NF4WeightOnlyConfig", 1)
@frozen
class NF4WeightOnlyConfig(Config):
    """Codes of 4 bits into quantiles of a normal distribution, with scales quantized to int8.

    Served are linear weights whose elements fill blocks, and whose blocks fill groups of scales.
    """

    block_size: int = attribute(
        "Elements that share a scale, rows one after the other.",
        default=64,
        minimum=1,
        maximum=_LARGEST,
    )
    scaler_block_size: int = attribute(
        "Scales that share a divisor.", default=256, minimum=1, maximum=_LARGEST
    )
