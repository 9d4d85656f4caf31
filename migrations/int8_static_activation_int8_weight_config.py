"""Int8StaticActivationInt8WeightConfig: one field more a release, all under `_version` 1.

| ours | torchao | what was new |
|---|---|---|
| 1 | 0.16 | – |
| 2 | 0.17 | act_quant_zero_point |
| 3 | 0.18 | reduce_range |
"""

from attrs import frozen

from qconfig.codec.tensor_values import TensorValue
from qconfig.configs.choices import MappingType
from qconfig.configs.granularity import PerRow
from qconfig.configs.int8 import (
    INT8_ACTIVATION_MAPPINGS,
    Int8PairGranularity,
    Int8StaticActivationInt8WeightConfig,
    check_int8_pair,
)
from qconfig.configs.supported import check_supported, pair_or
from qconfig.configs.tensor_settings import (
    check_scale,
    check_symmetric,
    check_zero_point,
    tensor_setting,
)
from qconfig.versioning import Config, attribute, migration, register_config

_SCALE = "Scale of activations, one element or one for each input channel; null until calibrated."
_PAIR = "Which elements share a scale: of the activation, then of the weight."
_MAPPING = "How activations map to codes: symmetric or asymmetric."
_SWITCH = "A switch of torchao's."


@register_config("Int8StaticActivationInt8WeightConfig", 1)
@frozen
class Int8StaticActivationInt8WeightConfigV1(Config):
    """Int8 weights and static activations as torchao 0.16 wrote them."""

    act_quant_scale: TensorValue | None = tensor_setting(_SCALE)
    granularity: tuple[Int8PairGranularity, ...] = attribute(
        _PAIR,
        default=(PerRow(), PerRow()),
        converter=pair_or(PerRow()),
        min_length=2,
        max_length=2,
    )
    act_mapping_type: MappingType = attribute(_MAPPING, default=MappingType.SYMMETRIC)
    set_inductor_config: bool = attribute(_SWITCH, default=True)

    def __attrs_post_init__(self) -> None:
        """Check the mapping, the granularities and the scale. Raises FieldError."""
        check_supported(self.act_mapping_type, "act_mapping_type", INT8_ACTIVATION_MAPPINGS)
        check_int8_pair(self.granularity)
        check_scale(self.act_quant_scale, "act_quant_scale", channels="input channel")


@register_config("Int8StaticActivationInt8WeightConfig", 2)
@frozen
class Int8StaticActivationInt8WeightConfigV2(Config):
    """Int8 weights and static activations as torchao 0.17 wrote them."""

    act_quant_scale: TensorValue | None = tensor_setting(_SCALE)
    act_quant_zero_point: TensorValue | None = tensor_setting(
        "Code of the real value zero, an integer from -128 to 127; null means 0."
    )
    granularity: tuple[Int8PairGranularity, ...] = attribute(
        _PAIR,
        default=(PerRow(), PerRow()),
        converter=pair_or(PerRow()),
        min_length=2,
        max_length=2,
    )
    act_mapping_type: MappingType = attribute(_MAPPING, default=MappingType.SYMMETRIC)
    set_inductor_config: bool = attribute(_SWITCH, default=True)

    def __attrs_post_init__(self) -> None:
        """Check the mapping, the granularities, scale and zero point. Raises FieldError."""
        scale, zero_point = self.act_quant_scale, self.act_quant_zero_point
        check_supported(self.act_mapping_type, "act_mapping_type", INT8_ACTIVATION_MAPPINGS)
        check_int8_pair(self.granularity)
        check_scale(scale, "act_quant_scale", channels="input channel")
        check_zero_point(zero_point, "act_quant_zero_point", scale, "act_quant_scale")
        check_symmetric(self.act_mapping_type, zero_point)


@migration()
def add_zero_point(
    old: Int8StaticActivationInt8WeightConfigV1,
) -> Int8StaticActivationInt8WeightConfigV2:
    """Keep all; no zero point."""
    return Int8StaticActivationInt8WeightConfigV2(
        act_quant_scale=old.act_quant_scale,
        granularity=old.granularity,
        act_mapping_type=old.act_mapping_type,
        set_inductor_config=old.set_inductor_config,
    )


@migration()
def add_reduce_range(
    old: Int8StaticActivationInt8WeightConfigV2,
) -> Int8StaticActivationInt8WeightConfig:
    """Keep all; codes of 8 bits, as they were."""
    return Int8StaticActivationInt8WeightConfig(
        act_quant_scale=old.act_quant_scale,
        act_quant_zero_point=old.act_quant_zero_point,
        granularity=old.granularity,
        act_mapping_type=old.act_mapping_type,
        set_inductor_config=old.set_inductor_config,
    )
