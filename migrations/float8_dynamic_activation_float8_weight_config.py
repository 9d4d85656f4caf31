"""Float8DynamicActivationFloat8WeightConfig: three fields, a format and a number were added.

| ours | torchao releases | its `_version` | what was new |
|---|---|---|---|
| 1 | 0.10 to 0.12 | 1 | – |
| 2 | 0.13 to 0.15 | 1 and 2 | activation_value_lb, activation_value_ub, kernel_preference |
| 3 | 0.16 and 0.17 | 1 and 2 | packing_format; the kernels FBGEMM are called MSLK |
| 4 | 0.18 | 1 and 2 | alg_id; the format SPARSE_CUTLASS has another name |
"""

from enum import StrEnum

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.configs.choices import Float8PackingFormat, KernelPreference
from qconfig.configs.float8 import (
    FLOAT8,
    Float8DynamicActivationFloat8WeightConfig,
    Float8MMConfig,
    Float8PairGranularity,
    check_float8_pair,
)
from qconfig.configs.granularity import PerTensor
from qconfig.configs.supported import check_finite, check_supported, pair_or
from qconfig.versioning import Config, attribute, migration, register_config

from .torchao_values import KernelPreferenceV1

_ACTIVATION_DTYPE = "Element type of the codes of activations, float8_e4m3fn or float8_e5m2."
_WEIGHT_DTYPE = "Element type of the codes of weights, float8_e4m3fn or float8_e5m2."
_PAIR = "Which elements share a scale: of the activation, then of the weight."
_MM = "How torchao's product is computed; null for its default."
_LB = "Least absolute maximum of activations that scales are made for; null for none."
_UB = "Greatest absolute maximum of activations that scales are made for; null for none."
_KERNEL = "Which of torchao's kernels to use."
_SWITCH = "A switch of torchao's."


class Float8PackingFormatV1(StrEnum):
    """How torchao 0.16 and 0.17 laid out float8 codes."""

    PLAIN = "PLAIN"
    SPARSE_CUTLASS = "SPARSE_CUTLASS"


@register_config("Float8DynamicActivationFloat8WeightConfig", 1)
@frozen
class Float8DynamicActivationFloat8WeightConfigV1(Config):
    """Float8 weights and dynamic activations as torchao 0.10 to 0.12 wrote them."""

    activation_dtype: DType = attribute(
        _ACTIVATION_DTYPE, default=DType.FLOAT8_E4M3FN, converter=DType.parse
    )
    weight_dtype: DType = attribute(
        _WEIGHT_DTYPE, default=DType.FLOAT8_E4M3FN, converter=DType.parse
    )
    granularity: tuple[Float8PairGranularity, ...] = attribute(
        _PAIR,
        default=(PerTensor(), PerTensor()),
        converter=pair_or(PerTensor()),
        min_length=2,
        max_length=2,
    )
    mm_config: Float8MMConfig | None = attribute(_MM, default=None)
    set_inductor_config: bool = attribute(_SWITCH, default=True)

    def __attrs_post_init__(self) -> None:
        """Check dtypes and granularities. Raises FieldError."""
        _check_dtypes(self)
        check_float8_pair(self.granularity)


@register_config("Float8DynamicActivationFloat8WeightConfig", 2)
@frozen
class Float8DynamicActivationFloat8WeightConfigV2(Config):
    """Float8 weights and dynamic activations as torchao 0.13 to 0.15 wrote them."""

    activation_dtype: DType = attribute(
        _ACTIVATION_DTYPE, default=DType.FLOAT8_E4M3FN, converter=DType.parse
    )
    weight_dtype: DType = attribute(
        _WEIGHT_DTYPE, default=DType.FLOAT8_E4M3FN, converter=DType.parse
    )
    granularity: tuple[Float8PairGranularity, ...] = attribute(
        _PAIR,
        default=(PerTensor(), PerTensor()),
        converter=pair_or(PerTensor()),
        min_length=2,
        max_length=2,
    )
    mm_config: Float8MMConfig | None = attribute(_MM, default=None)
    activation_value_lb: float | None = attribute(_LB, default=None)
    activation_value_ub: float | None = attribute(_UB, default=None)
    kernel_preference: KernelPreferenceV1 = attribute(_KERNEL, default=KernelPreferenceV1.AUTO)
    set_inductor_config: bool = attribute(_SWITCH, default=True)

    def __attrs_post_init__(self) -> None:
        """Check dtypes, granularities and bounds. Raises FieldError."""
        _check_dtypes(self)
        check_float8_pair(self.granularity)
        check_finite(self.activation_value_lb, "activation_value_lb")
        check_finite(self.activation_value_ub, "activation_value_ub")


