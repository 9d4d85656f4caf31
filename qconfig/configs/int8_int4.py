"""Config of int4 weights with int8 activations, current version."""

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.configs.choices import MappingType
from qconfig.configs.intx import ACTIVATION_MAPPINGS, SCALES
from qconfig.configs.supported import check_supported, choice_of, optional_dtype
from qconfig.versioning import Config, attribute, register_config


@register_config("Int8DynamicActivationInt4WeightConfig", 2)
@frozen
class Int8DynamicActivationInt4WeightConfig(Config):
    """Int4 weights in groups, and activations that are quantized to int8 token by token.

    Served are linear weights whose K is divided by the group size. The defaults are those of
    torchao 0.4 to 0.16. In torchao 0.17 and later a config of this name has asymmetric weights with
    float32 scales, for one kernel on CPUs; here mapping_type and weight_scale_dtype say so.
    """

    group_size: int = attribute(
        "Weights of a row that share a scale.", default=32, minimum=1, maximum=2**31 - 1
    )
    mapping_type: MappingType = attribute(
        "How weights map to codes.",
        default=MappingType.SYMMETRIC,
        converter=choice_of(MappingType),
    )
    act_mapping_type: MappingType = attribute(
        "How activations map to codes: symmetric or asymmetric.",
        default=MappingType.ASYMMETRIC,
        converter=choice_of(MappingType),
    )
    weight_scale_dtype: DType | None = attribute(
        "Element type of the weights' scales; null for that of the weight.",
        default=None,
        converter=optional_dtype,
    )
    set_inductor_config: bool = attribute("A switch of torchao's.", default=True)

    def __attrs_post_init__(self) -> None:
        """Check the activation's mapping and the type of scales. Raises FieldError."""
        check_supported(self.act_mapping_type, "act_mapping_type", ACTIVATION_MAPPINGS)
        check_supported(self.weight_scale_dtype, "weight_scale_dtype", (None, *SCALES))
