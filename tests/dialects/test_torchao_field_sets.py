"""Every set of fields that a torchao release wrote, and the config that it means today."""

import pytest

import qconfig
from qconfig import (
    AWQConfig,
    DType,
    Float8DynamicActivationFloat8WeightConfig,
    Float8DynamicActivationInt4WeightConfig,
    Float8MMConfig,
    Float8StaticActivationFloat8WeightConfig,
    Float8WeightOnlyConfig,
    Int4ChooseQParamsAlgorithm,
    Int4PackingFormat,
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt4WeightConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    Int8StaticActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    IntxPackingFormat,
    IntxWeightOnlyConfig,
    KernelPreference,
    MappingType,
    MXDynamicActivationMXWeightConfig,
    NVFP4DynamicActivationNVFP4WeightConfig,
    NVFP4WeightOnlyConfig,
    PerAxis,
    PerGroup,
    PerRow,
    QATConfig,
    ScaleCalculationMode,
    SmoothQuantConfig,
    UIntxWeightOnlyConfig,
)
from qconfig.dialects.torchao import from_envelope
from qconfig.errors import MigrationError
from tests.dialects.envelope_samples import envelope


def member(enum, name):
    """Return an enum member as torchao writes it."""
    return {"_type": enum, "_data": name}


def dtype(name):
    """Return a dtype as torchao writes it."""
    return member("torch.dtype", name)


def value(name, **data):
    """Return a layout or granularity as torchao writes it."""
    return {"_type": name, "_version": 1, "_data": data}


SYM, ASYM = member("MappingType", "SYMMETRIC"), member("MappingType", "ASYMMETRIC")
ROW, TENSOR = value("PerRow", dim=-1), value("PerTensor")
G32 = value("PerGroup", group_size=32)
PLAIN, QDQ = value("PlainLayout"), value("QDQLayout")
TILED = value("TensorCoreTiledLayout", inner_k_tiles=8)
E4M3, E5M2 = dtype("float8_e4m3fn"), dtype("float8_e5m2")
MM = value("Float8MMConfig", emulate=False, use_fast_accum=True, pad_inner_dim=False)
FAST = Float8MMConfig(use_fast_accum=True)
ON = {"set_inductor_config": True}
INT4_1 = {
    "group_size": 64,
    "layout": TILED,
    "use_hqq": True,
    "zero_point_domain": member("ZeroPointDomain", "NONE"),
} | ON
HQQ_TILED = Int4WeightOnlyConfig(
    64,
    int4_packing_format=Int4PackingFormat.TILE_PACKED_TO_4D,
    int4_choose_qparams_algorithm=Int4ChooseQParamsAlgorithm.HQQ,
)
INT4_2 = {
    "int4_packing_format": member("Int4PackingFormat", "PLAIN"),
    "int4_choose_qparams_algorithm": member("Int4ChooseQParamsAlgorithm", "HQQ"),
}
PLAIN_HQQ = Int4WeightOnlyConfig(64, int4_choose_qparams_algorithm=Int4ChooseQParamsAlgorithm.HQQ)
INTX_2 = {
    "intx_packing_format": member("IntxPackingFormat", "UNPACKED_TO_INT8"),
    "intx_choose_qparams_algorithm": member("IntxChooseQParamsAlgorithm", "AFFINE"),
}
INTX = {
    "weight_dtype": dtype("int4"),
    "granularity": G32,
    "mapping_type": SYM,
    "scale_dtype": None,
}
INT4_GROUPS = IntxWeightOnlyConfig(DType.INT4, PerGroup(32))
DYNAMIC_INTX = {
    "weight_dtype": dtype("int4"),
    "weight_granularity": G32,
    "weight_mapping_type": SYM,
    "weight_scale_dtype": None,
    "act_mapping_type": ASYM,
}
DYNAMIC_INT4 = Int8DynamicActivationIntxWeightConfig(DType.INT4, PerGroup(32))
PAIR = {"activation_dtype": E4M3, "weight_dtype": E4M3, "mm_config": MM} | ON
FLOAT8_ROWS = Float8DynamicActivationFloat8WeightConfig(granularity=PerRow(), mm_config=FAST)
BOUNDS = {
    "activation_value_lb": None,
    "activation_value_ub": None,
    "kernel_preference": member("KernelPreference", "TORCH"),
}
FLOAT8_TORCH = Float8DynamicActivationFloat8WeightConfig(
    granularity=PerRow(), mm_config=FAST, kernel_preference=KernelPreference.TORCH
)
MX = {"block_size": 32, "activation_dtype": E4M3, "weight_dtype": E4M3}
DYNAMIC_8DA4W = {"group_size": 64, "mapping_type": SYM, "act_mapping_type": ASYM} | ON
BASE = envelope("Int8WeightOnlyConfig", 2)
AWQ = {"base_config": BASE, "scale_search_space_size": 20}
SMOOTH = {"base_config": BASE, "alpha": 0.25}
STEP = "CONVERT"

