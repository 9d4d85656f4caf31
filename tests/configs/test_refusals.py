"""What a config refuses, with what it takes: granularities and pairs of them, dtypes, steps."""

import pytest
import torch

from qconfig import (
    AWQConfig,
    DType,
    Float8DynamicActivationFloat8WeightConfig,
    Float8WeightOnlyConfig,
    FqnToConfig,
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    IntxFakeQuantizeConfig,
    IntxWeightOnlyConfig,
    MappingType,
    MXDynamicActivationMXWeightConfig,
    NVFP4DynamicActivationNVFP4WeightConfig,
    PerAxis,
    PerBlock,
    PerGroup,
    PerRow,
    PerTensor,
    PerToken,
    QATConfig,
    QuantizationStep,
    SmoothQuantConfig,
)
from qconfig.errors import FieldError, UnknownNameError

INT8_PAIRS = (
    "PerTensor(), PerRow() or PerToken() for the activation, each with PerTensor(), PerRow() or "
    "PerGroup(...) for the weight"
)
FLOAT8_PAIRS = (
    "for activation and weight PerTensor() and PerTensor(), PerRow() and PerRow(), or "
    "PerBlock((1, 128)) and PerBlock((128, 128))"
)
ROW_0 = PerRow(0)


@pytest.mark.parametrize("activation", [PerTensor(), PerRow(), PerToken()], ids=str)
@pytest.mark.parametrize("weight", [PerTensor(), PerRow(), PerGroup(32)], ids=str)
def test_int8_pairs_that_are_served(activation, weight):
    """Each granularity of an activation goes with each of a weight."""
    config = Int8DynamicActivationInt8WeightConfig(granularity=[activation, weight])
    assert config.granularity == (activation, weight)


@pytest.mark.parametrize("granularity", [PerRow(), PerTensor()], ids=str)
def test_one_granularity_stands_for_both(granularity):
    """One granularity is of activation and weight; None is torchao's default."""
    config = Int8DynamicActivationInt8WeightConfig(granularity=granularity)
    assert config.granularity == (granularity, granularity)
    assert Int8DynamicActivationInt8WeightConfig(granularity=None).granularity[0] == PerRow()


@pytest.mark.parametrize(
    "granularity",
    [PerGroup(32), [PerGroup(32), PerRow()], [PerRow(), PerToken()], ROW_0, [PerRow(), ROW_0]],
    ids=str,
)
def test_int8_pairs_that_are_not(granularity):
    """A pair that is not served is refused with those that are."""
    with pytest.raises(FieldError) as caught:
        Int8DynamicActivationInt8WeightConfig(granularity=granularity)
    assert (caught.value.pointer, caught.value.expected) == ("/granularity", INT8_PAIRS)


@pytest.mark.parametrize(
    "granularity",
    [
        [PerTensor(), PerRow()],
        [PerBlock((128, 128)), PerBlock((128, 128))],
        PerBlock((1, 128)),
        ROW_0,
    ],
    ids=str,
)
def test_float8_pairs_that_are_not(granularity):
    """Float8 takes three pairs, and names them."""
    with pytest.raises(FieldError) as caught:
        Float8DynamicActivationFloat8WeightConfig(granularity=granularity)
    assert (caught.value.pointer, caught.value.expected) == ("/granularity", FLOAT8_PAIRS)


