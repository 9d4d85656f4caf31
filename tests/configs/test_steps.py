"""Steps of configs: what old fields meant, and what no config of today can say."""

import pytest
import torch

from qconfig import (
    Int4ChooseQParamsAlgorithm,
    Int4PackingFormat,
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    IntxPackingFormat,
    KernelPreference,
    MappingType,
    PerAxis,
    PerRow,
    PerTensor,
    QuantizationStep,
    ScaleCalculationMode,
    UIntxWeightOnlyConfig,
    ZeroPointDomain,
    config_from_dict,
)
from qconfig.errors import MigrationError

PACKED = "PackedLinearInt8DynamicActivationIntxWeightLayout"
INT8_DYNAMIC = "Int8DynamicActivationInt8WeightConfig"
INT8_INTX = "Int8DynamicActivationIntxWeightConfig"
SCALE = {"type": "Tensor", "dtype": "float32", "shape": [], "data": "AAAAPw=="}


def upgraded(name, version, **fields):
    """Return the config of a document, in its current version."""
    return config_from_dict({"type": name, "version": version} | fields)


@pytest.mark.parametrize("version", [1, 2])
def test_hqq_becomes_an_algorithm(version):
    """use_hqq is HQQ in tiles."""
    config = upgraded("Int4WeightOnlyConfig", version, use_hqq=True, group_size=64)
    assert config == Int4WeightOnlyConfig(
        64,
        int4_packing_format=Int4PackingFormat.TILE_PACKED_TO_4D,
        int4_choose_qparams_algorithm=Int4ChooseQParamsAlgorithm.HQQ,
    )


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("TensorCoreTiledLayout", "TILE_PACKED_TO_4D"),
        ("Int4XPULayout", "PLAIN_INT32"),
        ("Int4CPULayout", "PLAIN"),
    ],
)
def test_int4_layout_becomes_a_format(layout, expected):
    """Each layout of torchao's version 1 has its packing format."""
    config = upgraded("Int4WeightOnlyConfig", 1, layout={"type": layout})
    assert config.int4_packing_format == expected
    assert config.int4_choose_qparams_algorithm == "TINYGEMM"


def test_opaque_codes_become_plain_ones():
    """OPAQUE said where the same codes lie."""
    config = upgraded("Int4WeightOnlyConfig", 4, int4_packing_format="OPAQUE")
    assert config.int4_packing_format is Int4PackingFormat.PLAIN


@pytest.mark.parametrize(("version", "hqq"), [(1, "HQQ"), (2, "TINYGEMM")])
def test_torchaos_version_says_which_fields_count(version, hqq):
    """Under torchao's version 2, use_hqq lay beside the algorithm without effect."""
    config = upgraded("Int4WeightOnlyConfig", 4, torchao_version=version, use_hqq=True)
    assert config.int4_choose_qparams_algorithm == hqq


