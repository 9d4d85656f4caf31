"""Configs of the int8 family, current versions. Retired ones lie in `qconfig.migrations`."""

from attrs import frozen

from qconfig.codec.tensor_values import TensorValue
from qconfig.configs.choices import MappingType
from qconfig.configs.granularity import Granularity, PerGroup, PerRow, PerTensor, PerToken
from qconfig.configs.supported import check_supported, choice_of, pair_or
from qconfig.configs.tensor_settings import (
    check_scale,
    check_symmetric,
    check_zero_point,
    tensor_setting,
)
from qconfig.errors import FieldError
from qconfig.versioning import Config, attribute, register_config

Int8PairGranularity = PerTensor | PerRow | PerToken | PerGroup
"""What either of the two granularities of int8 products may be; each place takes some of these."""

_PAIR = (
    "Which elements share a scale: of the activation (PerTensor, PerRow or PerToken), then of the "
    "weight (PerTensor, PerRow or PerGroup). In Python one stands for both."
)
_SWITCH = "A switch of torchao's, carried so that a document returns to torchao unchanged."
_REDUCE = "Whether codes keep to 7 bits, so that int16 sums of two products cannot overflow."


@register_config("Int8WeightOnlyConfig", 3)
@frozen
class Int8WeightOnlyConfig(Config):
    """Int8 weights with floating-point scales; activations stay as they are.

    Codes are symmetric: `scale = max|w| / 127.5`, `q = clamp(round(w / scale), -128, 127)`, as in
    torchao 0.18.
    """

    granularity: Granularity = attribute(
        "Which weights share a scale.",
        factory=PerRow,
    )
    set_inductor_config: bool = attribute(
        "A switch of torchao's, carried so that a document returns to torchao unchanged.",
        default=True,
    )


@register_config("Int8DynamicActivationInt8WeightConfig", 5)
@frozen
class Int8DynamicActivationInt8WeightConfig(Config):
    """Int8 weights, and activations that are quantized to int8 when they come.

    Served are the activation granularities PerTensor, PerRow (the last dimension) and PerToken,
    which is the same, each with the weight granularities PerTensor, PerRow (the last dimension)
    and PerGroup; activations symmetric or asymmetric, weights symmetric.
    """

    act_mapping_type: MappingType = attribute(
        "How activations map to codes: symmetric or asymmetric.",
        default=MappingType.SYMMETRIC,
        converter=choice_of(MappingType),
    )
    weight_only_decode: bool = attribute(
        "A switch of torchao's that its Int8Tensor ignores; carried.", default=False
    )
    granularity: tuple[Int8PairGranularity, ...] = attribute(
        _PAIR,
        default=(PerRow(), PerRow()),
        converter=pair_or(PerRow()),
        min_length=2,
        max_length=2,
    )
    set_inductor_config: bool = attribute(_SWITCH, default=True)
    reduce_range: bool = attribute(_REDUCE, default=False)

    def __attrs_post_init__(self) -> None:
        """Check the mapping and the granularities. Raises FieldError."""
        check_supported(self.act_mapping_type, "act_mapping_type", INT8_ACTIVATION_MAPPINGS)
        check_int8_pair(self.granularity)


@register_config("Int8StaticActivationInt8WeightConfig", 3)
@frozen
class Int8StaticActivationInt8WeightConfig(Config):
    """Int8 weights, and activations that are quantized to int8 with scales known beforehand.

    Granularities are those of `Int8DynamicActivationInt8WeightConfig`. A scale that is known
    beforehand serves all tokens: PerRow and PerToken then mean the same as PerTensor, unless
    `act_quant_scale` has one scale for each input channel.
    """

    act_quant_scale: TensorValue | None = tensor_setting(
        "Scale of activations, one element or one for each input channel; null until calibrated."
    )
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
    act_mapping_type: MappingType = attribute(
        "How activations map to codes: symmetric or asymmetric.",
        default=MappingType.SYMMETRIC,
        converter=choice_of(MappingType),
    )
    set_inductor_config: bool = attribute(_SWITCH, default=True)
    reduce_range: bool = attribute(_REDUCE, default=False)

    def __attrs_post_init__(self) -> None:
        """Check the mapping, the granularities, scale and zero point. Raises FieldError."""
        check_supported(self.act_mapping_type, "act_mapping_type", INT8_ACTIVATION_MAPPINGS)
        check_int8_pair(self.granularity)
        check_static_int8(self)


INT8_ACTIVATION_MAPPINGS = (MappingType.SYMMETRIC, MappingType.ASYMMETRIC)
"""How activations of int8 products may map to codes."""


def check_int8_pair(granularity: tuple[Int8PairGranularity, ...]) -> None:
    """Check a pair of granularities of an int8 product.

    Raises:
        FieldError: the pair is not served; it names the pairs that are.
    """
    activation, weight = granularity
    rows = (PerRow(), PerToken())
    if (activation in rows or isinstance(activation, PerTensor)) and (
        weight == PerRow() or isinstance(weight, PerTensor | PerGroup)
    ):
        return
    raise FieldError(
        "granularity is not supported",
        pointer="/granularity",
        found=granularity,
        expected="PerTensor(), PerRow() or PerToken() for the activation, each with PerTensor(), "
        "PerRow() or PerGroup(...) for the weight",
    )


def check_static_int8(config: Int8StaticActivationInt8WeightConfig) -> None:
    """Check scale and zero point of static activations. Raises FieldError."""
    scale, zero_point = config.act_quant_scale, config.act_quant_zero_point
    check_scale(scale, "act_quant_scale", channels="input channel")
    check_zero_point(zero_point, "act_quant_zero_point", scale, "act_quant_scale")
    check_symmetric(config.act_mapping_type, zero_point)
