"""Configs that the conformance kit is run on besides the default ones."""

import torch

from qconfig.codec.dtypes import DType
from qconfig.configs import (
    AWQConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8StaticActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    PerAxis,
    PerBlock,
    PerGroup,
    PerRow,
    PerTensor,
    PerToken,
    SmoothQuantConfig,
)
from qconfig.configs.choices import (
    Int4ChooseQParamsAlgorithm,
    MappingType,
    QuantizationStep,
    ScaleCalculationMode,
)
from qconfig.configs.float8 import (
    Float8DynamicActivationFloat8WeightConfig,
    Float8StaticActivationFloat8WeightConfig,
    Float8WeightOnlyConfig,
)
from qconfig.configs.float_quant import FloatQuantConfig
from qconfig.configs.groupwise_quant import GroupwiseFloatQuantConfig, GroupwiseIntQuantConfig
from qconfig.configs.int4 import Int4WeightOnlyConfig
from qconfig.configs.int8_int4 import Int8DynamicActivationInt4WeightConfig
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.configs.intx import (
    Int8DynamicActivationIntxWeightConfig,
    Int8StaticActivationIntxWeightConfig,
    IntxWeightOnlyConfig,
)
from qconfig.configs.mx import MXDynamicActivationMXWeightConfig
from qconfig.configs.nf4 import NF4WeightOnlyConfig
from qconfig.configs.nvfp4 import (
    NVFP4DynamicActivationNVFP4WeightConfig,
    NVFP4WeightOnlyConfig,
)
from qconfig.configs.quant_choices import (
    ScaleKind,
    ScaleRestriction,
    ScaleStatistic,
    ZeroPointKind,
)
from qconfig.configs.uintx import UIntxChooseQParamsAlgorithm, UIntxWeightOnlyConfig

SHAPE = (128, 256)
"""(N, K) of the weights of default configs: their groups have up to 128 elements."""

INT8 = [
    Int8WeightOnlyConfig(PerGroup(16)),
    Int8WeightOnlyConfig(PerTensor()),
    Int8DynamicActivationInt8WeightConfig(
        MappingType.ASYMMETRIC, granularity=(PerToken(), PerGroup(16)), reduce_range=True
    ),
    Int8DynamicActivationInt8WeightConfig(granularity=(PerTensor(), PerTensor())),
    Int8StaticActivationInt8WeightConfig(
        torch.tensor(0.03), torch.tensor(-7), act_mapping_type=MappingType.ASYMMETRIC
    ),
]
INTX = [
    IntxWeightOnlyConfig(DType.INT4, PerGroup(16), MappingType.ASYMMETRIC, DType.BFLOAT16),
    IntxWeightOnlyConfig(DType.INT2, PerGroup(16)),
    Int8DynamicActivationIntxWeightConfig(
        DType.INT3,
        PerGroup(16),
        MappingType.ASYMMETRIC,
        DType.FLOAT32,
        act_mapping_type=MappingType.SYMMETRIC,
    ),
    Int8StaticActivationIntxWeightConfig(
        DType.INT4,
        PerAxis(0),
        MappingType.ASYMMETRIC,
        act_quant_scale=torch.tensor(0.03),
        act_quant_zero_point=torch.tensor(5),
        output_act_quant_scale=torch.tensor(0.5),
        quantize_and_dequantize_output=True,
    ),
]
INT4 = [
    Int8DynamicActivationInt4WeightConfig(
        64, MappingType.ASYMMETRIC, MappingType.SYMMETRIC, DType.FLOAT32
    ),
    Int4WeightOnlyConfig(32),
    Int4WeightOnlyConfig(64, int4_choose_qparams_algorithm=Int4ChooseQParamsAlgorithm.HQQ),
]
UINTX = [
    UIntxWeightOnlyConfig(
        32, 3, uintx_choose_qparams_algorithm=UIntxChooseQParamsAlgorithm.MIN_MAX
    ),
    UIntxWeightOnlyConfig(None, 8),
    NF4WeightOnlyConfig(16, 8),
]
FLOAT8 = [
    Float8WeightOnlyConfig(DType.FLOAT8_E5M2, granularity=PerTensor()),
    Float8DynamicActivationFloat8WeightConfig(granularity=(PerRow(), PerRow())),
    Float8StaticActivationFloat8WeightConfig(act_quant_scale=torch.tensor(0.01)),
]
BLOCKS = [
    MXDynamicActivationMXWeightConfig(
        16,
        DType.FLOAT4_E2M1FN_X2,
        DType.FLOAT4_E2M1FN_X2,
        scaling_mode=ScaleCalculationMode.EVEN,
    ),
    NVFP4DynamicActivationNVFP4WeightConfig(
        use_dynamic_per_tensor_scale=False, step=QuantizationStep.CONVERT
    ),
    NVFP4WeightOnlyConfig(use_dynamic_per_tensor_scale=False),
]
SCALED = [
    AWQConfig(Int8WeightOnlyConfig(PerGroup(16)), scale_search_space_size=4),
    AWQConfig(Int4WeightOnlyConfig(32), scale_search_space_size=4),
    SmoothQuantConfig(Int8WeightOnlyConfig()),
    SmoothQuantConfig(Int8DynamicActivationInt8WeightConfig()),
]
VARIANTS = [*INT8, *INTX, *UINTX, *INT4, *FLOAT8, *BLOCKS, *SCALED]
"""Configs for weights of the kit's default shape."""
TILES = [
    Float8DynamicActivationFloat8WeightConfig(
        granularity=(PerBlock((1, 128)), PerBlock((128, 128)))
    ),
]
"""Configs for weights of shape (512, 256)."""
TILED_SHAPE = (512, 256)
FAKE_QUANTIZED = [
    IntQuantConfig(
        4,
        signed=False,
        granularity=PerAxis(0),
        scale_statistic=ScaleStatistic.MIN_MAX,
        zero_point_kind=ZeroPointKind.STATS,
    ),
    IntQuantConfig(
        scale_kind=ScaleKind.CONST,
        threshold=3.0,
        scale_restriction=ScaleRestriction.POWER_OF_TWO,
    ),
    FloatQuantConfig.of_format("FNUZ_E5M2", granularity=PerAxis(0)),
    GroupwiseIntQuantConfig(4, group_size=24, zero_point_kind=ZeroPointKind.STATS),
    GroupwiseFloatQuantConfig.of_format("OCP_E2M1", group_size=16, group_dim=0),
]
"""Fake-quantized configs for weights of the kit's default shape."""