@pytest.mark.parametrize(
    ("make", "pointer", "expected"),
    [
        (
            lambda: Int8DynamicActivationInt8WeightConfig(granularity=[PerRow()]),
            "/granularity",
            "at least 2 entries",
        ),
        (
            lambda: Int8DynamicActivationInt8WeightConfig(MappingType.SYMMETRIC_NO_CLIPPING_ERR),
            "/act_mapping_type",
            "one of SYMMETRIC, ASYMMETRIC",
        ),
        (
            lambda: IntxWeightOnlyConfig(torch.int16),
            "/weight_dtype",
            "one of int1, int2, int3, int4, int5, int6, int7, int8",
        ),
        (
            lambda: IntxWeightOnlyConfig(granularity=PerAxis(1)),
            "/granularity",
            "PerGroup(...) or PerAxis(axis=0)",
        ),
        (
            lambda: Int8DynamicActivationIntxWeightConfig(weight_granularity=PerAxis(-1)),
            "/weight_granularity",
            "PerGroup(...) or PerAxis(axis=0)",
        ),
        (
            lambda: IntxWeightOnlyConfig(scale_dtype=DType.INT8),
            "/scale_dtype",
            "one of None, float32, bfloat16, float16, float64",
        ),
        (
            lambda: Int4WeightOnlyConfig(group_size=0),
            "/group_size",
            "at least 1",
        ),
        (
            lambda: Int4WeightOnlyConfig(int4_tile_packed_ntile=12),
            "/int4_tile_packed_ntile",
            "one of 8, 16",
        ),
        (
            lambda: Float8WeightOnlyConfig(torch.float16),
            "/weight_dtype",
            "one of float8_e4m3fn, float8_e5m2",
        ),
        (
            lambda: Float8WeightOnlyConfig(granularity=PerBlock((64, 64))),
            "/granularity",
            "PerTensor(), PerRow(), PerGroup(...) or PerBlock((128, 128))",
        ),
        (
            lambda: Float8DynamicActivationFloat8WeightConfig(activation_value_ub=float("inf")),
            "/activation_value_ub",
            "a finite number",
        ),
        (
            lambda: Float8DynamicActivationFloat8WeightConfig(activation_value_ub=-1.0),
            "/activation_value_ub",
            "at least 0.0",
        ),
        (
            lambda: MXDynamicActivationMXWeightConfig(weight_dtype=DType.FLOAT8_E5M2),
            "/weight_dtype",
            "float8_e4m3fn",
        ),
        (
            lambda: MXDynamicActivationMXWeightConfig(activation_dtype=DType.INT8),
            "/activation_dtype",
            "one of float8_e4m3fn, float8_e5m2, float4_e2m1fn_x2",
        ),
        (
            lambda: NVFP4DynamicActivationNVFP4WeightConfig(step="prepare"),
            "/use_dynamic_per_tensor_scale",
            "false where step is set",
        ),
        (
            lambda: AWQConfig(AWQConfig(Int4WeightOnlyConfig())),
            "/base_config",
            "a config that quantizes weights by itself, such as Int4WeightOnlyConfig",
        ),
        (
            lambda: SmoothQuantConfig(FqnToConfig()),
            "/base_config",
            "a config that quantizes weights by itself, such as Int4WeightOnlyConfig",
        ),
        (
            lambda: AWQConfig(
                Int4WeightOnlyConfig(), QuantizationStep.PREPARE_FOR_SMOOTHQUANT_SMOOTHING_FACTOR
            ),
            "/step",
            "one of PREPARE, CONVERT, PREPARE_FOR_LOADING",
        ),
        (lambda: SmoothQuantConfig(Int4WeightOnlyConfig(), alpha=1.5), "/alpha", "at most 1"),
        (
            QATConfig,
            "/base_config",
            "base_config, or activation_config or weight_config",
        ),
        (
            lambda: QATConfig(
                Int4WeightOnlyConfig(),
                weight_config=IntxFakeQuantizeConfig(DType.INT4, PerGroup(32)),
            ),
            "/weight_config",
            "null",
        ),
        (
            lambda: IntxFakeQuantizeConfig(DType.INT4, PerGroup(32), range_learning=True),
            "/range_learning",
            "false, or is_dynamic false",
        ),
    ],
    ids=lambda v: v if isinstance(v, str) and v.startswith("/") else "",
)
def test_refusal_says_what_is_taken(make, pointer, expected):
    """Each refusal names the field and what would have been right."""
    with pytest.raises(FieldError) as caught:
        make()
    assert (caught.value.pointer, caught.value.expected) == (pointer, expected)


@pytest.mark.parametrize("step", ["prepare", "PREPARE", QuantizationStep.PREPARE])
def test_steps_by_torchaos_strings(step):
    """Python callers may give a step as torchao's string."""
    assert AWQConfig(Int4WeightOnlyConfig(), step).step is QuantizationStep.PREPARE


def test_torch_dtypes_are_taken():
    """Python callers may give torch's own dtype."""
    assert IntxWeightOnlyConfig(torch.int4).weight_dtype is DType.INT4
    assert IntxWeightOnlyConfig(scale_dtype=torch.bfloat16).scale_dtype is DType.BFLOAT16


@pytest.mark.parametrize("value", [None, 4, "int3.5", [], torch.tensor(1)], ids=str)
def test_an_unknown_dtype_names_its_field(value):
    """What is no dtype is refused with the field that it was given for."""
    with pytest.raises(UnknownNameError, match="unknown dtype") as caught:
        IntxWeightOnlyConfig(weight_dtype=value)
    assert caught.value.pointer == "/weight_dtype"