@register_config("Float8DynamicActivationFloat8WeightConfig", 3)
@frozen
class Float8DynamicActivationFloat8WeightConfigV3(Config):
    """Float8 weights and dynamic activations as torchao 0.16 and 0.17 wrote them."""

    activation_dtype: DType = attribute(
        _ACTIVATION_DTYPE, default=DType.FLOAT8_E4M3FN, converter=DType.parse
    )
    weight_dtype: DType = attribute(
        _WEIGHT_DTYPE, default=DType.FLOAT8_E4M3FN, converter=DType.parse
    )
    granularity: tuple[Float8PairGranularity, ...] = attribute(
        _PAIR,
        default=(PerTensor(), PerTensor()),
        converter=pair_or(PerTensor()),
        min_length=2,
        max_length=2,
    )
    packing_format: Float8PackingFormatV1 = attribute(
        "How codes lie.", default=Float8PackingFormatV1.PLAIN
    )
    mm_config: Float8MMConfig | None = attribute(_MM, default=None)
    activation_value_lb: float | None = attribute(_LB, default=None)
    activation_value_ub: float | None = attribute(_UB, default=None)
    kernel_preference: KernelPreference = attribute(_KERNEL, default=KernelPreference.AUTO)
    set_inductor_config: bool = attribute(_SWITCH, default=True)

    def __attrs_post_init__(self) -> None:
        """Check dtypes, granularities and bounds. Raises FieldError."""
        _check_dtypes(self)
        check_float8_pair(self.granularity)
        check_finite(self.activation_value_lb, "activation_value_lb")
        check_finite(self.activation_value_ub, "activation_value_ub")


def _check_dtypes(
    config: Float8DynamicActivationFloat8WeightConfigV1
    | Float8DynamicActivationFloat8WeightConfigV2
    | Float8DynamicActivationFloat8WeightConfigV3,
) -> None:
    check_supported(config.activation_dtype, "activation_dtype", FLOAT8)
    check_supported(config.weight_dtype, "weight_dtype", FLOAT8)


@migration()
def add_bounds_and_kernel(
    old: Float8DynamicActivationFloat8WeightConfigV1,
) -> Float8DynamicActivationFloat8WeightConfigV2:
    """Keep all; no bounds, any kernel."""
    return Float8DynamicActivationFloat8WeightConfigV2(
        activation_dtype=old.activation_dtype,
        weight_dtype=old.weight_dtype,
        granularity=old.granularity,
        mm_config=old.mm_config,
        set_inductor_config=old.set_inductor_config,
    )


@migration()
def add_packing_format(
    old: Float8DynamicActivationFloat8WeightConfigV2,
) -> Float8DynamicActivationFloat8WeightConfigV3:
    """Keep all; codes lie as they are, and FBGEMM is called MSLK."""
    was_fbgemm = old.kernel_preference is KernelPreferenceV1.FBGEMM
    return Float8DynamicActivationFloat8WeightConfigV3(
        activation_dtype=old.activation_dtype,
        weight_dtype=old.weight_dtype,
        granularity=old.granularity,
        mm_config=old.mm_config,
        activation_value_lb=old.activation_value_lb,
        activation_value_ub=old.activation_value_ub,
        kernel_preference=KernelPreference("MSLK" if was_fbgemm else old.kernel_preference.value),
        set_inductor_config=old.set_inductor_config,
    )


@migration()
def add_alg_id(
    old: Float8DynamicActivationFloat8WeightConfigV3,
) -> Float8DynamicActivationFloat8WeightConfig:
    """Keep all; SPARSE_CUTLASS is called SPARSE_2D_DATA_2D_METADATA."""
    is_plain = old.packing_format is Float8PackingFormatV1.PLAIN
    return Float8DynamicActivationFloat8WeightConfig(
        activation_dtype=old.activation_dtype,
        weight_dtype=old.weight_dtype,
        granularity=old.granularity,
        packing_format=Float8PackingFormat.PLAIN
        if is_plain
        else Float8PackingFormat.SPARSE_2D_DATA_2D_METADATA,
        mm_config=old.mm_config,
        activation_value_lb=old.activation_value_lb,
        activation_value_ub=old.activation_value_ub,
        kernel_preference=old.kernel_preference,
        set_inductor_config=old.set_inductor_config,
    )
