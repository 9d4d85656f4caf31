"""AWQConfig: AWQUIntXConfig, then a base config with steps.

| ours | torchao releases | what was new |
|---|---|---|
| 1 | 0.10 and 0.11, as AWQUIntXConfig | – |
| 2 | 0.12, as AWQUIntXConfig | layout |
| 3 | 0.13 to 0.15 | base_config, step (AWQStep) and scale_search_space_size in their place |
| 4 | 0.16 and later | step is a QuantizationStep |
"""

from enum import StrEnum
from typing import Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.configs.activation_scaling import AWQConfig, check_base
from qconfig.configs.choices import (
    Int4ChooseQParamsAlgorithm,
    Int4PackingFormat,
    QuantizationStep,
)
from qconfig.configs.int4 import Int4WeightOnlyConfig
from qconfig.configs.supported import check_supported
from qconfig.configs.uintx import UIntxChooseQParamsAlgorithm, UIntxWeightOnlyConfig
from qconfig.errors import MigrationError
from qconfig.versioning import Config, attribute, migration, register_config

from .torchao_values import TensorCoreTiledLayout

_UINTX = tuple(DType(f"uint{bits}") for bits in range(1, 9))

_DTYPE = "Element type of the codes, uint1 to uint8."
_GROUP = "Weights of a row that share a scale and a zero point."
_HQQ = "Whether scales and zero points are found by HQQ."
_SWITCH = "A switch of torchao's."


class AWQStepV1(StrEnum):
    """Where AWQ stood up to torchao 0.15."""

    PREPARE = "PREPARE"
    CONVERT = "CONVERT"
    PREPARE_FOR_LOADING = "PREPARE_FOR_LOADING"


def awq_step_of(value: Any) -> Any:
    """Return the AWQStepV1 that torchao's string names, such as "prepare"; else `value`."""
    if type(value) is str and value.upper() in AWQStepV1.__members__:
        return AWQStepV1[value.upper()]
    return value


@register_config("AWQConfig", 1)
@frozen
class AWQConfigV1(Config):
    """AWQUIntXConfig as torchao 0.10 and 0.11 wrote it: applied to what had been observed."""

    quant_dtype: DType = attribute(_DTYPE, default=DType.UINT4, converter=DType.parse)
    group_size: int = attribute(_GROUP, default=64, minimum=1, maximum=2**31 - 1)
    use_hqq: bool = attribute(_HQQ, default=False)
    set_inductor_config: bool = attribute(_SWITCH, default=True)

    def __attrs_post_init__(self) -> None:
        """Check the element type. Raises FieldError."""
        check_supported(self.quant_dtype, "quant_dtype", _UINTX)


@register_config("AWQConfig", 2)
@frozen
class AWQConfigV2(Config):
    """AWQUIntXConfig as torchao 0.12 wrote it."""

    quant_dtype: DType = attribute(_DTYPE, default=DType.UINT4, converter=DType.parse)
    layout: TensorCoreTiledLayout = attribute(
        "How codes of uint4 lie.", factory=TensorCoreTiledLayout
    )
    group_size: int = attribute(_GROUP, default=64, minimum=1, maximum=2**31 - 1)
    use_hqq: bool = attribute(_HQQ, default=False)
    set_inductor_config: bool = attribute(_SWITCH, default=True)

    def __attrs_post_init__(self) -> None:
        """Check the element type. Raises FieldError."""
        check_supported(self.quant_dtype, "quant_dtype", _UINTX)


@register_config("AWQConfig", 3)
@frozen
class AWQConfigV3(Config):
    """AWQ over a base config as torchao 0.13 to 0.15 wrote it."""

    base_config: Config = attribute("The config that quantizes the scaled weight.")
    step: AWQStepV1 = attribute(
        "Where torchao's calibration stands.", default=AWQStepV1.PREPARE, converter=awq_step_of
    )
    scale_search_space_size: int = attribute(
        "How many exponents are tried.", default=20, minimum=1, maximum=2**31 - 1
    )

    def __attrs_post_init__(self) -> None:
        """Check the base config. Raises FieldError."""
        check_base(self.base_config)


@migration()
def add_layout(old: AWQConfigV1) -> AWQConfigV2:
    """Say the layout that was in use."""
    return AWQConfigV2(
        quant_dtype=old.quant_dtype,
        group_size=old.group_size,
        use_hqq=old.use_hqq,
        set_inductor_config=old.set_inductor_config,
    )


@migration(drops="layout: where codes lie says nothing about their values")
def say_base_config(old: AWQConfigV2) -> AWQConfigV3:
    """Say element type, groups and HQQ as a base config; the step is CONVERT.

    Raises:
        MigrationError: HQQ with other codes than uint4, which torchao refused, too.
    """
    return AWQConfigV3(base_config=_base(old), step=AWQStepV1.CONVERT)


def _base(old: AWQConfigV2) -> Config:
    if old.quant_dtype is DType.UINT4:
        return Int4WeightOnlyConfig(
            group_size=old.group_size,
            set_inductor_config=old.set_inductor_config,
            int4_packing_format=Int4PackingFormat.TILE_PACKED_TO_4D,
            int4_choose_qparams_algorithm=Int4ChooseQParamsAlgorithm.HQQ
            if old.use_hqq
            else Int4ChooseQParamsAlgorithm.TINYGEMM,
        )
    if old.use_hqq:
        raise MigrationError(
            "HQQ finds scales and zero points of uint4 only",
            pointer="/use_hqq",
            found=True,
            expected="false, or quant_dtype uint4",
        )
    return UIntxWeightOnlyConfig(
        group_size=old.group_size,
        bit_width=1 + _UINTX.index(old.quant_dtype),
        uintx_choose_qparams_algorithm=UIntxChooseQParamsAlgorithm.MIN_MAX,
        set_inductor_config=old.set_inductor_config,
    )


@migration()
def rename_step(old: AWQConfigV3) -> AWQConfig:
    """Keep all; the step is of another enum."""
    return AWQConfig(
        base_config=old.base_config,
        step=QuantizationStep(old.step.value),
        scale_search_space_size=old.scale_search_space_size,
    )
