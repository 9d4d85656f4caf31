"""Values and enums that torchao had once and that retired configs hold.

torchao's JSON names a retired enum as it was called then: the suffix `V1` is ours.
"""

from enum import StrEnum

from attrs import frozen

from qconfig.versioning import attribute, register_value


class KernelPreferenceV1(StrEnum):
    """torchao's kernels up to 0.15: what was FBGEMM is called MSLK since."""

    AUTO = "AUTO"
    TORCH = "TORCH"
    FBGEMM = "FBGEMM"
    EMULATED = "EMULATED"


class PackingFormatV1(StrEnum):
    """How torchao 0.13 laid out codes of any family."""

    PLAIN = "PLAIN"
    PRESHUFFLED = "PRESHUFFLED"
    MARLIN_SPARSE = "MARLIN_SPARSE"
    UNPACKED_TO_INT8 = "UNPACKED_TO_INT8"


class NVFP4MMConfigV1(StrEnum):
    """What NVFP4InferenceConfig of torchao 0.12 to 0.14 quantized besides weights."""

    DYNAMIC = "DYNAMIC"
    WEIGHT_ONLY = "WEIGHT_ONLY"


class TargetV1(StrEnum):
    """For which kernels PackedLinearInt8DynamicActivationIntxWeightLayout packed."""

    AUTO = "AUTO"
    UNIVERSAL = "UNIVERSAL"
    KLEIDIAI = "KLEIDIAI"
    ATEN = "ATEN"


@register_value("PlainLayout")
@frozen
class PlainLayout:
    """Codes as they are."""


@register_value("QDQLayout")
@frozen
class QDQLayout:
    """Codes as they are, one a byte, dequantized for the product."""


@register_value("SemiSparseLayout")
@frozen
class SemiSparseLayout:
    """Two of every four weights pruned, for CUDA's 2:4 sparse product."""


@register_value("MarlinSparseLayout")
@frozen
class MarlinSparseLayout:
    """Two of every four weights pruned, for the Marlin kernel."""


@register_value("TensorCoreTiledLayout")
@frozen
class TensorCoreTiledLayout:
    """Tiles as tensor cores read them."""

    inner_k_tiles: int = attribute(
        "Tiles along K that lie together.", default=8, minimum=1, maximum=2**31 - 1
    )


@register_value("Int4CPULayout")
@frozen
class Int4CPULayout:
    """Codes as torch's int4 product on CPUs reads them."""


@register_value("Int4XPULayout")
@frozen
class Int4XPULayout:
    """Codes as torch's int4 product on Intel GPUs reads them."""


@register_value("Int8DynamicActInt4WeightCPULayout")
@frozen
class Int8DynamicActInt4WeightCPULayout:
    """Unsigned int4 codes as torchao's product with int8 activations on CPUs reads them."""


@register_value("MarlinQQQLayout")
@frozen
class MarlinQQQLayout:
    """Codes as the Marlin QQQ kernel reads them."""


@register_value("CutlassInt4PackedLayout")
@frozen
class CutlassInt4PackedLayout:
    """Codes two a byte, as CUTLASS reads them."""


@register_value("PackedLinearInt8DynamicActivationIntxWeightLayout")
@frozen
class PackedLinearInt8DynamicActivationIntxWeightLayout:
    """Codes, scales and bias packed for torchao's kernels on ARM CPUs."""

    target: TargetV1 = attribute("For which kernels.", default=TargetV1.AUTO)
