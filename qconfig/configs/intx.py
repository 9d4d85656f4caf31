"""Configs of the intx family (weights of 1 to 8 bits), current versions."""

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.configs.choices import IntxChooseQParamsAlgorithm, IntxPackingFormat, MappingType
from qconfig.configs.granularity import PerAxis, PerGroup, PerTensor
from qconfig.configs.supported import check_supported, choice_of, optional_dtype
from qconfig.configs.tensor_settings import (
    check_output,
    check_scale,
    check_symmetric,
    check_zero_point,
    tensor_setting,
)
from qconfig.errors import FieldError
from qconfig.versioning import Config, attribute, register_config

WeightGranularity = PerGroup | PerAxis
"""What intx weights may have: groups, or PerAxis(0)."""
StaticActivationGranularity = PerTensor | PerAxis
"""What static activations may have: one scale, or PerAxis(-1), one for each input channel."""

INTX = tuple(DType(f"int{bits}") for bits in range(1, 9))
"""int1 to int8, narrowest first."""
SCALES = (DType.FLOAT32, DType.BFLOAT16, DType.FLOAT16, DType.FLOAT64)
"""What scales of weights may be stored in."""
ACTIVATION_MAPPINGS = (MappingType.SYMMETRIC, MappingType.ASYMMETRIC)
"""How activations of intx products may map to codes."""

_WEIGHT_DTYPE = "Element type of the codes, int1 to int8."
_GRANULARITY = "Which weights share a scale: PerGroup, or PerAxis(0) for whole rows."
_MAPPING = "How weights map to codes."
_SCALE_DTYPE = "Element type of the weights' scales; null for that of the weight."
_FORMAT = "How torchao lays out the codes; UNPACKED_TO_INT8 is built here."
_ALGORITHM = "How scales and zero points of weights are found."


@register_config("IntxWeightOnlyConfig", 4)
@frozen
class IntxWeightOnlyConfig(Config):
    """Weights of 1 to 8 bits with scales; activations stay as they are.

    Served are linear and embedding weights with PerGroup and PerAxis(0).
    """

    weight_dtype: DType = attribute(_WEIGHT_DTYPE, default=DType.INT8, converter=DType.parse)
    granularity: WeightGranularity = attribute(_GRANULARITY, default=PerAxis(0))
    mapping_type: MappingType = attribute(
        _MAPPING, default=MappingType.SYMMETRIC, converter=choice_of(MappingType)
    )
    scale_dtype: DType | None = attribute(_SCALE_DTYPE, default=None, converter=optional_dtype)
    intx_packing_format: IntxPackingFormat = attribute(
        _FORMAT, default=IntxPackingFormat.UNPACKED_TO_INT8, converter=choice_of(IntxPackingFormat)
    )
    intx_choose_qparams_algorithm: IntxChooseQParamsAlgorithm = attribute(
        _ALGORITHM,
        default=IntxChooseQParamsAlgorithm.AFFINE,
        converter=choice_of(IntxChooseQParamsAlgorithm),
    )

    def __attrs_post_init__(self) -> None:
        """Check dtypes and granularity. Raises FieldError."""
        check_supported(self.weight_dtype, "weight_dtype", INTX)
        check_supported(self.scale_dtype, "scale_dtype", (None, *SCALES))
        check_weight_granularity(self.granularity, "granularity")


@register_config("Int8DynamicActivationIntxWeightConfig", 4)
@frozen
class Int8DynamicActivationIntxWeightConfig(Config):
    """Weights of 1 to 8 bits, and activations that are quantized to int8 token by token.

    Served are linear weights with PerGroup and PerAxis(0); activations symmetric or asymmetric.
    """

    weight_dtype: DType = attribute(_WEIGHT_DTYPE, default=DType.INT8, converter=DType.parse)
    weight_granularity: WeightGranularity = attribute(_GRANULARITY, default=PerGroup(32))
    weight_mapping_type: MappingType = attribute(
        _MAPPING, default=MappingType.SYMMETRIC, converter=choice_of(MappingType)
    )
    weight_scale_dtype: DType | None = attribute(
        _SCALE_DTYPE, default=None, converter=optional_dtype
    )
    act_mapping_type: MappingType = attribute(
        "How activations map to codes: symmetric or asymmetric.",
        default=MappingType.ASYMMETRIC,
        converter=choice_of(MappingType),
    )
    intx_packing_format: IntxPackingFormat = attribute(
        _FORMAT, default=IntxPackingFormat.UNPACKED_TO_INT8, converter=choice_of(IntxPackingFormat)
    )
    intx_choose_qparams_algorithm: IntxChooseQParamsAlgorithm = attribute(
        _ALGORITHM,
        default=IntxChooseQParamsAlgorithm.AFFINE,
        converter=choice_of(IntxChooseQParamsAlgorithm),
    )

    def __attrs_post_init__(self) -> None:
        """Check dtypes, granularity and the activation's mapping. Raises FieldError."""
        check_supported(self.weight_dtype, "weight_dtype", INTX)
        check_supported(self.weight_scale_dtype, "weight_scale_dtype", (None, *SCALES))
        check_weight_granularity(self.weight_granularity, "weight_granularity")
        check_supported(self.act_mapping_type, "act_mapping_type", ACTIVATION_MAPPINGS)