CASES = [
    ("0.10 to 0.14", "Int8WeightOnlyConfig", 1, {"group_size": 32} | ON,
     Int8WeightOnlyConfig(PerGroup(32))),
    ("0.15 to 0.17", "Int8WeightOnlyConfig", 1,
     {"group_size": None, "granularity": ROW} | ON, Int8WeightOnlyConfig()),
    ("0.18", "Int8WeightOnlyConfig", 2,
     {"group_size": None, "granularity": TENSOR} | ON,
     Int8WeightOnlyConfig(qconfig.PerTensor())),
    ("0.10 to 0.14", "Int8DynamicActivationInt8WeightConfig", 1,
     {"layout": PLAIN, "act_mapping_type": ASYM, "weight_only_decode": False} | ON,
     Int8DynamicActivationInt8WeightConfig(MappingType.ASYMMETRIC)),
    ("0.15 to 0.16", "Int8DynamicActivationInt8WeightConfig", 1,
     {"layout": PLAIN, "act_mapping_type": SYM, "weight_only_decode": False,
      "granularity": ROW} | ON, Int8DynamicActivationInt8WeightConfig()),
    ("0.15 to 0.17", "Int8DynamicActivationInt8WeightConfig", 2,
     {"layout": None, "act_mapping_type": SYM, "weight_only_decode": False,
      "granularity": TENSOR} | ON,
     Int8DynamicActivationInt8WeightConfig(granularity=qconfig.PerTensor())),
    ("0.18", "Int8DynamicActivationInt8WeightConfig", 2,
     {"act_mapping_type": SYM, "weight_only_decode": False, "granularity": ROW,
      "reduce_range": True} | ON, Int8DynamicActivationInt8WeightConfig(reduce_range=True)),
    ("0.10", "Int4WeightOnlyConfig", 1, INT4_1, HQQ_TILED),
    ("0.11 to 0.12", "Int4WeightOnlyConfig", 1, INT4_1 | {"preserve_zero": None}, HQQ_TILED),
    ("0.13", "Int4WeightOnlyConfig", 1,
     INT4_1 | {"preserve_zero": None, "packing_format": member("PackingFormat", "PLAIN")},
     HQQ_TILED),
    ("0.14 to 0.15 as 1", "Int4WeightOnlyConfig", 1,
     INT4_1 | INT4_2 | {"preserve_zero": None}, HQQ_TILED),
    ("0.14 to 0.15", "Int4WeightOnlyConfig", 2,
     INT4_1 | INT4_2 | {"preserve_zero": None}, PLAIN_HQQ),
    ("0.16", "Int4WeightOnlyConfig", 2, {"group_size": 64} | INT4_2 | ON, PLAIN_HQQ),
    ("0.17", "Int4WeightOnlyConfig", 2,
     {"group_size": 64, "int4_tile_packed_ntile": 8} | INT4_2 | ON, PLAIN_HQQ),
    ("0.11 to 0.12", "IntxWeightOnlyConfig", 1, INTX | {"layout": QDQ}, INT4_GROUPS),
    ("0.13", "IntxWeightOnlyConfig", 1,
     INTX | {"layout": QDQ, "packing_format": member("PackingFormat", "UNPACKED_TO_INT8")},
     INT4_GROUPS),
    ("0.14 to 0.15", "IntxWeightOnlyConfig", 2, INTX | INTX_2 | {"layout": QDQ}, INT4_GROUPS),
    ("0.16 as 1", "IntxWeightOnlyConfig", 1, INTX | INTX_2, INT4_GROUPS),
    ("0.16", "IntxWeightOnlyConfig", 2, INTX | INTX_2, INT4_GROUPS),
    ("0.10, experimental", "Int8DynamicActivationIntxWeightConfig", 1,
     {"weight_dtype": dtype("int4"), "granularity": value("PerRow"), "has_weight_zeros": True,
      "weight_mapping_type": ASYM, "act_mapping_type": ASYM, "round_weight_scale_to_bf16": True,
      "layout": value("PackedLinearInt8DynamicActivationIntxWeightLayout",
                      target=member("Target", "AUTO"))},
     Int8DynamicActivationIntxWeightConfig(
         DType.INT4, PerAxis(0), MappingType.ASYMMETRIC, DType.BFLOAT16,
         intx_packing_format=IntxPackingFormat.OPAQUE_TORCHAO_AUTO)),
    ("0.11 to 0.13", "Int8DynamicActivationIntxWeightConfig", 1,
     DYNAMIC_INTX | {"layout": QDQ}, DYNAMIC_INT4),
    ("0.14 to 0.15", "Int8DynamicActivationIntxWeightConfig", 2,
     DYNAMIC_INTX | INTX_2 | {"layout": QDQ}, DYNAMIC_INT4),
    ("0.16", "Int8DynamicActivationIntxWeightConfig", 2, DYNAMIC_INTX | INTX_2, DYNAMIC_INT4),
    ("0.10 to 0.12", "Float8WeightOnlyConfig", 1, {"weight_dtype": E5M2} | ON,
     Float8WeightOnlyConfig(DType.FLOAT8_E5M2)),
    ("0.13 to 0.17", "Float8WeightOnlyConfig", 2, {"weight_dtype": E4M3} | ON,
     Float8WeightOnlyConfig()),
    ("0.18", "Float8WeightOnlyConfig", 2, {"weight_dtype": E4M3, "granularity": None} | ON,
     Float8WeightOnlyConfig()),
    ("0.10 to 0.11", "Float8DynamicActivationFloat8WeightConfig", 1,
     PAIR | {"granularity": [value("PerRow"), value("PerRow")]}, FLOAT8_ROWS),
    ("0.12", "Float8DynamicActivationFloat8WeightConfig", 1,
     PAIR | {"granularity": [value("PerRow"), value("PerRow")]}, FLOAT8_ROWS),
    ("0.13", "Float8DynamicActivationFloat8WeightConfig", 2,
     PAIR | BOUNDS | {"granularity": value("PerRow")}, FLOAT8_TORCH),
    ("0.16", "Float8DynamicActivationFloat8WeightConfig", 2,
     PAIR | BOUNDS | {"granularity": [ROW, ROW], "packing_format": "plain"}, FLOAT8_TORCH),
    ("0.18", "Float8DynamicActivationFloat8WeightConfig", 2,
     PAIR | BOUNDS | {"granularity": [ROW, ROW], "alg_id": 0,
                      "packing_format": member("Float8PackingFormat", "PLAIN")}, FLOAT8_TORCH),
    ("0.13", "Float8DynamicActivationInt4WeightConfig", 1, {"packing_format": "preshuffled"},
     Float8DynamicActivationInt4WeightConfig("PRESHUFFLED")),
    ("0.14", "Float8DynamicActivationInt4WeightConfig", 1, {"int4_packing_format": "plain"},
     Float8DynamicActivationInt4WeightConfig()),
    ("0.14, no field", "Float8DynamicActivationInt4WeightConfig", 1, {},
     Float8DynamicActivationInt4WeightConfig("PRESHUFFLED")),
    ("0.10 to 0.16", "Int8DynamicActivationInt4WeightConfig", 1,
     DYNAMIC_8DA4W | {"layout": PLAIN}, Int8DynamicActivationInt4WeightConfig(64)),
    ("0.12 to 0.16, CPU", "Int8DynamicActivationInt4WeightConfig", 1,
     DYNAMIC_8DA4W | {"layout": value("Int8DynamicActInt4WeightCPULayout")},
     Int8DynamicActivationInt4WeightConfig(64, MappingType.ASYMMETRIC)),
    ("0.17", "Int8DynamicActivationInt4WeightConfig", 1,
     {"group_size": 64, "act_mapping_type": SYM} | ON,
     Int8DynamicActivationInt4WeightConfig(
         64, MappingType.ASYMMETRIC, MappingType.SYMMETRIC, DType.FLOAT32)),
    ("0.16", "Float8StaticActivationFloat8WeightConfig", 1,
     {"step": None, "act_quant_scale": None, "activation_dtype": E4M3, "weight_dtype": E5M2,
      "granularity": TENSOR, "mm_config": None,
      "kernel_preference": member("KernelPreference", "AUTO"),
      "quantize_and_dequantize_output": False, "output_act_quant_scale": None} | ON,
     Float8StaticActivationFloat8WeightConfig(
         weight_dtype=DType.FLOAT8_E5M2, granularity=qconfig.PerTensor())),
    ("0.16", "Int8StaticActivationInt8WeightConfig", 1,
     {"act_quant_scale": None, "granularity": TENSOR, "act_mapping_type": SYM} | ON,
     Int8StaticActivationInt8WeightConfig(granularity=qconfig.PerTensor())),
    ("0.17", "Int8StaticActivationInt8WeightConfig", 1,
     {"act_quant_scale": None, "act_quant_zero_point": None, "granularity": ROW,
      "act_mapping_type": ASYM} | ON,
     Int8StaticActivationInt8WeightConfig(act_mapping_type=MappingType.ASYMMETRIC)),
    ("0.18", "Int8StaticActivationInt8WeightConfig", 1,
     {"act_quant_scale": None, "act_quant_zero_point": None, "granularity": ROW,
      "act_mapping_type": SYM, "reduce_range": False} | ON,
     Int8StaticActivationInt8WeightConfig()),
    ("0.10 to 0.11", "AWQUIntXConfig", 1,
     {"quant_dtype": dtype("uint3"), "group_size": 32, "use_hqq": False} | ON,
     AWQConfig(UIntxWeightOnlyConfig(32, 3, None, "MIN_MAX"), STEP)),
    ("0.12", "AWQUIntXConfig", 1,
     {"quant_dtype": dtype("uint4"), "layout": TILED, "group_size": 64, "use_hqq": True} | ON,
     AWQConfig(HQQ_TILED, STEP)),
    ("0.13 to 0.15", "AWQConfig", 1, AWQ | {"step": member("AWQStep", STEP)},
     AWQConfig(Int8WeightOnlyConfig(), STEP)),
    ("0.16", "AWQConfig", 1, AWQ | {"step": member("QuantizationStep", STEP)},
     AWQConfig(Int8WeightOnlyConfig(), STEP)),
    ("0.10 to 0.13", "SmoothQuantConfig", 1,
     {"smoothing_factor": None, "act_scales": None, "wei_scales": None} | ON,
     SmoothQuantConfig(Int8DynamicActivationInt8WeightConfig(), STEP, None)),
    ("0.14 to 0.15", "SmoothQuantConfig", 1, SMOOTH | {"step": member("SmoothQuantStep", STEP)},
     SmoothQuantConfig(Int8WeightOnlyConfig(), STEP, 0.25)),
    ("0.16 to 0.17", "SmoothQuantConfig", 1, SMOOTH | {"step": "convert"},
     SmoothQuantConfig(Int8WeightOnlyConfig(), STEP, 0.25)),
    ("0.18", "SmoothQuantConfig", 1, SMOOTH | {"step": "convert", "use_running_absmax": True},
     SmoothQuantConfig(Int8WeightOnlyConfig(), STEP, 0.25, use_running_absmax=True)),
    ("0.12 to 0.14", "MXFPInferenceConfig", 1,
     MX | {"gemm_kernel_choice": member("MXGemmKernelChoice", "CUBLAS")},
     MXDynamicActivationMXWeightConfig(scaling_mode=ScaleCalculationMode.FLOOR)),
    ("0.15", "MXDynamicActivationMXWeightConfig", 1,
     MX | {"kernel_preference": member("KernelPreference", "AUTO")},
     MXDynamicActivationMXWeightConfig()),
    ("0.16", "MXDynamicActivationMXWeightConfig", 1,
     MX | {"kernel_preference": member("KernelPreference", "MSLK"),
           "scaling_mode": member("ScaleCalculationMode", "EVEN")},
     MXDynamicActivationMXWeightConfig(
         kernel_preference=KernelPreference.MSLK, scaling_mode=ScaleCalculationMode.EVEN)),
    ("0.12 to 0.13", "NVFP4InferenceConfig", 1,
     {"mm_config": member("NVFP4MMConfig", "DYNAMIC"), "use_triton_kernel": False},
     NVFP4DynamicActivationNVFP4WeightConfig(
         use_triton_kernel=False, use_dynamic_per_tensor_scale=False)),
    ("0.12 to 0.13, weights", "NVFP4InferenceConfig", 1,
     {"mm_config": member("NVFP4MMConfig", "WEIGHT_ONLY"), "use_triton_kernel": False},
     NVFP4WeightOnlyConfig(use_dynamic_per_tensor_scale=False)),
    ("0.14", "NVFP4InferenceConfig", 1,
     {"mm_config": "dynamic", "use_triton_kernel": True, "use_dynamic_per_tensor_scale": True},
     NVFP4DynamicActivationNVFP4WeightConfig()),
    ("0.14, weights", "NVFP4InferenceConfig", 1,
     {"mm_config": "weight_only", "use_triton_kernel": True,
      "use_dynamic_per_tensor_scale": True}, NVFP4WeightOnlyConfig()),
    ("0.15 to 0.16", "NVFP4DynamicActivationNVFP4WeightConfig", 1,
     {"use_triton_kernel": False, "use_dynamic_per_tensor_scale": True},
     NVFP4DynamicActivationNVFP4WeightConfig(use_triton_kernel=False)),
    ("0.17", "NVFP4DynamicActivationNVFP4WeightConfig", 1,
     {"use_triton_kernel": True, "use_dynamic_per_tensor_scale": True, "step": None},
     NVFP4DynamicActivationNVFP4WeightConfig()),
    ("0.15", "NVFP4WeightOnlyConfig", 1, {"use_dynamic_per_tensor_scale": False},
     NVFP4WeightOnlyConfig(use_dynamic_per_tensor_scale=False)),
    ("0.15 to 0.17", "Int4WeightOnlyOpaqueTensorConfig", 1,
     {"group_size": 64, "int4_choose_qparams_algorithm": "hqq"} | ON, PLAIN_HQQ),
    ("0.18", "PrototypeInt4WeightOnlyConfig", 1,
     {"group_size": 64, "int4_choose_qparams_algorithm": "hqq"} | ON, PLAIN_HQQ),
    ("0.15", "Float8DynamicActivationFloat8WeightOpaqueTensorConfig", 1,
     {"activation_dtype": E4M3, "weight_dtype": E5M2, "granularity": [ROW, ROW]} | ON,
     Float8DynamicActivationFloat8WeightConfig(
         weight_dtype=DType.FLOAT8_E5M2, granularity=PerRow())),
    ("0.10 to 0.16", "Float8DynamicActivationFloat8SemiSparseWeightConfig", 1,
     {"layout": value("CutlassSemiSparseLayout"), "activation_dtype": E5M2,
      "weight_dtype": E4M3},
     Float8DynamicActivationFloat8WeightConfig(
         DType.FLOAT8_E5M2, granularity=PerRow(),
         packing_format=qconfig.Float8PackingFormat.SPARSE_2D_DATA_2D_METADATA)),
    ("0.12 to 0.13, int4", "FbgemmConfig", 1,
     {"input_dtype": dtype("bfloat16"), "weight_dtype": dtype("int4"),
      "output_dtype": dtype("bfloat16"), "block_size": [1, 64], "activation_scale_ub": None,
      "preshuffle": True},
     Int4WeightOnlyConfig(64, int4_packing_format=Int4PackingFormat.PRESHUFFLED)),
    ("0.13, float8", "FbgemmConfig", 1,
     {"input_dtype": E4M3, "weight_dtype": E4M3, "output_dtype": dtype("bfloat16"),
      "block_size": None, "activation_scale_ub": 1200.0, "preshuffle": False},
     Float8DynamicActivationFloat8WeightConfig(
         granularity=PerRow(), activation_value_ub=1200.0)),
    ("0.13, float8 and int4", "FbgemmConfig", 1,
     {"input_dtype": E4M3, "weight_dtype": dtype("int4"), "output_dtype": dtype("bfloat16"),
      "block_size": [1, 128], "activation_scale_ub": 1200.0, "preshuffle": True},
     Float8DynamicActivationInt4WeightConfig("PRESHUFFLED")),
    ("0.9", "FromIntXQuantizationAwareTrainingConfig", 1, {}, QATConfig(step="convert")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "version", "data", "expected"),
    [pytest.param(*case[1:], id=f"{case[1]} of {case[0]}") for case in CASES],
)
def test_every_set_of_fields_means_what_it_meant(name, version, data, expected):
    """Each field set of the history, written out as its release did, is read as it was meant."""
    assert from_envelope(envelope(name, version, **data)) == expected


@pytest.mark.parametrize(
    ("layout", "hint"),
    [("MarlinQQQLayout", "quantize again"), ("CutlassInt4PackedLayout", "PerAxis")],
)
def test_layouts_of_other_kernels_are_refused(layout, hint):
    """Int4 weights of layouts whose scales are others are refused, with what to do."""
    data = envelope("Int8DynamicActivationInt4WeightConfig", 1, layout=value(layout))
    with pytest.raises(MigrationError) as caught:
        from_envelope(data)
    assert caught.value.pointer == "/_data/layout"
    assert hint in caught.value.hint
