"""IntxWeightOnlyConfig: torchao's layout and packing format, and then the format alone.

| ours | torchao releases | its `_version` | what was new |
|---|---|---|---|
| 1 | 0.11 and 0.12 | 1 | – |
| 2 | 0.13 | 1 and 2 | packing_format |
| 3 | 0.14 and 0.15 | 1 and 2 | it is called intx_packing_format; intx_choose_qparams_algorithm |
| 4 | 0.16 and later | 1 and 2 | no layout |

The layout was QDQLayout, the codes one a byte, which is what UNPACKED_TO_INT8 means.
"""

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.configs.choices import IntxChooseQParamsAlgorithm, IntxPackingFormat, MappingType
from qconfig.configs.granularity import PerAxis
from qconfig.configs.intx import (
    INTX,
    SCALES,
    IntxWeightOnlyConfig,
    WeightGranularity,
    check_weight_granularity,
)
from qconfig.configs.supported import check_supported
from qconfig.errors import MigrationError
from qconfig.versioning import Config, attribute, migration, register_config

from .torchao_values import PackingFormatV1, QDQLayout

_WEIGHT_DTYPE = "Element type of the codes, int1 to int8."
_GRANULARITY = "Which weights share a scale: PerGroup, or PerAxis(0) for whole rows."
_MAPPING = "How weights map to codes."
_SCALE_DTYPE = "Element type of the scales; null for that of the weight."
_LAYOUT = "How codes lie."


@register_config("IntxWeightOnlyConfig", 1)
@frozen
class IntxWeightOnlyConfigV1(Config):
    """Weights of 1 to 8 bits as torchao 0.11 and 0.12 wrote them."""

    weight_dtype: DType = attribute(_WEIGHT_DTYPE, default=DType.INT8, converter=DType.parse)
    granularity: WeightGranularity = attribute(_GRANULARITY, default=PerAxis(0))
    mapping_type: MappingType = attribute(_MAPPING, default=MappingType.SYMMETRIC)
    scale_dtype: DType | None = attribute(_SCALE_DTYPE, default=None)
    layout: QDQLayout = attribute(_LAYOUT, factory=QDQLayout)

    def __attrs_post_init__(self) -> None:
        """Check dtypes and granularity. Raises FieldError."""
        _check(self)


@register_config("IntxWeightOnlyConfig", 2)
@frozen
class IntxWeightOnlyConfigV2(Config):
    """Weights of 1 to 8 bits as torchao 0.13 wrote them."""

    weight_dtype: DType = attribute(_WEIGHT_DTYPE, default=DType.INT8, converter=DType.parse)
    granularity: WeightGranularity = attribute(_GRANULARITY, default=PerAxis(0))
    mapping_type: MappingType = attribute(_MAPPING, default=MappingType.SYMMETRIC)
    scale_dtype: DType | None = attribute(_SCALE_DTYPE, default=None)
    layout: QDQLayout = attribute(_LAYOUT, factory=QDQLayout)
    packing_format: PackingFormatV1 = attribute(
        "How codes lie, once more.", default=PackingFormatV1.UNPACKED_TO_INT8
    )

    def __attrs_post_init__(self) -> None:
        """Check dtypes and granularity. Raises FieldError."""
        _check(self)


@register_config("IntxWeightOnlyConfig", 3)
@frozen
class IntxWeightOnlyConfigV3(Config):
    """Weights of 1 to 8 bits as torchao 0.14 and 0.15 wrote them."""

    weight_dtype: DType = attribute(_WEIGHT_DTYPE, default=DType.INT8, converter=DType.parse)
    granularity: WeightGranularity = attribute(_GRANULARITY, default=PerAxis(0))
    mapping_type: MappingType = attribute(_MAPPING, default=MappingType.SYMMETRIC)
    scale_dtype: DType | None = attribute(_SCALE_DTYPE, default=None)
    layout: QDQLayout = attribute(_LAYOUT, factory=QDQLayout)
    intx_packing_format: IntxPackingFormat = attribute(
        "How codes lie, once more.", default=IntxPackingFormat.UNPACKED_TO_INT8
    )
    intx_choose_qparams_algorithm: IntxChooseQParamsAlgorithm = attribute(
        "How scales and zero points are found.", default=IntxChooseQParamsAlgorithm.AFFINE
    )

    def __attrs_post_init__(self) -> None:
        """Check dtypes and granularity. Raises FieldError."""
        _check(self)


def _check(
    config: IntxWeightOnlyConfigV1 | IntxWeightOnlyConfigV2 | IntxWeightOnlyConfigV3,
) -> None:
    check_supported(config.weight_dtype, "weight_dtype", INTX)
    check_supported(config.scale_dtype, "scale_dtype", (None, *SCALES))
    check_weight_granularity(config.granularity, "granularity")


@migration()
def add_packing_format(old: IntxWeightOnlyConfigV1) -> IntxWeightOnlyConfigV2:
    """Say once more that the codes lie one a byte."""
    return IntxWeightOnlyConfigV2(
        weight_dtype=old.weight_dtype,
        granularity=old.granularity,
        mapping_type=old.mapping_type,
        scale_dtype=old.scale_dtype,
        layout=old.layout,
    )


@migration()
def rename_packing_format(old: IntxWeightOnlyConfigV2) -> IntxWeightOnlyConfigV3:
    """Take the new name; refuse formats of other families, as torchao did when it quantized."""
    if old.packing_format is not PackingFormatV1.UNPACKED_TO_INT8:
        raise MigrationError(
            "intx weights have no such packing format",
            pointer="/packing_format",
            found=old.packing_format.value,
            expected="UNPACKED_TO_INT8",
        )
    return IntxWeightOnlyConfigV3(
        weight_dtype=old.weight_dtype,
        granularity=old.granularity,
        mapping_type=old.mapping_type,
        scale_dtype=old.scale_dtype,
        layout=old.layout,
    )


@migration()
def drop_layout(old: IntxWeightOnlyConfigV3) -> IntxWeightOnlyConfig:
    """Leave it to intx_packing_format how codes lie: there was one layout only."""
    return IntxWeightOnlyConfig(
        weight_dtype=old.weight_dtype,
        granularity=old.granularity,
        mapping_type=old.mapping_type,
        scale_dtype=old.scale_dtype,
        intx_packing_format=old.intx_packing_format,
        intx_choose_qparams_algorithm=old.intx_choose_qparams_algorithm,
    )
