"""Versioned configs and tensor layouts for quantized PyTorch models.

Public names are imported on first use, so that reading configs and headers does not import torch.
The tensor classes are imported with torch, before or after, so that `torch.load(weights_only=True)`
knows them.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from qconfig import after_torch, catalog
from qconfig.homes import HOMES
from qconfig.versioning import (
    Config,
    Layout,
    attribute,
    migration,
    register_config,
    register_layout,
    register_value,
    registry,
    tensor,
)

if TYPE_CHECKING:
    from qconfig.api import (
        config_from_dict,
        config_to_dict,
        dump_config,
        explain,
        load_config,
        plan,
        read_config,
        upgrade_config,
        validate_config,
    )
    from qconfig.builders.base import register_builder
    from qconfig.calibration.calibrate import calibrate
    from qconfig.calibration.calibration import Calibration
    from qconfig.checkpoints.events import Event
    from qconfig.checkpoints.inspect import inspect_checkpoint
    from qconfig.checkpoints.leftovers import Leftover, find_leftovers, remove_leftover
    from qconfig.checkpoints.load import load_checkpoint
    from qconfig.checkpoints.quantize import quantize_checkpoint
    from qconfig.checkpoints.save import save_checkpoint
    from qconfig.checkpoints.tensor_slice import TensorSlice
    from qconfig.checkpoints.upgrade import upgrade_checkpoint
    from qconfig.checkpoints.verify import verify_checkpoint
    from qconfig.codec.dtypes import DType
    from qconfig.codec.tensor_values import TensorSpec
    from qconfig.configs import (
        AWQConfig,
        Float8DynamicActivationFloat8WeightConfig,
        Float8DynamicActivationInt4WeightConfig,
        Float8FakeQuantizeConfig,
        Float8MMConfig,
        Float8PackingFormat,
        Float8StaticActivationFloat8WeightConfig,
        Float8WeightOnlyConfig,
        FloatQuantConfig,
        FqnToConfig,
        GroupwiseFloatQuantConfig,
        GroupwiseIntQuantConfig,
        Int4ChooseQParamsAlgorithm,
        Int4PackingFormat,
        Int4WeightFakeQuantizeConfig,
        Int4WeightOnlyConfig,
        Int8DynamicActivationInt4WeightConfig,
        Int8DynamicActivationInt8WeightConfig,
        Int8DynamicActivationIntxWeightConfig,
        Int8DynamicActivationUIntxWeightConfig,
        Int8StaticActivationInt8WeightConfig,
        Int8StaticActivationIntxWeightConfig,
        Int8WeightOnlyConfig,
        IntQuantConfig,
        IntxChooseQParamsAlgorithm,
        IntxFakeQuantizeConfig,
        IntxPackingFormat,
        IntxWeightOnlyConfig,
        KernelPreference,
        MappingType,
        MXDynamicActivationMXWeightConfig,
        NF4WeightOnlyConfig,
        NVFP4DynamicActivationNVFP4WeightConfig,
        NVFP4WeightOnlyConfig,
        PerAxis,
        PerBlock,
        PerGroup,
        PerRow,
        PerTensor,
        PerToken,
        QATConfig,
        QATStep,
        QuantizationStep,
        Rule,
        ScaleCalculationMode,
        SmoothQuantConfig,
        UIntxChooseQParamsAlgorithm,
        UIntxWeightOnlyConfig,
        ZeroPointDomain,
    )
    from qconfig.configs.calibration import CalibrationConfig
    from qconfig.configs.choices import Observer
    from qconfig.configs.quant_choices import (
        FloatFormat,
        RoundingMode,
        ScaleKind,
        ScaleRestriction,
        ScaleStatistic,
        ZeroPointKind,
        ZeroPointStatistic,
    )
    from qconfig.dialects.brevitas import (
        load_brevitas_state_dict,
    )
    from qconfig.dialects.convert import convert_checkpoint
    from qconfig.engine.apply import quantize_
    from qconfig.errors import InexactWarning, QconfigError
    from qconfig.layouts import (
        Float8TensorLayout,
        FloatQuantTensorLayout,
        FloatxTensorLayout,
        GroupwiseFloatQuantTensorLayout,
        GroupwiseIntQuantTensorLayout,
        Int4TensorLayout,
        Int8TensorLayout,
        IntQuantTensorLayout,
        IntxStaticActivationTensorLayout,
        IntxUnpackedToInt8TensorLayout,
        MXTensorLayout,
        NF4TensorLayout,
        NVFP4TensorLayout,
        UintxTensorLayout,
    )
    from qconfig.limits import Limits, use_limits, with_limits
    from qconfig.modules import (
        QuantConv1d,
        QuantConv2d,
        QuantEmbedding,
        QuantIdentity,
        QuantLinear,
        QuantReLU,
        TruncAdaptiveAvgPool2d,
        TruncAvgPool2d,
        freeze,
        pack,
        to_inference,
    )
    from qconfig.tensors import (
        Float8Tensor,
        FloatxTensor,
        Int4Tensor,
        Int8Tensor,
        IntxStaticActivationTensor,
        IntxUnpackedToInt8Tensor,
        MatrixTensor,
        MXTensor,
        NF4Tensor,
        NVFP4Tensor,
        PackedTensor,
        SupportsActivationScaling,
        UintxTensor,
    )
    from qconfig.tensors.quant_tensor import (
        FloatQuantTensor,
        GroupwiseFloatQuantTensor,
        GroupwiseIntQuantTensor,
        IntQuantTensor,
        QuantTensor,
    )
    from qconfig.tensors.quant_tensor.packing import from_packed, to_packed

__all__ = [
    "AWQConfig",
    "Calibration",
    "CalibrationConfig",
    "Config",
    "DType",
    "Event",
    "Float8DynamicActivationFloat8WeightConfig",
    "Float8DynamicActivationInt4WeightConfig",
    "Float8FakeQuantizeConfig",
    "Float8MMConfig",
    "Float8PackingFormat",
    "Float8StaticActivationFloat8WeightConfig",
    "Float8Tensor",
    "Float8TensorLayout",
    "Float8WeightOnlyConfig",
    "FloatFormat",
    "FloatQuantConfig",
    "FloatQuantTensor",
    "FloatQuantTensorLayout",
    "FloatxTensor",
    "FloatxTensorLayout",
    "FqnToConfig",
    "GroupwiseFloatQuantConfig",
    "GroupwiseFloatQuantTensor",
    "GroupwiseFloatQuantTensorLayout",
    "GroupwiseIntQuantConfig",
    "GroupwiseIntQuantTensor",
    "GroupwiseIntQuantTensorLayout",
    "InexactWarning",
    "Int4ChooseQParamsAlgorithm",
    "Int4PackingFormat",
    "Int4Tensor",
    "Int4TensorLayout",
    "Int4WeightFakeQuantizeConfig",
    "Int4WeightOnlyConfig",
    "Int8DynamicActivationInt4WeightConfig",
    "Int8DynamicActivationInt8WeightConfig",
    "Int8DynamicActivationIntxWeightConfig",
    "Int8DynamicActivationUIntxWeightConfig",
    "Int8StaticActivationInt8WeightConfig",
    "Int8StaticActivationIntxWeightConfig",
    "Int8Tensor",
    "Int8TensorLayout",
    "Int8WeightOnlyConfig",
    "IntQuantConfig",
    "IntQuantTensor",
    "IntQuantTensorLayout",
    "IntxChooseQParamsAlgorithm",
    "IntxFakeQuantizeConfig",
    "IntxPackingFormat",
    "IntxStaticActivationTensor",
    "IntxStaticActivationTensorLayout",
    "IntxUnpackedToInt8Tensor",
    "IntxUnpackedToInt8TensorLayout",
    "IntxWeightOnlyConfig",
    "KernelPreference",
    "Layout",
    "Leftover",
    "Limits",
    "MXDynamicActivationMXWeightConfig",
    "MXTensor",
    "MXTensorLayout",
    "MappingType",
    "MatrixTensor",
    "NF4Tensor",
    "NF4TensorLayout",
    "NF4WeightOnlyConfig",
    "NVFP4DynamicActivationNVFP4WeightConfig",
    "NVFP4Tensor",
    "NVFP4TensorLayout",
    "NVFP4WeightOnlyConfig",
    "Observer",
    "PackedTensor",
    "PerAxis",
    "PerBlock",
    "PerGroup",
    "PerRow",
    "PerTensor",
    "PerToken",
    "QATConfig",
    "QATStep",
    "QconfigError",
    "QuantConv1d",
    "QuantConv2d",
    "QuantEmbedding",
    "QuantIdentity",
    "QuantLinear",
    "QuantReLU",
    "QuantTensor",
    "QuantizationStep",
    "RoundingMode",
    "Rule",
    "ScaleCalculationMode",
    "ScaleKind",
    "ScaleRestriction",
    "ScaleStatistic",
    "SmoothQuantConfig",
    "SupportsActivationScaling",
    "TensorSlice",
    "TensorSpec",
    "TruncAdaptiveAvgPool2d",
    "TruncAvgPool2d",
    "UIntxChooseQParamsAlgorithm",
    "UIntxWeightOnlyConfig",
    "UintxTensor",
    "UintxTensorLayout",
    "ZeroPointDomain",
    "ZeroPointKind",
    "ZeroPointStatistic",
    "attribute",
    "calibrate",
    "config_from_dict",
    "config_to_dict",
    "convert_checkpoint",
    "dump_config",
    "explain",
    "find_leftovers",
    "freeze",
    "from_packed",
    "inspect_checkpoint",
    "load_brevitas_state_dict",
    "load_checkpoint",
    "load_config",
    "migration",
    "pack",
    "plan",
    "quantize_",
    "quantize_checkpoint",
    "read_config",
    "register_builder",
    "register_config",
    "register_layout",
    "register_value",
    "registry",
    "remove_leftover",
    "save_checkpoint",
    "tensor",
    "to_inference",
    "to_packed",
    "upgrade_checkpoint",
    "upgrade_config",
    "use_limits",
    "validate_config",
    "verify_checkpoint",
    "with_limits",
]

_HOME_OF = {name: module for module, names in HOMES.items() for name in names}

catalog.prepare()
after_torch.import_tensors_with_torch()


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("qconfig")
    module = _HOME_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
