"""Configs of the uintx family (unsigned weights of 1 to 8 bits), current versions."""

from enum import StrEnum

from attrs import frozen

from qconfig.configs.supported import check_supported, choice_of
from qconfig.versioning import Config, attribute, register_config

PACKING_BITWIDTHS = (None, 8, 16, 32)
"""Bits of the words that gemlite packs codes into."""


class UIntxChooseQParamsAlgorithm(StrEnum):
    """How scales and zero points of unsigned codes are found; two names agree with torchao's."""

    MIN_MAX = "MIN_MAX"
    """From the least and the largest weight; zero points are codes."""
    HQQ = "HQQ"
    """By half-quadratic quantization; zero points are values of the middle code."""
    SYMMETRIC = "SYMMETRIC"
    """From the largest absolute weight; all zero points are the middle code."""


_GROUP = "Weights of a row that share a scale; null for whole rows."
_BITS = "Bits of a code."
_WORDS = "Bits of the words that torchao's kernels pack codes into, 8, 16 or 32; carried."
_SWITCH = "A switch of torchao's; carried."
_LARGEST = 2**31 - 1


@register_config("UIntxWeightOnlyConfig", 5)
@frozen
class UIntxWeightOnlyConfig(Config):
    """Unsigned weights of 1 to 8 bits with scales; activations stay as they are.

    Served are linear weights whose K is divided by the group size. torchao 0.17 and later has 4
    bits with groups, by HQQ, and symmetric 8 bits with whole rows; torchao 0.4 to 0.16 had 1 to 7
    bits, by MIN_MAX or HQQ.
    """

    group_size: int | None = attribute(_GROUP, default=128, minimum=1, maximum=_LARGEST)
    bit_width: int = attribute(_BITS, default=4, minimum=1, maximum=8)
    packing_bitwidth: int | None = attribute(_WORDS, default=None, minimum=8, maximum=32)
    uintx_choose_qparams_algorithm: UIntxChooseQParamsAlgorithm | None = attribute(
        "How scales and zero points are found; null for HQQ, and SYMMETRIC for 8 bits.",
        default=None,
        converter=choice_of(UIntxChooseQParamsAlgorithm),
    )
    set_inductor_config: bool = attribute(_SWITCH, default=True)

    def __attrs_post_init__(self) -> None:
        """Check the packing. Raises FieldError."""
        check_supported(self.packing_bitwidth, "packing_bitwidth", PACKING_BITWIDTHS)

    @property
    def algorithm(self) -> UIntxChooseQParamsAlgorithm:
        """How scales and zero points are found."""
        kinds = UIntxChooseQParamsAlgorithm
        usual = kinds.SYMMETRIC if self.bit_width == 8 else kinds.HQQ
        return self.uintx_choose_qparams_algorithm or usual


@register_config("Int8DynamicActivationUIntxWeightConfig", 1)
@frozen
class Int8DynamicActivationUIntxWeightConfig(Config):
    """Unsigned weights of 4 or 8 bits, and activations quantized to int8, for gemlite's kernels.

    It is read and written; there is no builder, for the product is that of gemlite alone.
    """

    group_size: int | None = attribute(_GROUP, default=128, minimum=1, maximum=_LARGEST)
    bit_width: int = attribute(_BITS, default=4, minimum=1, maximum=8)
    packing_bitwidth: int | None = attribute(_WORDS, default=None, minimum=8, maximum=32)
    set_inductor_config: bool = attribute(_SWITCH, default=True)

    def __attrs_post_init__(self) -> None:
        """Check the packing. Raises FieldError."""
        check_supported(self.packing_bitwidth, "packing_bitwidth", PACKING_BITWIDTHS)
