"""Closed lists of choices that configs and layouts share; names agree with torchao's enums."""

from enum import StrEnum


class MappingType(StrEnum):
    """How real values map to codes; names agree with torchao's `MappingType`."""

    SYMMETRIC = "SYMMETRIC"
    SYMMETRIC_NO_CLIPPING_ERR = "SYMMETRIC_NO_CLIPPING_ERR"
    ASYMMETRIC = "ASYMMETRIC"


class ZeroPointDomain(StrEnum):
    """Whether zero points are codes, real values or absent."""

    INT = "INT"
    FLOAT = "FLOAT"
    NONE = "NONE"


class KernelPreference(StrEnum):
    """Which kernel a product may use; here it is carried, and torch's own kernels are used."""

    AUTO = "AUTO"
    TORCH = "TORCH"
    MSLK = "MSLK"
    EMULATED = "EMULATED"
    TRITON = "TRITON"


class Int4PackingFormat(StrEnum):
    """How torchao lays out int4 codes; qconfig builds PLAIN."""

    PLAIN = "PLAIN"
    PRESHUFFLED = "PRESHUFFLED"
    PLAIN_INT32 = "PLAIN_INT32"
    TILE_PACKED_TO_4D = "TILE_PACKED_TO_4D"


class Int4ChooseQParamsAlgorithm(StrEnum):
    """How int4 scales and zero points are found."""

    TINYGEMM = "TINYGEMM"
    HQQ = "HQQ"


class IntxPackingFormat(StrEnum):
    """How torchao lays out intx codes; qconfig builds UNPACKED_TO_INT8."""

    UNPACKED_TO_INT8 = "UNPACKED_TO_INT8"
    OPAQUE_ATEN_KLEIDIAI = "OPAQUE_ATEN_KLEIDIAI"
    OPAQUE_TORCHAO_AUTO = "OPAQUE_TORCHAO_AUTO"
    OPAQUE_TORCHAO_KLEIDIAI = "OPAQUE_TORCHAO_KLEIDIAI"
    OPAQUE_TORCHAO_LOWBIT = "OPAQUE_TORCHAO_LOWBIT"


class IntxChooseQParamsAlgorithm(StrEnum):
    """How intx scales and zero points are found."""

    AFFINE = "AFFINE"
    HQQ_SCALE_ONLY = "HQQ_SCALE_ONLY"


class Float8PackingFormat(StrEnum):
    """How torchao lays out float8 codes; qconfig builds PLAIN."""

    PLAIN = "PLAIN"
    SPARSE_2D_DATA_2D_METADATA = "SPARSE_2D_DATA_2D_METADATA"
    SPARSE_1D_DATA_1D_METADATA = "SPARSE_1D_DATA_1D_METADATA"


class ScaleCalculationMode(StrEnum):
    """How an E8M0 block scale is rounded, as torchao's MX formats name it."""

    FLOOR = "FLOOR"
    RCEIL = "RCEIL"
    CEIL = "CEIL"
    EVEN = "EVEN"


class QuantizationStep(StrEnum):
    """Where a scheme of several steps stands."""

    PREPARE = "PREPARE"
    CONVERT = "CONVERT"
    PREPARE_FOR_LOADING = "PREPARE_FOR_LOADING"
    PREPARE_FOR_SMOOTHQUANT_SMOOTHING_FACTOR = "PREPARE_FOR_SMOOTHQUANT_SMOOTHING_FACTOR"
    PREPARE_FOR_SMOOTHQUANT_ACTIVATION_SCALES = "PREPARE_FOR_SMOOTHQUANT_ACTIVATION_SCALES"


class QATStep(StrEnum):
    """Where quantization-aware training stands."""

    PREPARE = "PREPARE"
    CONVERT = "CONVERT"


class Observer(StrEnum):
    """How the range of activations is found while they pass by."""

    MIN_MAX = "MIN_MAX"
    PERCENTILE = "PERCENTILE"
    MSE = "MSE"
    RUNNING = "RUNNING"
