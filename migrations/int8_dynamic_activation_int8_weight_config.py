"""Int8DynamicActivationInt8WeightConfig: layout, then granularity, then neither layout.

| ours | torchao releases | its `_version` | fields |
|---|---|---|---|
| 1 | 0.10 to 0.14 | 1 | layout, act_mapping_type, weight_only_decode, set_inductor_config |
| 2 | 0.15 and 0.16 | 1 | granularity beside them, which is not used |
| 3 | 0.17 | 1 | layout may be null |
| 4 | 0.15 to 0.17 | 2 | the same; granularity is used, and layout is not |
| 5 | 0.18 | 2 | no layout; reduce_range |
"""

from attrs import frozen

from qconfig.configs.choices import MappingType
from qconfig.configs.granularity import PerRow
from qconfig.configs.int8 import (
    INT8_ACTIVATION_MAPPINGS,
    Int8DynamicActivationInt8WeightConfig,
    Int8PairGranularity,
    check_int8_pair,
)
from qconfig.configs.supported import check_supported, pair_or
from qconfig.errors import MigrationError
from qconfig.versioning import Config, attribute, migration, register_config

from .torchao_values import PlainLayout, SemiSparseLayout

_LAYOUT = "How codes lie."
_MAPPING = "How activations map to codes: symmetric or asymmetric."
_DECODE = "Whether the activation of a single token stays as it is."
_SWITCH = "A switch of torchao's."
_PAIR = "Which elements share a scale: of the activation, then of the weight."


@register_config("Int8DynamicActivationInt8WeightConfig", 1)
@frozen
class Int8DynamicActivationInt8WeightConfigV1(Config):
    """Int8 weights and dynamic activations as torchao 0.10 to 0.14 wrote them."""

    layout: PlainLayout | SemiSparseLayout = attribute(_LAYOUT, factory=PlainLayout)
    act_mapping_type: MappingType = attribute(_MAPPING, default=MappingType.SYMMETRIC)
    weight_only_decode: bool = attribute(_DECODE, default=False)
    set_inductor_config: bool = attribute(_SWITCH, default=True)

    def __attrs_post_init__(self) -> None:
        """Check the mapping. Raises FieldError."""
        check_supported(self.act_mapping_type, "act_mapping_type", INT8_ACTIVATION_MAPPINGS)


@register_config("Int8DynamicActivationInt8WeightConfig", 2)
@frozen
class Int8DynamicActivationInt8WeightConfigV2(Config):
    """Int8 weights and dynamic activations as torchao 0.15 and 0.16 wrote them under 1."""

    layout: PlainLayout | SemiSparseLayout = attribute(_LAYOUT, factory=PlainLayout)
    act_mapping_type: MappingType = attribute(_MAPPING, default=MappingType.SYMMETRIC)
    weight_only_decode: bool = attribute(_DECODE, default=False)
    granularity: tuple[Int8PairGranularity, ...] = attribute(
        "Not used: activations have a scale a token, weights a scale a row.",
        default=(PerRow(), PerRow()),
        converter=pair_or(PerRow()),
        min_length=2,
        max_length=2,
    )
    set_inductor_config: bool = attribute(_SWITCH, default=True)

    def __attrs_post_init__(self) -> None:
        """Check the mapping. Raises FieldError."""
        check_supported(self.act_mapping_type, "act_mapping_type", INT8_ACTIVATION_MAPPINGS)


