"""Int8DynamicActivationIntxWeightConfig: an experiment, then layouts, then a packing format.

| ours | torchao releases | its `_version` | what was new |
|---|---|---|---|
| 1 | 0.10, torchao.experimental | 1 | – |
| 2 | 0.11 to 0.13 | 1 | weight_granularity, weight_scale_dtype; no has_weight_zeros |
| 3 | 0.14 and 0.15 | 1 and 2 | intx_packing_format, intx_choose_qparams_algorithm |
| 4 | 0.16 and later | 1 and 2 | no layout |

Version 3 stands for two of torchao's: under 1 the layout said how codes lie, under 2 the packing
format. `torchao_version` says which it was.
"""

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.configs.choices import IntxChooseQParamsAlgorithm, IntxPackingFormat, MappingType
from qconfig.configs.granularity import PerAxis, PerGroup, PerRow
from qconfig.configs.intx import (
    ACTIVATION_MAPPINGS,
    INTX,
    SCALES,
    Int8DynamicActivationIntxWeightConfig,
    WeightGranularity,
    check_weight_granularity,
)
from qconfig.configs.supported import check_supported
from qconfig.errors import MigrationError
from qconfig.versioning import Config, attribute, migration, register_config

from .torchao_values import (
    PackedLinearInt8DynamicActivationIntxWeightLayout,
    QDQLayout,
    TargetV1,
)

_WEIGHT_DTYPE = "Element type of the codes, int1 to int8."
_GRANULARITY = "Which weights share a scale: PerGroup, or PerAxis(0) for whole rows."
_MAPPING = "How weights map to codes."
_SCALE_DTYPE = "Element type of the weights' scales; null for that of the weight."
_ACTIVATION = "How activations map to codes: symmetric or asymmetric."
_LAYOUT = "How codes lie."

OldLayout = QDQLayout | PackedLinearInt8DynamicActivationIntxWeightLayout


@register_config("Int8DynamicActivationIntxWeightConfig", 1)
@frozen
class Int8DynamicActivationIntxWeightConfigV1(Config):
    """Intx weights and dynamic activations as torchao 0.10 had them among its experiments."""

    weight_dtype: DType = attribute(_WEIGHT_DTYPE, default=DType.INT4, converter=DType.parse)
    granularity: PerRow | PerGroup = attribute("Which weights share a scale.", factory=PerRow)
    has_weight_zeros: bool = attribute("Whether weights have zero points.", default=False)
    weight_mapping_type: MappingType = attribute(_MAPPING, default=MappingType.ASYMMETRIC)
    act_mapping_type: MappingType = attribute(_ACTIVATION, default=MappingType.ASYMMETRIC)
    round_weight_scale_to_bf16: bool = attribute(
        "Whether scales of weights are rounded to bfloat16.", default=True
    )
    layout: OldLayout = attribute(
        _LAYOUT, factory=PackedLinearInt8DynamicActivationIntxWeightLayout
    )

    def __attrs_post_init__(self) -> None:
        """Check dtype, granularity and the activation's mapping. Raises FieldError."""
        check_supported(self.weight_dtype, "weight_dtype", INTX)
        check_supported(self.act_mapping_type, "act_mapping_type", ACTIVATION_MAPPINGS)
        if isinstance(self.granularity, PerRow):
            check_supported(self.granularity, "granularity", (PerRow(),))


@register_config("Int8DynamicActivationIntxWeightConfig", 2)
@frozen
class Int8DynamicActivationIntxWeightConfigV2(Config):
    """Intx weights and dynamic activations as torchao 0.11 to 0.13 wrote them."""

    weight_dtype: DType = attribute(_WEIGHT_DTYPE, default=DType.INT8, converter=DType.parse)
    weight_granularity: WeightGranularity = attribute(_GRANULARITY, default=PerGroup(32))
    weight_mapping_type: MappingType = attribute(_MAPPING, default=MappingType.SYMMETRIC)
    weight_scale_dtype: DType | None = attribute(_SCALE_DTYPE, default=None)
    act_mapping_type: MappingType = attribute(_ACTIVATION, default=MappingType.ASYMMETRIC)
    layout: OldLayout = attribute(_LAYOUT, factory=QDQLayout)

    def __attrs_post_init__(self) -> None:
        """Check dtypes, granularity and the activation's mapping. Raises FieldError."""
        _check(self)


