"""Names of torchao's tensors that are known and not read; `refusals` says why, class by class."""

from qconfig.codec.pickled_values import Role

_Row = tuple[str, str, str]
_DTYPES, _FLOAT8, _PROTOTYPE = "torchao.dtypes", "torchao.float8", "torchao.prototype"
_OPTIM, _QUANTIZATION = "torchao.optim", "torchao.quantization"
_LOW_BIT = f"{_PROTOTYPE}.low_bit_optim"
_TRAINING = f"{_PROTOTYPE}.quantized_training"
_LINEAR = "torchao.experimental._linear_8bit_act_xbit_weight_layout"
_SPARSE = "blocksparse"

_TENSORS: tuple[_Row, ...] = (
    (f"{_DTYPES}.affine_quantized_tensor", "0.7", "MarlinQQQTensor"),
    (f"{_DTYPES}.uintx.marlin_qqq_layout", "0.7", "MarlinQQQAQTTensorImpl"),
    (f"{_DTYPES}.uintx.marlin_qqq_tensor", "0.8 to 0.14", "MarlinQQQTensor"),
    (f"{_PROTOTYPE}.dtypes.uintx.marlin_qqq_tensor", "0.15", "MarlinQQQTensor"),
    (_LINEAR, "0.7 and 0.8", "Linear8BitActXBitWeightAQTTensorImpl"),
    (
        "torchao.experimental.packed_linear_int8_dynamic_activation_intx_weight_layout",
        "0.9",
        "PackedLinearInt8DynamicActivationIntxWeightAtenTensor",
    ),
    (
        f"{_PROTOTYPE}.quantization.gguf.gguf_quantized_tensor",
        "0.11 and later",
        "GGUFQuantizedTensor",
    ),
    (
        f"{_PROTOTYPE}.quantization.dynamic_activation_lut.int8_dynamic_activation_lut_tensor",
        "0.13",
        "Int8DynamicActivationLutTensor",
    ),
    (
        f"{_PROTOTYPE}.quantization.int8_lut_tensor.int8_lut_tensor",
        "0.14 and later",
        "Int8LutTensor",
    ),
    (
        f"{_PROTOTYPE}.quantization.uintx.uintx_bit_packed_tensor",
        "0.17 and later",
        "UIntxBitPackedTensor",
    ),
    (f"{_PROTOTYPE}.quant_llm.quant_llm", "0.4", "QuantLlmLinearWeight"),
    (f"{_PROTOTYPE}.moe_quant.utils", "0.11 to 0.15", "FakeExtraDimTensor"),
    (f"{_DTYPES}.uint4", "0.4 to 0.6", "UInt4Tensor PerChannelSymmetricWeightUInt4Tensor"),
    (
        f"{_DTYPES}.uintx.uint4_layout",
        "0.7 to 0.15",
        "UInt4Tensor PerChannelSymmetricWeightUInt4Tensor",
    ),
    (f"{_PROTOTYPE}.dtypes.uint2", "0.4 to 0.9", "UInt2Tensor"),
    (f"{_PROTOTYPE}.dtypes.bitnet", "0.4 to 0.9", "BitnetTensor"),
    (f"torchao.sparsity.prototype.superblock.{_SPARSE}", "0.5 and 0.6", "BlockSparseTensor"),
    (f"{_PROTOTYPE}.sparsity.superblock.{_SPARSE}", "0.7 and 0.8", "BlockSparseTensor"),
    (f"torchao.sparsity.{_SPARSE}", "0.9 and later", "BlockSparseTensor"),
    (f"{_OPTIM}.subclass_4bit", "0.10 and later", "OptimState4bit"),
    (f"{_OPTIM}.subclass_8bit", "0.10 and later", "OptimState8bit"),
    (f"{_OPTIM}.subclass_fp8", "0.10 and later", "OptimStateFp8"),
    (f"{_LOW_BIT}.subclass_4bit", "0.4 to 0.10", "OptimState4bit"),
    (f"{_LOW_BIT}.subclass_8bit", "0.4 to 0.10", "OptimState8bit"),
    (f"{_LOW_BIT}.subclass_fp8", "0.4 to 0.10", "OptimStateFp8"),
    (f"{_FLOAT8}.float8_tensor", "0.4 to 0.12", "Float8Tensor"),
    (f"{_FLOAT8}.float8_training_tensor", "0.13 and later", "Float8TrainingTensor"),
    (
        f"{_FLOAT8}.fsdp_utils",
        "0.4 and later",
        "WeightWithDelayedFloat8CastTensor WeightWithDynamicFloat8CastTensor",
    ),
    (f"{_FLOAT8}.fsdp_utils", "0.5 to 0.9", "WeightWithStaticFloat8CastTensor"),
    (
        f"{_QUANTIZATION}.prototype.qat.affine_fake_quantized_tensor",
        "0.5 and 0.6",
        "AffineFakeQuantizedTensor",
    ),
    (
        f"{_QUANTIZATION}.qat.affine_fake_quantized_tensor",
        "0.7 and later",
        "AffineFakeQuantizedTensor _AffineFakeQuantizedTensor",
    ),
    (f"{_TRAINING}.bitnet", "0.6 and later", "BitNetPacked2bitLinearWeight"),
    (f"{_TRAINING}.bitnet", "0.6 and later", "BitNetTrainingLinearWeight"),
    (f"{_TRAINING}.int8", "0.5 and later", "Int8QuantizedTrainingLinearWeight"),
    (
        f"{_TRAINING}.int8_mixed_precision",
        "0.5 and later",
        "Int8MixedPrecisionTrainingLinearWeight",
    ),
    (
        f"{_PROTOTYPE}.moe_training.tensor",
        "0.12 and later",
        "ScaledGroupedMMTensor Float8TrainingWeightWrapperTensor MXFP8TrainingWeightWrapperTensor",
    ),
    (
        f"{_QUANTIZATION}.linear_activation_weight_observer",
        "0.5 and 0.6",
        "LinearActivationWeightObservedTensor",
    ),
    (
        f"{_QUANTIZATION}.linear_activation_weight_observed_tensor",
        "0.7 to 0.17",
        "LinearActivationWeightObservedTensor",
    ),
    *(
        (module, releases, names)
        for module in (f"{_QUANTIZATION}.autoquant", f"{_PROTOTYPE}.quantization.autoquant_v2")
        for releases, names in (
            ("0.4 to 0.16", "AutoQuantizableLinearWeight"),
            ("0.8 to 0.16", "Float32Tensor BFloat16Tensor Float16Tensor"),
            ("0.7 to 0.16", "AQFloat32LinearWeight AQBFloat16LinearWeight AQFloat16LinearWeight"),
        )
    ),
    (
        f"{_QUANTIZATION}.autoquant",
        "0.4",
        "AQWeightOnlyQuantizedLinearWeight AQWeightOnlyQuantizedLinearWeight2",
    ),
    (f"{_QUANTIZATION}.autoquant", "0.4", "AQWeightOnlyQuantizedLinearWeight3"),
)

