"""Classes of torchao's that are known and not read: who wrote them, why not, and what to do."""

from collections.abc import Mapping

from attrs import frozen

from qconfig.dialects.torchao.stored import Stored
from qconfig.errors import MigrationError, QconfigError, UnknownNameError, nearest

_SPARSE = "pruned codes and their places are packed for one kernel of NVIDIA's or AMD's GPUs"
_MARLIN = "codes are permuted for the Marlin kernel, which nothing in the file describes"
_OPAQUE = "bytes are packed by a kernel for the CPU that it ran on, which nothing describes"
_FBGEMM = "codes are shuffled by FBGEMM's kernel, whose arrangement is not documented"
_GEMLITE = "codes are packed by the package gemlite, whose arrangement follows its version"
_CODEBOOK = "values are looked up in a codebook, for which there is no layout"
_SUBCLASS = "the class is older than AffineQuantizedTensor, and torchao deprecated it in 0.4"
_TRAINING = "it holds the state of training, and no weight to serve"
_FLOAT = "it is a float weight, which a class wraps that casts the activation"
_UNUSED = "no config of torchao's made it, and which values its codes have is not said in the file"
_OBSERVED = "it is a float weight with observers for its calibration"
_BLOCKS = "zero blocks of a float weight are left out, and no layout has that"

_UNWRAP = "save the float weight without the class that wraps it, with the release that wrote it"
_AGAIN = "quantize the float weights again, or dequantize with the release that wrote the file"


@frozen
class Refusal:
    """A class that is not read.

    Args:
        releases: who wrote it.
        reason: why not.
        hint: what to do.
    """

    releases: str
    reason: str
    hint: str = _AGAIN


