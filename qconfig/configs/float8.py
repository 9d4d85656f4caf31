"""Configs of the float8 family, current versions."""

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.configs.choices import Float8PackingFormat, KernelPreference, QuantizationStep
from qconfig.configs.granularity import PerBlock, PerGroup, PerRow, PerTensor
from qconfig.configs.supported import check_finite, check_supported, choice_of, pair_or
from qconfig.configs.tensor_settings import check_output, check_scale, tensor_setting
from qconfig.errors import FieldError
from qconfig.versioning import Config, attribute, register_config, register_value

Float8WeightGranularity = PerTensor | PerRow | PerGroup | PerBlock
"""What float8 weights may have."""
Float8PairGranularity = PerTensor | PerRow | PerBlock
"""What either of the two granularities of float8 products may be."""

FLOAT8 = (DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2)
"""Element types that are built here."""

_SWITCH = "A switch of torchao's, carried so that a document returns to torchao unchanged."
_WEIGHT_DTYPE = "Element type of the codes of weights, float8_e4m3fn or float8_e5m2."
_ACTIVATION_DTYPE = "Element type of the codes of activations, float8_e4m3fn or float8_e5m2."


@register_value("Float8MMConfig")
@frozen
class Float8MMConfig:
    """How torchao's float8 product is computed; carried."""

    emulate: bool = attribute("Whether the product is computed in float32.", default=False)
    use_fast_accum: bool = attribute("Whether sums may lose low bits for speed.", default=False)
    pad_inner_dim: bool = attribute("Whether K is padded to a multiple of 16.", default=False)


@register_config("Float8WeightOnlyConfig", 3)
@frozen
class Float8WeightOnlyConfig(Config):
    """Float8 weights with scales; activations stay as they are.

    Served are PerTensor, PerRow (the last dimension), PerGroup and PerBlock((128, 128)).
    """

    weight_dtype: DType = attribute(
        _WEIGHT_DTYPE, default=DType.FLOAT8_E4M3FN, converter=DType.parse
    )
    set_inductor_config: bool = attribute(_SWITCH, default=True)
    granularity: Float8WeightGranularity = attribute("Which weights share a scale.", factory=PerRow)

    def __attrs_post_init__(self) -> None:
        """Check dtype and granularity. Raises FieldError."""
        check_supported(self.weight_dtype, "weight_dtype", FLOAT8)
        served = (PerTensor(), PerRow(), PerBlock((128, 128)))
        if self.granularity not in served and not isinstance(self.granularity, PerGroup):
            raise FieldError(
                "granularity is not supported",
                pointer="/granularity",
                found=self.granularity,
                expected="PerTensor(), PerRow(), PerGroup(...) or PerBlock((128, 128))",
            )


@register_config("Float8DynamicActivationFloat8WeightConfig", 4)
@frozen
class Float8DynamicActivationFloat8WeightConfig(Config):
    """Float8 weights, and activations that are quantized to float8 when they come.

    Served are, for activation and weight: PerTensor and PerTensor, PerRow and PerRow (the last
    dimension), PerBlock((1, 128)) and PerBlock((128, 128)).
    """

    activation_dtype: DType = attribute(
        _ACTIVATION_DTYPE, default=DType.FLOAT8_E4M3FN, converter=DType.parse
    )
    weight_dtype: DType = attribute(
        _WEIGHT_DTYPE, default=DType.FLOAT8_E4M3FN, converter=DType.parse
    )
    granularity: tuple[Float8PairGranularity, ...] = attribute(
        "Which elements share a scale: of the activation, then of the weight. In Python one "
        "stands for both.",
        default=(PerTensor(), PerTensor()),
        converter=pair_or(PerTensor()),
        min_length=2,
        max_length=2,
    )
    packing_format: Float8PackingFormat = attribute(
        "How torchao lays out the codes; PLAIN is built here.",
        default=Float8PackingFormat.PLAIN,
        converter=choice_of(Float8PackingFormat),
    )
    mm_config: Float8MMConfig | None = attribute(
        "How torchao's product is computed; null for its default.", default=None
    )
    activation_value_lb: float | None = attribute(
        "Least absolute maximum of activations that scales are made for; null for none.",
        default=None,
        minimum=0.0,
    )
    activation_value_ub: float | None = attribute(
        "Greatest absolute maximum of activations that scales are made for; null for none.",
        default=None,
        minimum=0.0,
    )
    kernel_preference: KernelPreference = attribute(
        "Which of torchao's kernels to use; carried.",
        default=KernelPreference.AUTO,
        converter=choice_of(KernelPreference),
    )
    set_inductor_config: bool = attribute(_SWITCH, default=True)
    alg_id: int = attribute(
        "Number of the algorithm of torchao's sparse product; carried.",
        default=0,
        minimum=0,
        maximum=2**31 - 1,
    )

    def __attrs_post_init__(self) -> None:
        """Check dtypes, granularities and bounds. Raises FieldError."""
        check_supported(self.activation_dtype, "activation_dtype", FLOAT8)
        check_supported(self.weight_dtype, "weight_dtype", FLOAT8)
        check_float8_pair(self.granularity)
        check_finite(self.activation_value_lb, "activation_value_lb")
        check_finite(self.activation_value_ub, "activation_value_ub")


