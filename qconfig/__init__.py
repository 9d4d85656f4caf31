"""Versioned configs and tensor layouts for quantized PyTorch models.

Public names are imported on first use, so that reading configs and headers does not import torch.
The tensor classes are imported with torch, before or after, so that `torch.load(weights_only=True)`
knows them.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from qconfig import after_torch, catalog
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
        upgrade_config,
        validate_config,
    )
    from qconfig.builders.base import register_builder
    from qconfig.calibration.calibrate import calibrate
    from qconfig.calibration.calibration import Calibration
    from qconfig.checkpoints.inspect import inspect_checkpoint
    from qconfig.checkpoints.load import load_checkpoint
    from qconfig.checkpoints.quantize import quantize_checkpoint
    from qconfig.checkpoints.save import save_checkpoint
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
        FqnToConfig,
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
        IntxChooseQParamsAlgorithm,
        IntxFakeQuantizeConfig,
        IntxPackingFormat,
        IntxWeightOnlyConfig,
        KernelPreference,
        MappingType,
        MXDynamicActivationMXWeightConfig,
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
    from qconfig.dialects.convert import convert_checkpoint
    from qconfig.engine.apply import quantize_
    from qconfig.errors import QconfigError
    from qconfig.layouts import (
        Float8TensorLayout,
        FloatxTensorLayout,
        Int4TensorLayout,
        Int8TensorLayout,
        IntxStaticActivationTensorLayout,
        IntxUnpackedToInt8TensorLayout,
        MXTensorLayout,
        NF4TensorLayout,
        NVFP4TensorLayout,
        UintxTensorLayout,
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

__all__ = [
    "AWQConfig",
    "Calibration",
    "CalibrationConfig",
    "Config",
    "DType",
    "Float8DynamicActivationFloat8WeightConfig",
    "Float8DynamicActivationInt4WeightConfig",
    "Float8FakeQuantizeConfig",
    "Float8MMConfig",
    "Float8PackingFormat",
    "Float8StaticActivationFloat8WeightConfig",
    "Float8Tensor",
    "Float8TensorLayout",
    "Float8WeightOnlyConfig",
    "FloatxTensor",
    "FloatxTensorLayout",
    "FqnToConfig",
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
    "MXDynamicActivationMXWeightConfig",
    "MXTensor",
    "MXTensorLayout",
    "MappingType",
    "MatrixTensor",
    "NF4Tensor",
    "NF4TensorLayout",
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
    "QuantizationStep",
    "Rule",
    "ScaleCalculationMode",
    "SmoothQuantConfig",
    "SupportsActivationScaling",
    "TensorSpec",
    "UIntxChooseQParamsAlgorithm",
    "UIntxWeightOnlyConfig",
    "UintxTensor",
    "UintxTensorLayout",
    "ZeroPointDomain",
    "attribute",
    "calibrate",
    "config_from_dict",
    "config_to_dict",
    "convert_checkpoint",
    "dump_config",
    "explain",
    "inspect_checkpoint",
    "load_checkpoint",
    "load_config",
    "migration",
    "plan",
    "quantize_",
    "quantize_checkpoint",
    "register_builder",
    "register_config",
    "register_layout",
    "register_value",
    "registry",
    "save_checkpoint",
    "tensor",
    "upgrade_checkpoint",
    "upgrade_config",
    "validate_config",
    "verify_checkpoint",
]

_HOMES = {
    "qconfig.api": (
        "config_from_dict",
        "config_to_dict",
        "dump_config",
        "explain",
        "load_config",
        "plan",
        "upgrade_config",
        "validate_config",
    ),
    "qconfig.builders.base": ("register_builder",),
    "qconfig.calibration.calibrate": ("calibrate",),
    "qconfig.calibration.calibration": ("Calibration",),
    "qconfig.checkpoints.inspect": ("inspect_checkpoint",),
    "qconfig.checkpoints.load": ("load_checkpoint",),
    "qconfig.checkpoints.quantize": ("quantize_checkpoint",),
    "qconfig.checkpoints.save": ("save_checkpoint",),
    "qconfig.checkpoints.upgrade": ("upgrade_checkpoint",),
    "qconfig.checkpoints.verify": ("verify_checkpoint",),
    "qconfig.codec.dtypes": ("DType",),
    "qconfig.codec.tensor_values": ("TensorSpec",),
    "qconfig.configs": (
        "AWQConfig",
        "Float8DynamicActivationFloat8WeightConfig",
        "Float8DynamicActivationInt4WeightConfig",
        "Float8FakeQuantizeConfig",
        "Float8MMConfig",
        "Float8PackingFormat",
        "Float8StaticActivationFloat8WeightConfig",
        "Float8WeightOnlyConfig",
        "FqnToConfig",
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
        "IntxChooseQParamsAlgorithm",
        "IntxFakeQuantizeConfig",
        "IntxPackingFormat",
        "IntxWeightOnlyConfig",
        "KernelPreference",
        "MXDynamicActivationMXWeightConfig",
        "MappingType",
        "NVFP4DynamicActivationNVFP4WeightConfig",
        "NVFP4WeightOnlyConfig",
        "PerAxis",
        "PerBlock",
        "PerGroup",
        "PerRow",
        "PerTensor",
        "PerToken",
        "QATConfig",
        "QATStep",
        "QuantizationStep",
        "Rule",
        "ScaleCalculationMode",
        "SmoothQuantConfig",
        "UIntxChooseQParamsAlgorithm",
        "UIntxWeightOnlyConfig",
        "ZeroPointDomain",
    ),
    "qconfig.configs.calibration": ("CalibrationConfig",),
    "qconfig.configs.choices": ("Observer",),
    "qconfig.dialects.convert": ("convert_checkpoint",),
    "qconfig.engine.apply": ("quantize_",),
    "qconfig.errors": ("QconfigError",),
    "qconfig.layouts": (
        "Float8TensorLayout",
        "FloatxTensorLayout",
        "Int4TensorLayout",
        "Int8TensorLayout",
        "IntxStaticActivationTensorLayout",
        "IntxUnpackedToInt8TensorLayout",
        "MXTensorLayout",
        "NF4TensorLayout",
        "NVFP4TensorLayout",
        "UintxTensorLayout",
    ),
    "qconfig.tensors": (
        "Float8Tensor",
        "FloatxTensor",
        "Int4Tensor",
        "Int8Tensor",
        "IntxStaticActivationTensor",
        "IntxUnpackedToInt8Tensor",
        "MXTensor",
        "MatrixTensor",
        "NF4Tensor",
        "NVFP4Tensor",
        "PackedTensor",
        "SupportsActivationScaling",
        "UintxTensor",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

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