@register_config("Int8StaticActivationIntxWeightConfig", 1)
@frozen
class Int8StaticActivationIntxWeightConfig(Config):
    """Weights of 1 to 8 bits, and int8 activations whose scales are known beforehand.

    The scales may be carried here, in memory and in documents; a builder puts them on the tensor.
    Served are linear and embedding weights with PerGroup and PerAxis(0), and static activations
    PerTensor or PerAxis(-1), one scale for each input channel.
    """

    weight_dtype: DType = attribute(_WEIGHT_DTYPE, default=DType.INT8, converter=DType.parse)
    weight_granularity: WeightGranularity = attribute(_GRANULARITY, default=PerGroup(32))
    weight_mapping_type: MappingType = attribute(
        _MAPPING, default=MappingType.SYMMETRIC, converter=choice_of(MappingType)
    )
    weight_scale_dtype: DType | None = attribute(
        _SCALE_DTYPE, default=None, converter=optional_dtype
    )
    act_quant_scale: TensorValue | None = tensor_setting(
        "Scale of activations, one element or one for each input channel; null until calibrated."
    )
    act_quant_zero_point: TensorValue | None = tensor_setting(
        "Code of the real value zero, an integer from -128 to 127; null means 0."
    )
    act_mapping_type: MappingType = attribute(
        "How activations map to codes: symmetric or asymmetric.",
        default=MappingType.ASYMMETRIC,
        converter=choice_of(MappingType),
    )
    act_granularity: StaticActivationGranularity = attribute(
        "Which activations share a scale: all, PerTensor(), or PerAxis(-1), each input channel.",
        factory=PerTensor,
    )
    quantize_and_dequantize_output: bool = attribute(
        "Whether outputs are quantized to int8 and dequantized again.", default=False
    )
    output_act_quant_scale: TensorValue | None = tensor_setting(
        "Scale of outputs, one element or one for each output channel; null until calibrated."
    )
    output_act_quant_zero_point: TensorValue | None = tensor_setting(
        "Code of an output of zero, an integer from -128 to 127; null means 0."
    )
    intx_choose_qparams_algorithm: IntxChooseQParamsAlgorithm = attribute(
        _ALGORITHM,
        default=IntxChooseQParamsAlgorithm.AFFINE,
        converter=choice_of(IntxChooseQParamsAlgorithm),
    )

    def __attrs_post_init__(self) -> None:
        """Check dtypes, granularities, mapping, scales and zero points. Raises FieldError."""
        check_supported(self.weight_dtype, "weight_dtype", INTX)
        check_supported(self.weight_scale_dtype, "weight_scale_dtype", (None, *SCALES))
        check_weight_granularity(self.weight_granularity, "weight_granularity")
        check_supported(self.act_mapping_type, "act_mapping_type", ACTIVATION_MAPPINGS)
        check_supported(self.act_granularity, "act_granularity", (PerTensor(), PerAxis(-1)))
        _check_static(self)


def check_weight_granularity(granularity: WeightGranularity, name: str) -> None:
    """Check that weights have groups or PerAxis(0). Raises FieldError."""
    if granularity != PerAxis(0) and not isinstance(granularity, PerGroup):
        raise FieldError(
            f"{name} is not supported",
            pointer=f"/{name}",
            found=granularity,
            expected="PerGroup(...) or PerAxis(axis=0)",
        )


def _check_static(config: Int8StaticActivationIntxWeightConfig) -> None:
    scale, zero_point = config.act_quant_scale, config.act_quant_zero_point
    per_channel = isinstance(config.act_granularity, PerAxis)
    check_scale(scale, "act_quant_scale", channels="input channel" if per_channel else None)
    check_zero_point(zero_point, "act_quant_zero_point", scale, "act_quant_scale")
    check_symmetric(config.act_mapping_type, zero_point)
    output = config.output_act_quant_scale
    check_scale(output, "output_act_quant_scale", channels="output channel")
    check_zero_point(
        config.output_act_quant_zero_point,
        "output_act_quant_zero_point",
        output,
        "output_act_quant_scale",
    )
    check_output(output, is_quantized=config.quantize_and_dequantize_output)