@register_config("Int8DynamicActivationInt8WeightConfig", 3)
@frozen
class Int8DynamicActivationInt8WeightConfigV3(Config):
    """Int8 weights and dynamic activations as torchao 0.17 wrote them under 1."""

    layout: PlainLayout | SemiSparseLayout | None = attribute(
        "How codes lie; null for as they are.", default=None
    )
    act_mapping_type: MappingType = attribute(_MAPPING, default=MappingType.SYMMETRIC)
    weight_only_decode: bool = attribute(_DECODE, default=False)
    granularity: tuple[Int8PairGranularity, ...] = attribute(
        "Not used: activations have a scale a token, weights a scale a row.",
        default=(PerRow(), PerRow()),
        converter=pair_or(PerRow()),
        min_length=2,
        max_length=2,
    )
    set_inductor_config: bool = attribute(_SWITCH, default=True)

    def __attrs_post_init__(self) -> None:
        """Check the mapping. Raises FieldError."""
        check_supported(self.act_mapping_type, "act_mapping_type", INT8_ACTIVATION_MAPPINGS)


@register_config("Int8DynamicActivationInt8WeightConfig", 4)
@frozen
class Int8DynamicActivationInt8WeightConfigV4(Config):
    """Int8 weights and dynamic activations as torchao 0.15 to 0.17 wrote them under 2."""

    layout: PlainLayout | SemiSparseLayout | None = attribute("Not used.", default=None)
    act_mapping_type: MappingType = attribute(_MAPPING, default=MappingType.SYMMETRIC)
    weight_only_decode: bool = attribute("Not used.", default=False)
    granularity: tuple[Int8PairGranularity, ...] = attribute(
        _PAIR,
        default=(PerRow(), PerRow()),
        converter=pair_or(PerRow()),
        min_length=2,
        max_length=2,
    )
    set_inductor_config: bool = attribute(_SWITCH, default=True)

    def __attrs_post_init__(self) -> None:
        """Check the mapping and the granularities. Raises FieldError."""
        check_supported(self.act_mapping_type, "act_mapping_type", INT8_ACTIVATION_MAPPINGS)
        check_int8_pair(self.granularity)


@migration()
def add_granularity(
    old: Int8DynamicActivationInt8WeightConfigV1,
) -> Int8DynamicActivationInt8WeightConfigV2:
    """Put a granularity beside the others."""
    return Int8DynamicActivationInt8WeightConfigV2(
        layout=old.layout,
        act_mapping_type=old.act_mapping_type,
        weight_only_decode=old.weight_only_decode,
        set_inductor_config=old.set_inductor_config,
    )


@migration()
def let_layout_be_null(
    old: Int8DynamicActivationInt8WeightConfigV2,
) -> Int8DynamicActivationInt8WeightConfigV3:
    """Change nothing: layout may be null from here on."""
    return Int8DynamicActivationInt8WeightConfigV3(
        layout=old.layout,
        act_mapping_type=old.act_mapping_type,
        weight_only_decode=old.weight_only_decode,
        granularity=old.granularity,
        set_inductor_config=old.set_inductor_config,
    )


@migration(
    drops="granularity, which torchao did not use under its version 1; weight_only_decode has no "
    "effect from here on: the activation of a single token is quantized like all others"
)
def use_granularity(
    old: Int8DynamicActivationInt8WeightConfigV3,
) -> Int8DynamicActivationInt8WeightConfigV4:
    """Say a scale a token and a row; refuse sparse weights."""
    if isinstance(old.layout, SemiSparseLayout):
        raise MigrationError(
            "sparse weights have no config any more",
            pointer="/layout",
            found=old.layout,
            expected="PlainLayout",
            hint="torchao 0.10 to 0.16 has it; quantize again without the layout",
        )
    return Int8DynamicActivationInt8WeightConfigV4(
        act_mapping_type=old.act_mapping_type,
        weight_only_decode=old.weight_only_decode,
        set_inductor_config=old.set_inductor_config,
    )


@migration(drops="layout, which torchao did not use under its version 2")
def drop_layout(
    old: Int8DynamicActivationInt8WeightConfigV4,
) -> Int8DynamicActivationInt8WeightConfig:
    """Keep all but the layout."""
    return Int8DynamicActivationInt8WeightConfig(
        act_mapping_type=old.act_mapping_type,
        weight_only_decode=old.weight_only_decode,
        granularity=old.granularity,
        set_inductor_config=old.set_inductor_config,
    )
