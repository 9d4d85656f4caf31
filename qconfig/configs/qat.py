"""Quantization-aware training: the config, and what a fake quantizer does."""

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.configs.choices import MappingType, QATStep, ZeroPointDomain
from qconfig.configs.fqn_to_config import FqnToConfig
from qconfig.configs.granularity import PerAxis, PerGroup, PerRow, PerTensor, PerToken
from qconfig.configs.supported import check_finite, check_supported, choice_of
from qconfig.errors import FieldError
from qconfig.versioning import Config, attribute, register_config, register_value

FakeQuantizeGranularity = PerTensor | PerRow | PerAxis | PerGroup | PerToken
"""What an integer fake quantizer may have."""

_INTEGERS = tuple(DType(f"{sign}int{bits}") for sign in ("", "u") for bits in range(1, 9))


@register_value("IntxFakeQuantizeConfig")
@frozen
class IntxFakeQuantizeConfig:
    """Round to an integer type of at most 8 bits and back."""

    dtype: DType = attribute(
        "Element type of the codes, int1 to int8 or uint1 to uint8.", converter=DType.parse
    )
    granularity: FakeQuantizeGranularity = attribute("Which elements share a scale.")
    mapping_type: MappingType = attribute(
        "How real values map to codes.",
        default=MappingType.SYMMETRIC,
        converter=choice_of(MappingType),
    )
    scale_precision: DType = attribute(
        "Element type of scales.", default=DType.FLOAT32, converter=DType.parse
    )
    zero_point_precision: DType = attribute(
        "Element type of zero points.", default=DType.INT32, converter=DType.parse
    )
    zero_point_domain: ZeroPointDomain = attribute(
        "Whether zero points are codes, real values or absent.",
        default=ZeroPointDomain.INT,
        converter=choice_of(ZeroPointDomain),
    )
    is_dynamic: bool = attribute("Whether scales follow the values.", default=True)
    range_learning: bool = attribute(
        "Whether scales and zero points are learned; they are then not dynamic.", default=False
    )
    eps: float | None = attribute(
        "Least scale; null for that of the element type.", default=None, minimum=0
    )

    def __attrs_post_init__(self) -> None:
        """Check the element type, and that learned ranges are not dynamic. Raises FieldError."""
        check_supported(self.dtype, "dtype", _INTEGERS)
        check_finite(self.eps, "eps")
        if self.is_dynamic and self.range_learning:
            raise FieldError(
                "ranges that are learned are not dynamic",
                pointer="/range_learning",
                found=True,
                expected="false, or is_dynamic false",
            )


@register_value("Int4WeightFakeQuantizeConfig")
@frozen
class Int4WeightFakeQuantizeConfig:
    """Round weights to int4 in groups, as the kernels of `Int4WeightOnlyConfig` see them."""

    group_size: int = attribute(
        "Weights of a row that share a scale.", default=128, minimum=1, maximum=2**31 - 1
    )
    activation_dtype: DType = attribute(
        "Element type of activations: float8_e4m3fn or bfloat16.",
        default=DType.FLOAT8_E4M3FN,
        converter=DType.parse,
    )

    def __attrs_post_init__(self) -> None:
        """Check the element type. Raises FieldError."""
        served = (DType.FLOAT8_E4M3FN, DType.BFLOAT16)
        check_supported(self.activation_dtype, "activation_dtype", served)


@register_value("Float8FakeQuantizeConfig")
@frozen
class Float8FakeQuantizeConfig:
    """Round to float8 and back."""

    dtype: DType = attribute(
        "Element type of the codes, float8_e4m3fn or float8_e5m2.",
        default=DType.FLOAT8_E4M3FN,
        converter=DType.parse,
    )
    granularity: PerTensor | PerRow = attribute("Which elements share a scale.", factory=PerRow)
    hp_value_lb: float | None = attribute(
        "Least absolute maximum that scales are made for; null for none.", default=None, minimum=0.0
    )
    hp_value_ub: float | None = attribute(
        "Greatest absolute maximum that scales are made for; null for none.",
        default=None,
        minimum=0.0,
    )

    def __attrs_post_init__(self) -> None:
        """Check the element type and the bounds. Raises FieldError."""
        check_supported(self.dtype, "dtype", (DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2))
        check_finite(self.hp_value_lb, "hp_value_lb")
        check_finite(self.hp_value_ub, "hp_value_ub")


FakeQuantizeConfig = (
    IntxFakeQuantizeConfig | Int4WeightFakeQuantizeConfig | Float8FakeQuantizeConfig
)
"""What a fake quantizer may be."""


@register_config("QATConfig", 1)
@frozen
class QATConfig(Config):
    """Train with rounding, then quantize: fake quantizers in (PREPARE), then a base config.

    Either a base config says both what is simulated and what is built, or the fake quantizers of
    activation and weight are given; those only in the step PREPARE.
    """

    base_config: Config | None = attribute(
        "The config that is simulated and then applied; null where fake quantizers are given.",
        default=None,
    )
    activation_config: FakeQuantizeConfig | None = attribute(
        "Fake quantizer of activations; null for none.", default=None
    )
    weight_config: FakeQuantizeConfig | None = attribute(
        "Fake quantizer of weights; null for none.", default=None
    )
    step: QATStep = attribute(
        "Whether fake quantizers are put in or tensors are built.",
        default=QATStep.PREPARE,
        converter=choice_of(QATStep),
    )

    def __attrs_post_init__(self) -> None:
        """Check which configs stand together. Raises FieldError."""
        given = [n for n in ("activation_config", "weight_config") if getattr(self, n) is not None]
        if isinstance(self.base_config, QATConfig | FqnToConfig):
            raise FieldError(
                "base_config is not supported",
                pointer="/base_config",
                found=type(self.base_config).__name__,
                expected="a config that quantizes weights by itself",
            )
        if given and (self.base_config is not None or self.step is QATStep.CONVERT):
            raise FieldError(
                f"{given[0]} does not go with base_config or the step CONVERT",
                pointer=f"/{given[0]}",
                found=getattr(self, given[0]),
                expected="null",
            )
        if not given and self.base_config is None and self.step is QATStep.PREPARE:
            raise FieldError(
                "the step PREPARE has nothing to simulate",
                pointer="/base_config",
                found=None,
                expected="base_config, or activation_config or weight_config",
            )
