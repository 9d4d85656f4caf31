"""Int8DynamicActivationInt4WeightConfig: a layout (1), then none (2).

| ours | torchao releases | fields |
|---|---|---|
| 1 | 0.10 to 0.16 | group_size, layout, mapping_type, act_mapping_type, set_inductor_config |
| 2 | 0.17 and later | group_size, act_mapping_type, set_inductor_config |

Since 0.17 torchao has weights for CPUs only under this name: asymmetric, with float32 scales.
Version 2 has fields to say so, `mapping_type` and `weight_scale_dtype`, and the reader of torchao's
documents fills them in. Up to 0.16 weights for CPUs were a layout, and mapping_type was not used.
"""

from attrs import frozen

from qconfig.configs.choices import MappingType
from qconfig.configs.int8_int4 import Int8DynamicActivationInt4WeightConfig
from qconfig.configs.intx import ACTIVATION_MAPPINGS
from qconfig.configs.supported import check_supported
from qconfig.errors import MigrationError
from qconfig.versioning import Config, attribute, migration, register_config

from .torchao_values import (
    CutlassInt4PackedLayout,
    Int8DynamicActInt4WeightCPULayout,
    MarlinQQQLayout,
    PlainLayout,
)

OldLayout = (
    PlainLayout | MarlinQQQLayout | CutlassInt4PackedLayout | Int8DynamicActInt4WeightCPULayout
)


@register_config("Int8DynamicActivationInt4WeightConfig", 1)
@frozen
class Int8DynamicActivationInt4WeightConfigV1(Config):
    """Int4 weights and int8 activations as torchao 0.10 to 0.16 wrote them."""

    group_size: int = attribute(
        "Weights of a row that share a scale.", default=32, minimum=1, maximum=2**31 - 1
    )
    layout: OldLayout = attribute("How codes lie.", factory=PlainLayout)
    mapping_type: MappingType = attribute(
        "How weights map to codes.", default=MappingType.SYMMETRIC
    )
    act_mapping_type: MappingType = attribute(
        "How activations map to codes: symmetric or asymmetric.", default=MappingType.ASYMMETRIC
    )
    set_inductor_config: bool = attribute("A switch of torchao's.", default=True)

    def __attrs_post_init__(self) -> None:
        """Check the activation's mapping. Raises FieldError."""
        check_supported(self.act_mapping_type, "act_mapping_type", ACTIVATION_MAPPINGS)


_HINTS = {
    MarlinQQQLayout: "scales of that kernel had two levels; quantize again without the layout",
    CutlassInt4PackedLayout: "weights had one scale a row: Int8DynamicActivationIntxWeightConfig "
    "with weight_dtype int4 and PerAxis(0) has, too",
}


@migration(
    drops="the order of codes for CPUs, and that activations had uint8 codes there: int8 codes are "
    "the same, 128 lower"
)
def fold_layout(
    old: Int8DynamicActivationInt4WeightConfigV1,
) -> Int8DynamicActivationInt4WeightConfig:
    """Say the layout for CPUs as a mapping; refuse those of other kernels."""
    hint = _HINTS.get(type(old.layout))
    if hint is not None:
        raise MigrationError(
            "there is no config any more for weights of this layout",
            pointer="/layout",
            found=old.layout,
            expected="PlainLayout or Int8DynamicActInt4WeightCPULayout",
            hint=hint,
        )
    is_plain = isinstance(old.layout, PlainLayout)
    return Int8DynamicActivationInt4WeightConfig(
        group_size=old.group_size,
        mapping_type=old.mapping_type if is_plain else MappingType.ASYMMETRIC,
        act_mapping_type=old.act_mapping_type,
        set_inductor_config=old.set_inductor_config,
    )
