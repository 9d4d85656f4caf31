"""Configs of the NVFP4 family (E2M1 codes, blocks of 16), current versions."""

from attrs import frozen

from qconfig.configs.choices import QuantizationStep
from qconfig.configs.supported import choice_of
from qconfig.errors import FieldError
from qconfig.versioning import Config, attribute, register_config

_PER_TENSOR = "Whether a scale of the whole tensor is found beside those of the blocks."


@register_config("NVFP4WeightOnlyConfig", 3)
@frozen
class NVFP4WeightOnlyConfig(Config):
    """E2M1 weights with a float8_e4m3fn scale for every 16; activations stay as they are.

    Served are linear weights whose K is divided by 16.
    """

    use_dynamic_per_tensor_scale: bool = attribute(_PER_TENSOR, default=True)


@register_config("NVFP4DynamicActivationNVFP4WeightConfig", 4)
@frozen
class NVFP4DynamicActivationNVFP4WeightConfig(Config):
    """E2M1 weights and activations with a float8_e4m3fn scale for every 16.

    Served are linear weights whose K is divided by 16. With a `step`, the activation's scale of
    the whole tensor is found by calibration; block scales are always found when activations come.
    """

    use_triton_kernel: bool = attribute(
        "Whether torchao uses its own kernel; carried.", default=True
    )
    use_dynamic_per_tensor_scale: bool = attribute(_PER_TENSOR, default=True)
    step: QuantizationStep | None = attribute(
        "Where calibration stands; null for scales that are found when activations come.",
        default=None,
        converter=choice_of(QuantizationStep),
    )

    def __attrs_post_init__(self) -> None:
        """Check that a scale is not both calibrated and dynamic. Raises FieldError."""
        if self.step is not None and self.use_dynamic_per_tensor_scale:
            raise FieldError(
                "a scale that is calibrated is not dynamic",
                pointer="/use_dynamic_per_tensor_scale",
                found=True,
                expected="false where step is set",
            )
