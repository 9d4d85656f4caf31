"""NVFP4DynamicActivationNVFP4WeightConfig: without (1) and with (2) a step of calibration.

| ours | torchao releases | fields |
|---|---|---|
| 1 | 0.15 and 0.16 | use_triton_kernel, use_dynamic_per_tensor_scale |
| 2 | 0.17 and later | step beside them |
"""

from attrs import frozen

from qconfig.configs.nvfp4 import NVFP4DynamicActivationNVFP4WeightConfig
from qconfig.versioning import Config, attribute, migration, register_config


@register_config("NVFP4DynamicActivationNVFP4WeightConfig", 1)
@frozen
class NVFP4DynamicActivationNVFP4WeightConfigV1(Config):
    """NVFP4 weights and dynamic activations as torchao 0.15 and 0.16 wrote them."""

    use_triton_kernel: bool = attribute("Whether torchao uses its own kernel.", default=True)
    use_dynamic_per_tensor_scale: bool = attribute(
        "Whether a scale of the whole tensor is found beside those of the blocks.", default=True
    )


@migration()
def add_step(
    old: NVFP4DynamicActivationNVFP4WeightConfigV1,
) -> NVFP4DynamicActivationNVFP4WeightConfig:
    """Keep all; nothing is calibrated."""
    return NVFP4DynamicActivationNVFP4WeightConfig(
        use_triton_kernel=old.use_triton_kernel,
        use_dynamic_per_tensor_scale=old.use_dynamic_per_tensor_scale,
    )