@register_config("Int8DynamicActivationIntxWeightConfig", 3)
@frozen
class Int8DynamicActivationIntxWeightConfigV3(Config):
    """Intx weights and dynamic activations as torchao 0.14 and 0.15 wrote them."""

    weight_dtype: DType = attribute(_WEIGHT_DTYPE, default=DType.INT8, converter=DType.parse)
    weight_granularity: WeightGranularity = attribute(_GRANULARITY, default=PerGroup(32))
    weight_mapping_type: MappingType = attribute(_MAPPING, default=MappingType.SYMMETRIC)
    weight_scale_dtype: DType | None = attribute(_SCALE_DTYPE, default=None)
    act_mapping_type: MappingType = attribute(_ACTIVATION, default=MappingType.ASYMMETRIC)
    layout: OldLayout = attribute("How codes lie, under 1.", factory=QDQLayout)
    intx_packing_format: IntxPackingFormat = attribute(
        "How codes lie, under 2.", default=IntxPackingFormat.UNPACKED_TO_INT8
    )
    intx_choose_qparams_algorithm: IntxChooseQParamsAlgorithm = attribute(
        "How scales and zero points of weights are found.",
        default=IntxChooseQParamsAlgorithm.AFFINE,
    )
    torchao_version: int = attribute("torchao's own version.", default=2, minimum=1, maximum=2)

    def __attrs_post_init__(self) -> None:
        """Check dtypes, granularity and the activation's mapping. Raises FieldError."""
        _check(self)


def _check(
    config: Int8DynamicActivationIntxWeightConfigV2 | Int8DynamicActivationIntxWeightConfigV3,
) -> None:
    check_supported(config.weight_dtype, "weight_dtype", INTX)
    check_supported(config.weight_scale_dtype, "weight_scale_dtype", (None, *SCALES))
    check_weight_granularity(config.weight_granularity, "weight_granularity")
    check_supported(config.act_mapping_type, "act_mapping_type", ACTIVATION_MAPPINGS)


_FORMATS = {
    TargetV1.AUTO: IntxPackingFormat.OPAQUE_TORCHAO_AUTO,
    TargetV1.UNIVERSAL: IntxPackingFormat.OPAQUE_TORCHAO_LOWBIT,
    TargetV1.KLEIDIAI: IntxPackingFormat.OPAQUE_TORCHAO_KLEIDIAI,
    TargetV1.ATEN: IntxPackingFormat.OPAQUE_ATEN_KLEIDIAI,
}


@migration()
def leave_the_experiment(
    old: Int8DynamicActivationIntxWeightConfigV1,
) -> Int8DynamicActivationIntxWeightConfigV2:
    """Say PerRow as PerAxis(0); refuse asymmetric weights without zero points."""
    if not old.has_weight_zeros and old.weight_mapping_type is MappingType.ASYMMETRIC:
        raise MigrationError(
            "there is no config any more for asymmetric weights without zero points",
            pointer="/has_weight_zeros",
            found=False,
            expected="true, or weight_mapping_type SYMMETRIC",
        )
    granularity = PerAxis(0) if isinstance(old.granularity, PerRow) else old.granularity
    return Int8DynamicActivationIntxWeightConfigV2(
        weight_dtype=old.weight_dtype,
        weight_granularity=granularity,
        weight_mapping_type=old.weight_mapping_type,
        weight_scale_dtype=DType.BFLOAT16 if old.round_weight_scale_to_bf16 else None,
        act_mapping_type=old.act_mapping_type,
        layout=old.layout,
    )


@migration()
def add_packing_format(
    old: Int8DynamicActivationIntxWeightConfigV2,
) -> Int8DynamicActivationIntxWeightConfigV3:
    """Keep all: under torchao's version 1 it is the layout that counts."""
    return Int8DynamicActivationIntxWeightConfigV3(
        weight_dtype=old.weight_dtype,
        weight_granularity=old.weight_granularity,
        weight_mapping_type=old.weight_mapping_type,
        weight_scale_dtype=old.weight_scale_dtype,
        act_mapping_type=old.act_mapping_type,
        layout=old.layout,
        torchao_version=1,
    )


@migration(drops="of layout and packing format the one that torchao did not use")
def fold_layout(
    old: Int8DynamicActivationIntxWeightConfigV3,
) -> Int8DynamicActivationIntxWeightConfig:
    """Say the layout as a packing format."""
    packing = old.intx_packing_format
    if old.torchao_version == 1:
        packing = IntxPackingFormat.UNPACKED_TO_INT8
        if isinstance(old.layout, PackedLinearInt8DynamicActivationIntxWeightLayout):
            packing = _FORMATS[old.layout.target]
    return Int8DynamicActivationIntxWeightConfig(
        weight_dtype=old.weight_dtype,
        weight_granularity=old.weight_granularity,
        weight_mapping_type=old.weight_mapping_type,
        weight_scale_dtype=old.weight_scale_dtype,
        act_mapping_type=old.act_mapping_type,
        intx_packing_format=packing,
        intx_choose_qparams_algorithm=old.intx_choose_qparams_algorithm,
    )
