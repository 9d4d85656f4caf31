"""Current config classes, one family a file."""

from qconfig.configs.activation_scaling import (
    AWQConfig,
    SmoothQuantConfig,
)
from qconfig.configs.choices import (
    Float8PackingFormat,
    Int4ChooseQParamsAlgorithm,
    Int4PackingFormat,
    IntxChooseQParamsAlgorithm,
    IntxPackingFormat,
    KernelPreference,
    MappingType,
    QATStep,
    QuantizationStep,
    ScaleCalculationMode,
    ZeroPointDomain,
)
from qconfig.configs.float8 import (
    Float8DynamicActivationFloat8WeightConfig,
    Float8MMConfig,
    Float8StaticActivationFloat8WeightConfig,
    Float8WeightOnlyConfig,
)
from qconfig.configs.float_quant import FloatQuantConfig
from qconfig.configs.fqn_to_config import (
    FqnToConfig,
    Precedence,
    Rule,
)
from qconfig.configs.granularity import (
    AnyGranularity,
    Granularity,
    PerAxis,
    PerBlock,
    PerGroup,
    PerRow,
    PerTensor,
    PerToken,
)
from qconfig.configs.groupwise_quant import GroupwiseFloatQuantConfig, GroupwiseIntQuantConfig
from qconfig.configs.int4 import (
    Float8DynamicActivationInt4WeightConfig,
    Int4WeightOnlyConfig,
)
from qconfig.configs.int8 import (
    Int8DynamicActivationInt8WeightConfig,
    Int8StaticActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
)
from qconfig.configs.int8_int4 import (
    Int8DynamicActivationInt4WeightConfig,
)
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.configs.intx import (
    Int8DynamicActivationIntxWeightConfig,
    Int8StaticActivationIntxWeightConfig,
    IntxWeightOnlyConfig,
)
from qconfig.configs.mx import (
    MXDynamicActivationMXWeightConfig,
)
from qconfig.configs.nf4 import (
    NF4WeightOnlyConfig,
)
from qconfig.configs.nvfp4 import (
    NVFP4DynamicActivationNVFP4WeightConfig,
    NVFP4WeightOnlyConfig,
)
from qconfig.configs.qat import (
    Float8FakeQuantizeConfig,
    Int4WeightFakeQuantizeConfig,
    IntxFakeQuantizeConfig,
    QATConfig,
)
from qconfig.configs.uintx import (
    Int8DynamicActivationUIntxWeightConfig,
    UIntxChooseQParamsAlgorithm,
    UIntxWeightOnlyConfig,
)

__all__ = [
    "AWQConfig",
    "AnyGranularity",
    "Float8DynamicActivationFloat8WeightConfig",
    "Float8DynamicActivationInt4WeightConfig",
    "Float8FakeQuantizeConfig",
    "Float8MMConfig",
    "Float8PackingFormat",
    "Float8StaticActivationFloat8WeightConfig",
    "Float8WeightOnlyConfig",
    "FloatQuantConfig",
    "FqnToConfig",
    "Granularity",
    "GroupwiseFloatQuantConfig",
    "GroupwiseIntQuantConfig",
    "Int4ChooseQParamsAlgorithm",
    "Int4PackingFormat",
    "Int4WeightFakeQuantizeConfig",
    "Int4WeightOnlyConfig",
    "Int8DynamicActivationInt4WeightConfig",
    "Int8DynamicActivationInt8WeightConfig",
    "Int8DynamicActivationIntxWeightConfig",
    "Int8DynamicActivationUIntxWeightConfig",
    "Int8StaticActivationInt8WeightConfig",
    "Int8StaticActivationIntxWeightConfig",
    "Int8WeightOnlyConfig",
    "IntQuantConfig",
    "IntxChooseQParamsAlgorithm",
    "IntxFakeQuantizeConfig",
    "IntxPackingFormat",
    "IntxWeightOnlyConfig",
    "KernelPreference",
    "MXDynamicActivationMXWeightConfig",
    "MappingType",
    "NF4WeightOnlyConfig",
    "NVFP4DynamicActivationNVFP4WeightConfig",
    "NVFP4WeightOnlyConfig",
    "PerAxis",
    "PerBlock",
    "PerGroup",
    "PerRow",
    "PerTensor",
    "PerToken",
    "Precedence",
    "QATConfig",
    "QATStep",
    "QuantizationStep",
    "Rule",
    "ScaleCalculationMode",
    "SmoothQuantConfig",
    "UIntxChooseQParamsAlgorithm",
    "UIntxWeightOnlyConfig",
    "ZeroPointDomain",
]
