"""NVFP4DynamicActivationNVFP4WeightConfig: NVFP4InferenceConfig, then a name, then a step.

| ours | torchao releases | fields |
|---|---|---|
| 1 | 0.12 and 0.13, as NVFP4InferenceConfig with mm_config DYNAMIC | mm_config, use_triton_kernel |
| 2 | 0.14, as the same | use_dynamic_per_tensor_scale beside them |
| 3 | 0.15 and 0.16 | no mm_config |
| 4 | 0.17 and later | step |

NVFP4InferenceConfig with mm_config WEIGHT_ONLY is `NVFP4WeightOnlyConfig`.
"""

from attrs import frozen

from qconfig.configs.nvfp4 import NVFP4DynamicActivationNVFP4WeightConfig
from qconfig.configs.supported import check_supported
from qconfig.versioning import Config, attribute, migration, register_config

from .torchao_values import NVFP4MMConfigV1

_MM = "What is quantized besides weights: activations, when they come."
_TRITON = "Whether torchao uses its own kernel."
_PER_TENSOR = "Whether a scale of the whole tensor is found beside those of the blocks."
_DYNAMIC = (NVFP4MMConfigV1.DYNAMIC,)


@register_config("NVFP4DynamicActivationNVFP4WeightConfig", 1)
@frozen
class NVFP4DynamicActivationNVFP4WeightConfigV1(Config):
    """NVFP4InferenceConfig for dynamic activations as torchao 0.12 and 0.13 wrote it."""

    mm_config: NVFP4MMConfigV1 = attribute(_MM, default=NVFP4MMConfigV1.DYNAMIC)
    use_triton_kernel: bool = attribute(_TRITON, default=False)

    def __attrs_post_init__(self) -> None:
        """Check what is quantized. Raises FieldError."""
        check_supported(self.mm_config, "mm_config", _DYNAMIC)


@register_config("NVFP4DynamicActivationNVFP4WeightConfig", 2)
@frozen
class NVFP4DynamicActivationNVFP4WeightConfigV2(Config):
    """NVFP4InferenceConfig for dynamic activations as torchao 0.14 wrote it."""

    mm_config: NVFP4MMConfigV1 = attribute(_MM, default=NVFP4MMConfigV1.DYNAMIC)
    use_triton_kernel: bool = attribute(_TRITON, default=True)
    use_dynamic_per_tensor_scale: bool = attribute(_PER_TENSOR, default=True)

    def __attrs_post_init__(self) -> None:
        """Check what is quantized. Raises FieldError."""
        check_supported(self.mm_config, "mm_config", _DYNAMIC)


@register_config("NVFP4DynamicActivationNVFP4WeightConfig", 3)
@frozen
class NVFP4DynamicActivationNVFP4WeightConfigV3(Config):
    """NVFP4 weights and dynamic activations as torchao 0.15 and 0.16 wrote them."""

    use_triton_kernel: bool = attribute(_TRITON, default=True)
    use_dynamic_per_tensor_scale: bool = attribute(_PER_TENSOR, default=True)


@migration()
def say_no_per_tensor_scale(
    old: NVFP4DynamicActivationNVFP4WeightConfigV1,
) -> NVFP4DynamicActivationNVFP4WeightConfigV2:
    """Say that blocks alone had scales, as they had."""
    return NVFP4DynamicActivationNVFP4WeightConfigV2(
        use_triton_kernel=old.use_triton_kernel, use_dynamic_per_tensor_scale=False
    )


@migration()
def name_what_is_quantized(
    old: NVFP4DynamicActivationNVFP4WeightConfigV2,
) -> NVFP4DynamicActivationNVFP4WeightConfigV3:
    """Keep all: the name says what mm_config said."""
    return NVFP4DynamicActivationNVFP4WeightConfigV3(
        use_triton_kernel=old.use_triton_kernel,
        use_dynamic_per_tensor_scale=old.use_dynamic_per_tensor_scale,
    )


@migration()
def add_step(
    old: NVFP4DynamicActivationNVFP4WeightConfigV3,
) -> NVFP4DynamicActivationNVFP4WeightConfig:
    """Keep all; nothing is calibrated."""
    return NVFP4DynamicActivationNVFP4WeightConfig(
        use_triton_kernel=old.use_triton_kernel,
        use_dynamic_per_tensor_scale=old.use_dynamic_per_tensor_scale,
    )
