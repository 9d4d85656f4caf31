"""UIntxWeightOnlyConfig: three configs of torchao's, one after another.

| ours | torchao releases | its class | what was new |
|---|---|---|---|
| 1 | 0.10 to 0.16 | UIntXWeightOnlyConfig | – |
| 2 | 0.10 and 0.11 | GemliteUIntXWeightOnlyConfig | bit_width, packing_bitwidth, contiguous |
| 3 | 0.12 to 0.16 | GemliteUIntXWeightOnlyConfig | mode in place of contiguous; other defaults |
| 4 | 0.16 and later | UIntxWeightOnlyConfig of torchao.experimental | bitwidth, an algorithm |
| 5 | 0.17 and later | UIntxWeightOnlyConfig of torchao.prototype | bit_width, packing_bitwidth |

Each version has fields for what the one before says, under the names that they have today.
"""

from enum import StrEnum

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.configs.supported import check_supported, choice_of
from qconfig.configs.uintx import (
    PACKING_BITWIDTHS,
    UIntxChooseQParamsAlgorithm,
    UIntxWeightOnlyConfig,
)
from qconfig.errors import MigrationError
from qconfig.versioning import Config, attribute, migration, register_config

_UINTX = tuple(DType(f"uint{bits}") for bits in range(1, 9))
_GROUP = "Weights of a row that share a scale; null for whole rows."
_BITS = "Bits of a code."
_WORDS = "Bits of the words that codes are packed into."
_ALGORITHM = "How scales and zero points are found; null for HQQ, and SYMMETRIC for 8 bits."
_SWITCH = "A switch of torchao's."
_LARGEST = 2**31 - 1


class GemliteMode(StrEnum):
    """Whether activations are quantized; torchao had a string."""

    WEIGHT_ONLY = "weight_only"
    DYNAMIC = "dynamic"


@register_config("UIntxWeightOnlyConfig", 1)
@frozen
class UIntxWeightOnlyConfigV1(Config):
    """Unsigned weights of 1 to 7 bits as torchao 0.10 to 0.16 wrote them."""

    dtype: DType = attribute("Element type of the codes, uint1 to uint8.", converter=DType.parse)
    group_size: int = attribute(
        "Weights of a row that share a scale.", default=64, minimum=1, maximum=_LARGEST
    )
    pack_dim: int = attribute("Dimension along which codes share a byte.", default=-1)
    use_hqq: bool = attribute("Whether scales are found by HQQ.", default=False)
    set_inductor_config: bool = attribute(_SWITCH, default=True)

    def __attrs_post_init__(self) -> None:
        """Check the element type. Raises FieldError."""
        check_supported(self.dtype, "dtype", _UINTX)


@register_config("UIntxWeightOnlyConfig", 2)
@frozen
class UIntxWeightOnlyConfigV2(Config):
    """GemliteUIntXWeightOnlyConfig as torchao 0.10 and 0.11 wrote it."""

    group_size: int | None = attribute(_GROUP, default=64, minimum=1, maximum=_LARGEST)
    bit_width: int = attribute(_BITS, default=4, minimum=1, maximum=8)
    packing_bitwidth: int | None = attribute(_WORDS, default=32, minimum=8, maximum=32)
    contiguous: bool | None = attribute(
        "Whether packed words lie in rows; null for the kernel's choice.", default=None
    )
    uintx_choose_qparams_algorithm: UIntxChooseQParamsAlgorithm | None = attribute(
        _ALGORITHM, default=None, converter=choice_of(UIntxChooseQParamsAlgorithm)
    )
    set_inductor_config: bool = attribute(_SWITCH, default=True)

    def __attrs_post_init__(self) -> None:
        """Check the packing. Raises FieldError."""
        check_supported(self.packing_bitwidth, "packing_bitwidth", PACKING_BITWIDTHS)


