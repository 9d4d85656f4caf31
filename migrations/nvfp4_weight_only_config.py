"""NVFP4WeightOnlyConfig: NVFP4InferenceConfig, then a name.

| ours | torchao releases | fields |
|---|---|---|
| 1 | 0.12 and 0.13, as NVFP4InferenceConfig with mm_config WEIGHT_ONLY | and use_triton_kernel |
| 2 | 0.14, as the same | use_dynamic_per_tensor_scale beside them |
| 3 | 0.15 and later | use_dynamic_per_tensor_scale alone |
"""

from attrs import frozen

from qconfig.configs.nvfp4 import NVFP4WeightOnlyConfig
from qconfig.configs.supported import check_supported
from qconfig.versioning import Config, attribute, migration, register_config

from .torchao_values import NVFP4MMConfigV1

_MM = "What is quantized besides weights: nothing."
_TRITON = "Whether torchao uses its own kernel for activations, of which there are none here."
_WEIGHT_ONLY = (NVFP4MMConfigV1.WEIGHT_ONLY,)


@register_config("NVFP4WeightOnlyConfig", 1)
@frozen
class NVFP4WeightOnlyConfigV1(Config):
    """NVFP4InferenceConfig for weights alone as torchao 0.12 and 0.13 wrote it."""

    mm_config: NVFP4MMConfigV1 = attribute(_MM, default=NVFP4MMConfigV1.WEIGHT_ONLY)
    use_triton_kernel: bool = attribute(_TRITON, default=False)
    use_dynamic_per_tensor_scale: bool = attribute(
        "Whether a scale of the whole tensor is found; not a field of torchao 0.12 and 0.13, which "
        "found none.",
        default=False,
    )

    def __attrs_post_init__(self) -> None:
        """Check what is quantized. Raises FieldError."""
        check_supported(self.mm_config, "mm_config", _WEIGHT_ONLY)


@register_config("NVFP4WeightOnlyConfig", 2)
@frozen
class NVFP4WeightOnlyConfigV2(Config):
    """NVFP4InferenceConfig for weights alone as torchao 0.14 wrote it."""

    mm_config: NVFP4MMConfigV1 = attribute(_MM, default=NVFP4MMConfigV1.WEIGHT_ONLY)
    use_triton_kernel: bool = attribute(_TRITON, default=True)
    use_dynamic_per_tensor_scale: bool = attribute(
        "Whether a scale of the whole tensor is found beside those of the blocks.", default=True
    )

    def __attrs_post_init__(self) -> None:
        """Check what is quantized. Raises FieldError."""
        check_supported(self.mm_config, "mm_config", _WEIGHT_ONLY)


@migration()
def say_no_per_tensor_scale(old: NVFP4WeightOnlyConfigV1) -> NVFP4WeightOnlyConfigV2:
    """Say whether blocks alone have scales, as they had."""
    return NVFP4WeightOnlyConfigV2(
        use_triton_kernel=old.use_triton_kernel,
        use_dynamic_per_tensor_scale=old.use_dynamic_per_tensor_scale,
    )


@migration(drops="use_triton_kernel, which says nothing where activations stay as they are")
def name_what_is_quantized(old: NVFP4WeightOnlyConfigV2) -> NVFP4WeightOnlyConfig:
    """Keep all else: the name says what mm_config said."""
    return NVFP4WeightOnlyConfig(use_dynamic_per_tensor_scale=old.use_dynamic_per_tensor_scale)