FLOAT8_PAIRS = (
    (PerTensor(), PerTensor()),
    (PerRow(), PerRow()),
    (PerBlock((1, 128)), PerBlock((128, 128))),
)
"""Granularities of activation and weight that go together."""


def check_float8_pair(granularity: tuple[Float8PairGranularity, ...]) -> None:
    """Check that the granularities of a float8 product go together.

    Raises:
        FieldError: the pair is not served; it names the pairs that are.
    """
    if granularity not in FLOAT8_PAIRS:
        raise FieldError(
            "granularity is not supported",
            pointer="/granularity",
            found=granularity,
            expected="for activation and weight PerTensor() and PerTensor(), PerRow() and "
            "PerRow(), or PerBlock((1, 128)) and PerBlock((128, 128))",
        )


@register_config("Float8StaticActivationFloat8WeightConfig", 2)
@frozen
class Float8StaticActivationFloat8WeightConfig(Config):
    """Float8 weights, and activations that are quantized to float8 with a scale known beforehand.

    Served is PerTensor for the activation and for the weight.
    """

    step: QuantizationStep | None = attribute(
        "Where torchao's calibration stands; null for a scale that is given.",
        default=None,
        converter=choice_of(QuantizationStep),
    )
    act_quant_scale: TensorValue | None = tensor_setting(
        "Scale of activations, one element; null until calibrated."
    )
    activation_dtype: DType = attribute(
        _ACTIVATION_DTYPE, default=DType.FLOAT8_E4M3FN, converter=DType.parse
    )
    weight_dtype: DType = attribute(
        _WEIGHT_DTYPE, default=DType.FLOAT8_E4M3FN, converter=DType.parse
    )
    granularity: PerTensor | None = attribute(
        "Which elements share a scale: all; null means the same.", default=None
    )
    mm_config: Float8MMConfig | None = attribute(
        "How torchao's product is computed; null for its default.", default=None
    )
    kernel_preference: KernelPreference = attribute(
        "Which of torchao's kernels to use; carried.",
        default=KernelPreference.AUTO,
        converter=choice_of(KernelPreference),
    )
    set_inductor_config: bool = attribute(_SWITCH, default=True)
    quantize_and_dequantize_output: bool = attribute(
        "Whether outputs are quantized to float8 and dequantized again.", default=False
    )
    output_act_quant_scale: TensorValue | None = tensor_setting(
        "Scale of outputs, one element; null until calibrated."
    )

    def __attrs_post_init__(self) -> None:
        """Check dtypes and scales. Raises FieldError."""
        check_supported(self.activation_dtype, "activation_dtype", FLOAT8)
        check_supported(self.weight_dtype, "weight_dtype", FLOAT8)
        check_scale(self.act_quant_scale, "act_quant_scale", channels=None)
        check_scale(self.output_act_quant_scale, "output_act_quant_scale", channels=None)
        check_output(self.output_act_quant_scale, is_quantized=self.quantize_and_dequantize_output)