@register_config("UIntxWeightOnlyConfig", 3)
@frozen
class UIntxWeightOnlyConfigV3(Config):
    """GemliteUIntXWeightOnlyConfig as torchao 0.12 to 0.16 wrote it."""

    group_size: int | None = attribute(_GROUP, default=128, minimum=1, maximum=_LARGEST)
    bit_width: int = attribute(_BITS, default=4, minimum=1, maximum=8)
    packing_bitwidth: int | None = attribute(_WORDS, default=None, minimum=8, maximum=32)
    mode: GemliteMode = attribute(
        "Whether activations are quantized.", default=GemliteMode.WEIGHT_ONLY
    )
    uintx_choose_qparams_algorithm: UIntxChooseQParamsAlgorithm | None = attribute(
        _ALGORITHM, default=None, converter=choice_of(UIntxChooseQParamsAlgorithm)
    )
    set_inductor_config: bool = attribute(_SWITCH, default=True)

    def __attrs_post_init__(self) -> None:
        """Check the packing. Raises FieldError."""
        check_supported(self.packing_bitwidth, "packing_bitwidth", PACKING_BITWIDTHS)


@register_config("UIntxWeightOnlyConfig", 4)
@frozen
class UIntxWeightOnlyConfigV4(Config):
    """UIntxWeightOnlyConfig of torchao.experimental, for Apple's GPUs."""

    bitwidth: int = attribute(_BITS, default=4, minimum=1, maximum=8)
    group_size: int | None = attribute(_GROUP, default=128, minimum=1, maximum=_LARGEST)
    uintx_choose_qparams_algorithm: UIntxChooseQParamsAlgorithm | None = attribute(
        _ALGORITHM,
        default=UIntxChooseQParamsAlgorithm.MIN_MAX,
        converter=choice_of(UIntxChooseQParamsAlgorithm),
    )
    packing_bitwidth: int | None = attribute(_WORDS, default=None, minimum=8, maximum=32)
    set_inductor_config: bool = attribute(_SWITCH, default=True)

    def __attrs_post_init__(self) -> None:
        """Check the packing. Raises FieldError."""
        check_supported(self.packing_bitwidth, "packing_bitwidth", PACKING_BITWIDTHS)


@migration(drops="pack_dim: which codes share a byte says nothing about their values")
def name_the_algorithm(old: UIntxWeightOnlyConfigV1) -> UIntxWeightOnlyConfigV2:
    """Say the element type as bits, and use_hqq as an algorithm."""
    kinds = UIntxChooseQParamsAlgorithm
    return UIntxWeightOnlyConfigV2(
        group_size=old.group_size,
        bit_width=1 + _UINTX.index(old.dtype),
        packing_bitwidth=None,
        uintx_choose_qparams_algorithm=kinds.HQQ if old.use_hqq else kinds.MIN_MAX,
        set_inductor_config=old.set_inductor_config,
    )


@migration(drops="contiguous: how packed words lie says nothing about their values")
def drop_contiguous(old: UIntxWeightOnlyConfigV2) -> UIntxWeightOnlyConfigV3:
    """Leave activations as they are, which mode says."""
    return UIntxWeightOnlyConfigV3(
        group_size=old.group_size,
        bit_width=old.bit_width,
        packing_bitwidth=old.packing_bitwidth,
        uintx_choose_qparams_algorithm=old.uintx_choose_qparams_algorithm,
        set_inductor_config=old.set_inductor_config,
    )


@migration()
def drop_mode(old: UIntxWeightOnlyConfigV3) -> UIntxWeightOnlyConfigV4:
    """Refuse quantized activations, which have a config of their own since."""
    if old.mode is GemliteMode.DYNAMIC:
        raise MigrationError(
            "this config leaves activations as they are",
            pointer="/mode",
            found=old.mode.value,
            expected=GemliteMode.WEIGHT_ONLY.value,
            hint="write an Int8DynamicActivationUIntxWeightConfig with the same fields",
        )
    return UIntxWeightOnlyConfigV4(
        bitwidth=old.bit_width,
        group_size=old.group_size,
        uintx_choose_qparams_algorithm=old.uintx_choose_qparams_algorithm,
        packing_bitwidth=old.packing_bitwidth,
        set_inductor_config=old.set_inductor_config,
    )


@migration()
def rename_bitwidth(old: UIntxWeightOnlyConfigV4) -> UIntxWeightOnlyConfig:
    """Take the name that bits had before."""
    return UIntxWeightOnlyConfig(
        group_size=old.group_size,
        bit_width=old.bitwidth,
        packing_bitwidth=old.packing_bitwidth,
        uintx_choose_qparams_algorithm=old.uintx_choose_qparams_algorithm,
        set_inductor_config=old.set_inductor_config,
    )
