"""MXDynamicActivationMXWeightConfig: MXFPInferenceConfig, then a name, then a rounding mode.

| ours | torchao releases | what was new |
|---|---|---|
| 1 | 0.12 to 0.14, as MXFPInferenceConfig | – |
| 2 | 0.15 | kernel_preference in place of gemm_kernel_choice |
| 3 | 0.16 and later | scaling_mode |

Scales were rounded by FLOOR up to 0.14 and by RCEIL since. torchao 0.15 had no field to say so;
version 2 has an optional one all the same, so that a FLOOR of version 1 reaches the present.
"""

from enum import StrEnum

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.configs.choices import KernelPreference, ScaleCalculationMode
from qconfig.configs.mx import MXDynamicActivationMXWeightConfig, check_mx_elements
from qconfig.versioning import Config, attribute, migration, register_config

from .torchao_values import KernelPreferenceV1

_BLOCK = "Elements of the last dimension that share a scale."
_ACTIVATION_DTYPE = "Element type of activations: float8_e4m3fn, float8_e5m2 or float4_e2m1fn_x2."
_WEIGHT_DTYPE = "Element type of weights: that of activations."


class MXGemmKernelChoiceV1(StrEnum):
    """Which kernel multiplied MX blocks up to torchao 0.14."""

    EMULATED = "EMULATED"
    CUTLASS = "CUTLASS"
    CUBLAS = "CUBLAS"


@register_config("MXDynamicActivationMXWeightConfig", 1)
@frozen
class MXDynamicActivationMXWeightConfigV1(Config):
    """MXFPInferenceConfig as torchao 0.12 to 0.14 wrote it."""

    block_size: int = attribute(_BLOCK, default=32, minimum=1, maximum=2**31 - 1)
    activation_dtype: DType = attribute(
        _ACTIVATION_DTYPE, default=DType.FLOAT8_E4M3FN, converter=DType.parse
    )
    weight_dtype: DType = attribute(
        _WEIGHT_DTYPE, default=DType.FLOAT8_E4M3FN, converter=DType.parse
    )
    gemm_kernel_choice: MXGemmKernelChoiceV1 = attribute(
        "Which kernel multiplies.", default=MXGemmKernelChoiceV1.CUBLAS
    )

    def __attrs_post_init__(self) -> None:
        """Check the element types. Raises FieldError."""
        check_mx_elements(self.activation_dtype, self.weight_dtype)


@register_config("MXDynamicActivationMXWeightConfig", 2)
@frozen
class MXDynamicActivationMXWeightConfigV2(Config):
    """MX weights and dynamic activations as torchao 0.15 wrote them."""

    block_size: int = attribute(_BLOCK, default=32, minimum=1, maximum=2**31 - 1)
    activation_dtype: DType = attribute(
        _ACTIVATION_DTYPE, default=DType.FLOAT8_E4M3FN, converter=DType.parse
    )
    weight_dtype: DType = attribute(
        _WEIGHT_DTYPE, default=DType.FLOAT8_E4M3FN, converter=DType.parse
    )
    kernel_preference: KernelPreferenceV1 = attribute(
        "Which of torchao's kernels to use.", default=KernelPreferenceV1.AUTO
    )
    scaling_mode: ScaleCalculationMode = attribute(
        "How the scale of a block is rounded; not a field of torchao 0.15, which used RCEIL.",
        default=ScaleCalculationMode.RCEIL,
    )

    def __attrs_post_init__(self) -> None:
        """Check the element types. Raises FieldError."""
        check_mx_elements(self.activation_dtype, self.weight_dtype)


@migration(drops="which of torch's two CUDA kernels multiplies")
def say_floor(old: MXDynamicActivationMXWeightConfigV1) -> MXDynamicActivationMXWeightConfigV2:
    """Say the rounding that was in use, FLOOR."""
    is_emulated = old.gemm_kernel_choice is MXGemmKernelChoiceV1.EMULATED
    return MXDynamicActivationMXWeightConfigV2(
        block_size=old.block_size,
        activation_dtype=old.activation_dtype,
        weight_dtype=old.weight_dtype,
        kernel_preference=KernelPreferenceV1.EMULATED if is_emulated else KernelPreferenceV1.AUTO,
        scaling_mode=ScaleCalculationMode.FLOOR,
    )


@migration()
def rename_kernels(old: MXDynamicActivationMXWeightConfigV2) -> MXDynamicActivationMXWeightConfig:
    """Keep all; FBGEMM is called MSLK."""
    was_fbgemm = old.kernel_preference is KernelPreferenceV1.FBGEMM
    return MXDynamicActivationMXWeightConfig(
        block_size=old.block_size,
        activation_dtype=old.activation_dtype,
        weight_dtype=old.weight_dtype,
        kernel_preference=KernelPreference("MSLK" if was_fbgemm else old.kernel_preference.value),
        scaling_mode=old.scaling_mode,
    )
