"""Float8StaticActivationFloat8WeightConfig: a required scale, then calibration in steps.

| ours | torchao releases | what was new |
|---|---|---|
| 1 | 0.10 to 0.15 | – |
| 2 | 0.16 and later | scale is act_quant_scale and may be null; step, kernel and output |
"""

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.configs.float8 import (
    FLOAT8,
    Float8MMConfig,
    Float8StaticActivationFloat8WeightConfig,
)
from qconfig.configs.granularity import PerTensor
from qconfig.configs.supported import check_supported
from qconfig.configs.tensor_settings import check_scale, tensor_setting
from qconfig.versioning import Config, attribute, migration, register_config


@register_config("Float8StaticActivationFloat8WeightConfig", 1)
@frozen
class Float8StaticActivationFloat8WeightConfigV1(Config):
    """Float8 weights and static activations as torchao 0.10 to 0.15 had them."""

    scale: TensorValue = tensor_setting("Scale of activations, one element.", required=True)
    activation_dtype: DType = attribute(
        "Element type of the codes of activations, float8_e4m3fn or float8_e5m2.",
        default=DType.FLOAT8_E4M3FN,
        converter=DType.parse,
    )
    weight_dtype: DType = attribute(
        "Element type of the codes of weights, float8_e4m3fn or float8_e5m2.",
        default=DType.FLOAT8_E4M3FN,
        converter=DType.parse,
    )
    granularity: PerTensor | None = attribute(
        "Which elements share a scale: all; null means the same.", default=None
    )
    mm_config: Float8MMConfig | None = attribute(
        "How torchao's product is computed; null for its default.", default=None
    )
    set_inductor_config: bool = attribute("A switch of torchao's.", default=True)

    def __attrs_post_init__(self) -> None:
        """Check dtypes and the scale. Raises FieldError."""
        check_supported(self.activation_dtype, "activation_dtype", FLOAT8)
        check_supported(self.weight_dtype, "weight_dtype", FLOAT8)
        check_scale(self.scale, "scale", channels=None)


@migration()
def rename_scale(
    old: Float8StaticActivationFloat8WeightConfigV1,
) -> Float8StaticActivationFloat8WeightConfig:
    """Take the new name; no step, since the scale is given."""
    return Float8StaticActivationFloat8WeightConfig(
        act_quant_scale=old.scale,
        activation_dtype=old.activation_dtype,
        weight_dtype=old.weight_dtype,
        granularity=old.granularity,
        mm_config=old.mm_config,
        set_inductor_config=old.set_inductor_config,
    )