REFUSED: Mapping[str, Refusal] = {
    "_AffineFakeQuantizedTensor": Refusal("0.13 and later", _TRAINING, _UNWRAP),
    "AffineFakeQuantizedTensor": Refusal("0.5 to 0.12", _TRAINING, _UNWRAP),
    "AQBFloat16LinearWeight": Refusal("0.7 to 0.16", _FLOAT, _UNWRAP),
    "AQFloat16LinearWeight": Refusal("0.7 to 0.16", _FLOAT, _UNWRAP),
    "AQFloat32LinearWeight": Refusal("0.7 to 0.16", _FLOAT, _UNWRAP),
    "AQWeightOnlyQuantizedLinearWeight": Refusal("0.4", _SUBCLASS),
    "AQWeightOnlyQuantizedLinearWeight2": Refusal("0.4", _SUBCLASS),
    "AQWeightOnlyQuantizedLinearWeight3": Refusal("0.4", _SUBCLASS),
    "AutoQuantizableLinearWeight": Refusal("0.4 to 0.16", "autoquant has not chosen yet", _UNWRAP),
    "BFloat16Tensor": Refusal("0.8 to 0.16", _FLOAT, _UNWRAP),
    "BitNetPacked2bitLinearWeight": Refusal("0.6 and later", _UNUSED),
    "BitnetTensor": Refusal("0.4 to 0.9", _UNUSED),
    "BitNetTrainingLinearWeight": Refusal("0.6 and later", _TRAINING, _UNWRAP),
    "BlockSparseTensor": Refusal("0.5 and later", _BLOCKS),
    "CodebookQuantizedPackedTensor": Refusal("0.14 and later", _CODEBOOK),
    "CodebookQuantizedTensor": Refusal("0.8 and later", _CODEBOOK),
    "CutlassSemiSparseTensorImpl": Refusal("0.10 to 0.16", _SPARSE),
    "DA8W4CPUAQTTensorImpl": Refusal("0.12 to 0.16", _OPAQUE),
    "FakeExtraDimTensor": Refusal(
        "0.11 to 0.15",
        "it stacks the experts of a layer, of which each is a tensor",
        "save each expert by itself",
    ),
    "Float16Tensor": Refusal("0.8 to 0.16", _FLOAT, _UNWRAP),
    "Float32Tensor": Refusal("0.8 to 0.16", _FLOAT, _UNWRAP),
    "Float8OpaqueTensor": Refusal("0.15 and later", _OPAQUE),
    "Float8Sparse2x4_1DData1DMetadataTensor": Refusal("0.18 and later", _SPARSE),
    "Float8Sparse2x4_2DData2DMetadataTensor": Refusal("0.18 and later", _SPARSE),
    "Float8TrainingTensor": Refusal("0.4 and later", _TRAINING, _UNWRAP),
    "Float8TrainingWeightWrapperTensor": Refusal("0.17 and later", _TRAINING, _UNWRAP),
    "GemliteAQTTensorImpl": Refusal("0.9 to 0.16", _GEMLITE),
    "GGUFQuantizedTensor": Refusal(
        "0.11 and later", "scales of superblocks are quantized again, and no layout has that"
    ),
    "Int4GroupwisePreshuffleTensor": Refusal("0.12", _FBGEMM),
    "Int4MarlinSparseTensor": Refusal("0.13 to 0.15", _MARLIN),
    "Int4PreshuffledTensor": Refusal("0.13 and later", _FBGEMM),
    "Int4WeightOnlyQuantizedLinearWeight": Refusal("up to 0.8", _SUBCLASS),
    "Int8DynamicActivationLutTensor": Refusal("0.13", _CODEBOOK),
    "Int8DynamicallyQuantizedLinearWeight": Refusal("up to 0.8", _SUBCLASS),
    "Int8LutTensor": Refusal("0.15 and later", _CODEBOOK),
    "Int8MixedPrecisionTrainingLinearWeight": Refusal("0.5 and later", _TRAINING, _UNWRAP),
    "Int8QuantizedTrainingLinearWeight": Refusal("0.5 and later", _TRAINING),
    "Int8WeightOnlyQuantizedLinearWeight": Refusal("up to 0.8", _SUBCLASS),
    "IntxOpaqueTensor": Refusal("0.14 and later", _OPAQUE),
    "Linear8BitActXBitWeightAQTTensorImpl": Refusal("0.7 and 0.8", _OPAQUE),
    "LinearActivationWeightObservedTensor": Refusal("0.5 to 0.17", _OBSERVED, _UNWRAP),
    "MarlinQQQAQTTensorImpl": Refusal("0.7 to 0.15", _MARLIN),
    "MarlinQQQTensor": Refusal("0.7 to 0.15", _MARLIN),
    "MarlinSparseAQTLayout": Refusal("0.5 and 0.6", _MARLIN),
    "MarlinSparseAQTTensorImpl": Refusal("0.7 to 0.15", _MARLIN),
    "MXFP8TrainingWeightWrapperTensor": Refusal("0.17 and later", _TRAINING, _UNWRAP),
    "OptimState4bit": Refusal("0.4 and later", _TRAINING),
    "OptimState8bit": Refusal("0.4 and later", _TRAINING),
    "OptimStateFp8": Refusal("0.4 and later", _TRAINING),
    "PackedLinearInt8DynamicActivationIntxWeightAQTTensorImpl": Refusal("0.9 to 0.16", _OPAQUE),
    "PackedLinearInt8DynamicActivationIntxWeightAtenTensor": Refusal("0.9", _OPAQUE),
    "PerChannelSymmetricWeightUInt4Tensor": Refusal("0.4 to 0.15", _UNUSED),
    "QuantLlmLinearWeight": Refusal("0.4", "the class is older than that of 0.5, which is read"),
    "ScaledGroupedMMTensor": Refusal("0.12 to 0.16", _TRAINING, _UNWRAP),
    "SemiSparseAQTLayout": Refusal("0.4 to 0.6", _SPARSE),
    "SemiSparseAQTTensorImpl": Refusal("0.7 to 0.16", _SPARSE),
    "Sparse2x4CUTLASSFloat8Tensor": Refusal("0.16 and 0.17", _SPARSE),
    "UInt2Tensor": Refusal("0.4 to 0.9", _UNUSED),
    "UInt4Tensor": Refusal("0.4 to 0.15", _UNUSED),
    "UIntxBitPackedTensor": Refusal("0.17 and later", _GEMLITE),
    "WeightWithDelayedFloat8CastTensor": Refusal("0.4 to 0.9", _TRAINING, _UNWRAP),
    "WeightWithDynamicFloat8CastTensor": Refusal("0.4 and later", _TRAINING, _UNWRAP),
    "WeightWithStaticFloat8CastTensor": Refusal("0.5 to 0.9", _TRAINING, _UNWRAP),
}
"""Class names of tensors and of arrangements inside AffineQuantizedTensor."""


def refused(stored: Stored) -> QconfigError:
    """Return the error for a tensor that no reader takes.

    Args:
        stored: the tensor, or the arrangement inside an AffineQuantizedTensor.
    """
    known = REFUSED.get(stored.name)
    if known is None:
        return UnknownNameError(
            f"{stored.name} is no tensor class of torchao's that can be read",
            found=stored.path or stored.name,
            expected="a class that torchao 0.4 to 0.18 stored",
            hint=nearest(stored.name, REFUSED),
        )
    return MigrationError(
        f"{stored.name} of torchao {known.releases} cannot be read: {known.reason}",
        found=stored.path or stored.name,
        expected="a class whose arithmetic the file determines",
        hint=known.hint,
    )
