"""Which config builds what a pair of fake quantizers simulates."""

from typing import Any

from attrs import evolve

from qconfig.codec.dtypes import DType
from qconfig.configs.choices import MappingType
from qconfig.configs.float8 import (
    Float8DynamicActivationFloat8WeightConfig,
    Float8WeightOnlyConfig,
)
from qconfig.configs.granularity import PerAxis, PerGroup, PerRow, PerTensor, PerToken
from qconfig.configs.int4 import Int4WeightOnlyConfig
from qconfig.configs.int8 import Int8DynamicActivationInt8WeightConfig
from qconfig.configs.intx import INTX, Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig
from qconfig.configs.qat import (
    FakeQuantizeConfig,
    Float8FakeQuantizeConfig,
    Int4WeightFakeQuantizeConfig,
    IntxFakeQuantizeConfig,
)
from qconfig.errors import BuildError
from qconfig.versioning import Config


def simulated_config(
    activation: FakeQuantizeConfig | None, weight: FakeQuantizeConfig | None
) -> Config:
    """Return the config whose tensors round like a pair of fake quantizers.

    Raises:
        BuildError: there is none, so that what is trained could never be built.
    """
    found = None
    if isinstance(weight, IntxFakeQuantizeConfig):
        found = _intx(activation, weight)
    elif isinstance(weight, Int4WeightFakeQuantizeConfig) and activation is None:
        if weight.activation_dtype is DType.BFLOAT16:
            found = Int4WeightOnlyConfig(group_size=weight.group_size)
    elif isinstance(weight, Float8FakeQuantizeConfig):
        found = _float8(activation, weight)
    elif weight is None:
        found = _activation_only(activation)
    if found is None:
        raise BuildError(
            "no config builds what these fake quantizers simulate",
            found=(activation, weight),
            expected="signed integers with int code zero points and default precisions, groups or "
            "rows of weights, tokens of int8 activations; or float8 of both",
            hint="give base_config instead",
        )
    return found


def _intx(activation: Any, weight: IntxFakeQuantizeConfig) -> Config | None:
    granularity = _weight_granularity(weight.granularity)
    if granularity is None or weight.dtype not in INTX or weight.eps is not None:
        return None
    if activation is None:
        return IntxWeightOnlyConfig(
            weight_dtype=weight.dtype,
            granularity=granularity,
            mapping_type=weight.mapping_type,
            scale_dtype=weight.scale_precision,
        )
    if not _is_token_int8(activation):
        return None
    return Int8DynamicActivationIntxWeightConfig(
        weight_dtype=weight.dtype,
        weight_granularity=granularity,
        weight_mapping_type=weight.mapping_type,
        weight_scale_dtype=weight.scale_precision,
        act_mapping_type=activation.mapping_type,
    )


def _weight_granularity(granularity: Any) -> PerGroup | PerAxis | None:
    if isinstance(granularity, PerGroup):
        return granularity
    rows = (PerAxis(0), PerRow(), PerToken())
    return PerAxis(0) if granularity in rows else None


def _is_token_int8(activation: Any) -> bool:
    return (
        isinstance(activation, IntxFakeQuantizeConfig)
        and activation.dtype is DType.INT8
        and activation.granularity in (PerToken(), PerRow())
        and activation.is_dynamic
        and activation.eps is None
    )


def _float8(activation: Any, weight: Float8FakeQuantizeConfig) -> Config | None:
    if weight.hp_value_lb is not None or weight.hp_value_ub is not None:
        return None
    if activation is None:
        return Float8WeightOnlyConfig(weight_dtype=weight.dtype, granularity=weight.granularity)
    if not isinstance(activation, Float8FakeQuantizeConfig):
        return None
    return Float8DynamicActivationFloat8WeightConfig(
        activation_dtype=activation.dtype,
        weight_dtype=weight.dtype,
        granularity=(activation.granularity, weight.granularity),
        activation_value_lb=activation.hp_value_lb,
        activation_value_ub=activation.hp_value_ub,
    )


def _activation_only(activation: Any) -> Config | None:
    # The weight's part of these is not used.
    if isinstance(activation, Float8FakeQuantizeConfig):
        return _float8(activation, Float8FakeQuantizeConfig(granularity=activation.granularity))
    served = (MappingType.SYMMETRIC, MappingType.ASYMMETRIC)
    if not isinstance(activation, IntxFakeQuantizeConfig) or activation.mapping_type not in served:
        return None
    if _is_token_int8(evolve(activation, granularity=PerToken())) and activation.granularity in (
        PerToken(),
        PerRow(),
        PerTensor(),
    ):
        return Int8DynamicActivationInt8WeightConfig(
            act_mapping_type=activation.mapping_type,
            granularity=(activation.granularity, PerRow()),
        )
    return None