@pytest.mark.parametrize(
    ("name", "version", "fields", "pointer"),
    [
        ("Int4WeightOnlyConfig", 1, {"layout": {"type": "MarlinSparseLayout"}}, "layout"),
        ("Int4WeightOnlyConfig", 1, {"zero_point_domain": "INT"}, "zero_point_domain"),
        ("Int4WeightOnlyConfig", 2, {"preserve_zero": True}, "preserve_zero"),
        (
            "Int4WeightOnlyConfig",
            3,
            {"packing_format": "UNPACKED_TO_INT8", "torchao_version": 2},
            "packing_format",
        ),
        (
            "Int4WeightOnlyConfig",
            4,
            {"int4_packing_format": "MARLIN_SPARSE"},
            "int4_packing_format",
        ),
        (INT8_DYNAMIC, 1, {"layout": {"type": "SemiSparseLayout"}}, "layout"),
        ("IntxWeightOnlyConfig", 2, {"packing_format": "PLAIN"}, "packing_format"),
        (INT8_INTX, 1, {}, "has_weight_zeros"),
        ("AWQConfig", 2, {"quant_dtype": "uint3", "use_hqq": True}, "use_hqq"),
        (
            "Float8DynamicActivationInt4WeightConfig",
            1,
            {"packing_format": "MARLIN_SPARSE"},
            "packing_format",
        ),
        ("SmoothQuantConfig", 1, {"smoothing_factor": SCALE}, "smoothing_factor"),
        ("SmoothQuantConfig", 1, {"act_scales": SCALE}, "act_scales"),
        ("SmoothQuantConfig", 1, {"wei_scales": SCALE}, "wei_scales"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_meaning_that_is_lost_is_refused(name, version, fields, pointer):
    """What no config of today can say is refused by the name of its field."""
    with pytest.raises(MigrationError) as caught:
        upgraded(name, version, **fields)
    assert caught.value.pointer == f"/{pointer}"


def test_granularity_that_torchao_did_not_use():
    """Under torchao's version 1 granularity had no effect; under 2 it counts."""
    pair = [{"type": "PerTensor"}, {"type": "PerTensor"}]
    assert upgraded(INT8_DYNAMIC, 3, granularity=pair).granularity == (PerRow(), PerRow())
    assert upgraded(INT8_DYNAMIC, 4, granularity=pair).granularity == (PerTensor(), PerTensor())


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("AUTO", IntxPackingFormat.OPAQUE_TORCHAO_AUTO),
        ("UNIVERSAL", IntxPackingFormat.OPAQUE_TORCHAO_LOWBIT),
        ("KLEIDIAI", IntxPackingFormat.OPAQUE_TORCHAO_KLEIDIAI),
        ("ATEN", IntxPackingFormat.OPAQUE_ATEN_KLEIDIAI),
    ],
)
def test_packed_layout_becomes_a_format(target, expected):
    """The layout for ARM CPUs becomes the packing format of the same kernels."""
    config = upgraded(INT8_INTX, 2, layout={"type": PACKED, "target": target})
    assert config.intx_packing_format is expected


def test_experiment_of_torchao_0_10():
    """PerRow is PerAxis(0), and rounded scales are bfloat16 scales."""
    config = upgraded(INT8_INTX, 1, has_weight_zeros=True, layout={"type": "QDQLayout"})
    assert (config.weight_granularity, config.weight_scale_dtype) == (PerAxis(0), "bfloat16")
    assert config.weight_mapping_type is MappingType.ASYMMETRIC


@pytest.mark.parametrize(
    ("name", "version"),
    [("Float8DynamicActivationFloat8WeightConfig", 2), ("MXDynamicActivationMXWeightConfig", 2)],
)
def test_fbgemm_is_called_mslk(name, version):
    """The kernels FBGEMM have another name since torchao 0.16."""
    config = upgraded(name, version, kernel_preference="FBGEMM")
    assert config.kernel_preference is KernelPreference.MSLK


@pytest.mark.parametrize(
    ("version", "mode"), [(1, ScaleCalculationMode.FLOOR), (2, ScaleCalculationMode.RCEIL)]
)
def test_rounding_of_mx_scales(version, mode):
    """Torchao rounded MX scales down up to 0.14, and up since."""
    assert upgraded("MXDynamicActivationMXWeightConfig", version).scaling_mode is mode


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (
            "uint4",
            Int4WeightOnlyConfig(32, int4_packing_format=Int4PackingFormat.TILE_PACKED_TO_4D),
        ),
        (
            "uint3",
            UIntxWeightOnlyConfig(32, 3, None, "MIN_MAX"),
        ),
    ],
)
def test_awq_gets_a_base_config(dtype, expected):
    """AWQUIntXConfig becomes the config that its element type and groups say."""
    config = upgraded("AWQConfig", 1, quant_dtype=dtype, group_size=32)
    assert (config.base_config, config.step) == (expected, QuantizationStep.CONVERT)


def test_smooth_quant_without_calibration():
    """A SmoothQuantConfig without tensors did no smoothing, only int8."""
    config = upgraded("SmoothQuantConfig", 1, set_inductor_config=False)
    base = Int8DynamicActivationInt8WeightConfig(set_inductor_config=False)
    assert (config.base_config, config.alpha) == (base, None)


def test_required_scale_is_renamed():
    """The scale of static float8 activations keeps its bits under the new name."""
    config = upgraded("Float8StaticActivationFloat8WeightConfig", 1, scale=SCALE)
    assert torch.equal(config.act_quant_scale, torch.tensor(0.5))


def test_zero_points_of_intel_gpus():
    """Zero points that are codes are what PLAIN_INT32 has."""
    fields = {"layout": {"type": "Int4XPULayout"}, "zero_point_domain": ZeroPointDomain.INT.value}
    config = upgraded("Int4WeightOnlyConfig", 2, preserve_zero=True, **fields)
    assert config.int4_packing_format is Int4PackingFormat.PLAIN_INT32