_OBJECTS: tuple[_Row, ...] = (
    (f"{_DTYPES}.uintx.marlin_qqq_layout", "0.7", "MarlinQQQLayout"),
    (_LINEAR, "0.7 and 0.8", "Linear8BitActXBitWeightLayout"),
    (f"{_FLOAT8}.float8_tensor", "0.4 to 0.12", "LinearMMConfig ScaledMMConfig"),
    (f"{_FLOAT8}.float8_training_tensor", "0.13 and later", "LinearMMConfig ScaledMMConfig"),
)

_ENUMS: tuple[_Row, ...] = (
    (_LINEAR, "0.7 and 0.8", "Target"),
    (f"{_FLOAT8}.float8_tensor", "0.4 to 0.12", "GemmInputRole"),
    (f"{_FLOAT8}.float8_training_tensor", "0.13 and later", "GemmInputRole"),
)

REFUSED_NAMES: tuple[tuple[Role, tuple[_Row, ...]], ...] = (
    (Role.TENSOR, _TENSORS),
    (Role.OBJECT, _OBJECTS),
    (Role.ENUM, _ENUMS),
)
"""Role -> rows of a module, the releases that wrote the names, and the names."""

REFUSED_TENSORS = frozenset(
    f"{module}.{name}" for module, _, names in _TENSORS for name in names.split()
)
"""Paths of the classes, of which nothing is looked at."""
