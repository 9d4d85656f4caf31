"""Configs of the MX family (blocks with power-of-two scales), current versions."""

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.configs.choices import KernelPreference, ScaleCalculationMode
from qconfig.configs.supported import check_supported, choice_of
from qconfig.errors import FieldError
from qconfig.versioning import Config, attribute, register_config

MX_ELEMENTS = (DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2, DType.FLOAT4_E2M1FN_X2)
"""Element types of MX blocks."""


@register_config("MXDynamicActivationMXWeightConfig", 3)
@frozen
class MXDynamicActivationMXWeightConfig(Config):
    """Weights and activations in MX blocks: float8 or float4 codes with an E8M0 scale a block.

    Served are linear weights whose K is divided by the block size, with equal element types of
    activation and weight.
    """

    block_size: int = attribute(
        "Elements of the last dimension that share a scale.",
        default=32,
        minimum=1,
        maximum=2**31 - 1,
    )
    activation_dtype: DType = attribute(
        "Element type of activations: float8_e4m3fn, float8_e5m2 or float4_e2m1fn_x2.",
        default=DType.FLOAT8_E4M3FN,
        converter=DType.parse,
    )
    weight_dtype: DType = attribute(
        "Element type of weights: that of activations.",
        default=DType.FLOAT8_E4M3FN,
        converter=DType.parse,
    )
    kernel_preference: KernelPreference = attribute(
        "Which of torchao's kernels to use; carried.",
        default=KernelPreference.AUTO,
        converter=choice_of(KernelPreference),
    )
    scaling_mode: ScaleCalculationMode = attribute(
        "How the scale of a block is rounded to a power of two.",
        default=ScaleCalculationMode.RCEIL,
        converter=choice_of(ScaleCalculationMode),
    )

    def __attrs_post_init__(self) -> None:
        """Check the element types. Raises FieldError."""
        check_mx_elements(self.activation_dtype, self.weight_dtype)


def check_mx_elements(activation: DType, weight: DType) -> None:
    """Check that activation and weight have one element type that MX blocks have.

    Raises:
        FieldError: they have not.
    """
    check_supported(activation, "activation_dtype", MX_ELEMENTS)
    check_supported(weight, "weight_dtype", MX_ELEMENTS)
    if activation is not weight:
        raise FieldError(
            "another element type than activation_dtype is not supported",
            pointer="/weight_dtype",
            found=weight.value,
            expected=activation.value,
        )
