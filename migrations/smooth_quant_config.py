"""SmoothQuantConfig: calibrated tensors, then a base config with steps.

| ours | torchao releases | what was new |
|---|---|---|
| 1 | 0.10 to 0.13 | – |
| 2 | 0.14 and 0.15 | base_config, step (SmoothQuantStep) and alpha in their place |
| 3 | 0.16 and 0.17 | step is a QuantizationStep |
| 4 | 0.18 | use_running_absmax |
"""

from enum import StrEnum
from typing import Any

from attrs import frozen

from qconfig.codec.tensor_values import TensorValue
from qconfig.configs.activation_scaling import SmoothQuantConfig, check_base
from qconfig.configs.choices import QuantizationStep
from qconfig.configs.int8 import Int8DynamicActivationInt8WeightConfig
from qconfig.configs.supported import choice_of
from qconfig.configs.tensor_settings import tensor_setting
from qconfig.errors import MigrationError
from qconfig.versioning import Config, attribute, migration, register_config

_BASE = "The config that quantizes the scaled weight."
_STEP = "Where torchao's calibration stands."
_ALPHA = "How much of the difficulty goes to the weight; null for no scaling."


class SmoothQuantStepV1(StrEnum):
    """Where SmoothQuant stood up to torchao 0.15."""

    PREPARE = "PREPARE"
    CONVERT = "CONVERT"
    PREPARE_FOR_LOADING = "PREPARE_FOR_LOADING"


def smooth_quant_step_of(value: Any) -> Any:
    """Return the SmoothQuantStepV1 that torchao's string names, else `value`."""
    if type(value) is str and value.upper() in SmoothQuantStepV1.__members__:
        return SmoothQuantStepV1[value.upper()]
    return value


@register_config("SmoothQuantConfig", 1)
@frozen
class SmoothQuantConfigV1(Config):
    """Int8 weights and activations of one layer, smoothed, as torchao 0.10 to 0.13 had them."""

    smoothing_factor: TensorValue | None = tensor_setting(
        "Factor of each input channel; null for none."
    )
    act_scales: TensorValue | None = tensor_setting(
        "Static scale of activations; null for dynamic ones."
    )
    wei_scales: TensorValue | None = tensor_setting(
        "Scales of weights; null for those of the weight."
    )
    set_inductor_config: bool = attribute("A switch of torchao's.", default=True)


@register_config("SmoothQuantConfig", 2)
@frozen
class SmoothQuantConfigV2(Config):
    """SmoothQuant over a base config as torchao 0.14 and 0.15 wrote it."""

    base_config: Config = attribute(_BASE)
    step: SmoothQuantStepV1 = attribute(
        _STEP, default=SmoothQuantStepV1.PREPARE, converter=smooth_quant_step_of
    )
    alpha: float | None = attribute(_ALPHA, default=0.5, minimum=0, maximum=1)

    def __attrs_post_init__(self) -> None:
        """Check the base config. Raises FieldError."""
        check_base(self.base_config)


@register_config("SmoothQuantConfig", 3)
@frozen
class SmoothQuantConfigV3(Config):
    """SmoothQuant over a base config as torchao 0.16 and 0.17 wrote it."""

    base_config: Config = attribute(_BASE)
    step: QuantizationStep = attribute(
        _STEP, default=QuantizationStep.PREPARE, converter=choice_of(QuantizationStep)
    )
    alpha: float | None = attribute(_ALPHA, default=0.5, minimum=0, maximum=1)

    def __attrs_post_init__(self) -> None:
        """Check the base config. Raises FieldError."""
        check_base(self.base_config)


@migration()
def say_base_config(old: SmoothQuantConfigV1) -> SmoothQuantConfigV2:
    """Say int8 weights and activations as a base config; refuse results of a calibration."""
    for name in ("smoothing_factor", "act_scales", "wei_scales"):
        value = getattr(old, name)
        if value is not None:
            raise MigrationError(
                "results of one layer's calibration have no place in the config any more",
                pointer=f"/{name}",
                found=tuple(value.shape),
                expected="null",
                hint="calibrate again, or upgrade the checkpoint in place of the config",
            )
    return SmoothQuantConfigV2(
        base_config=Int8DynamicActivationInt8WeightConfig(
            set_inductor_config=old.set_inductor_config
        ),
        step=SmoothQuantStepV1.CONVERT,
        alpha=None,
    )


@migration()
def rename_step(old: SmoothQuantConfigV2) -> SmoothQuantConfigV3:
    """Keep all; the step is of another enum."""
    return SmoothQuantConfigV3(
        base_config=old.base_config, step=QuantizationStep(old.step.value), alpha=old.alpha
    )


@migration()
def add_running_absmax(old: SmoothQuantConfigV3) -> SmoothQuantConfig:
    """Keep all; inputs are kept whole, as they were."""
    return SmoothQuantConfig(base_config=old.base_config, step=old.step, alpha=old.alpha)
