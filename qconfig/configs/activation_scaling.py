"""Configs that scale activations before a base config quantizes: AWQ and SmoothQuant."""

from attrs import frozen

from qconfig.configs.choices import QuantizationStep
from qconfig.configs.fqn_to_config import FqnToConfig
from qconfig.configs.qat import QATConfig
from qconfig.configs.supported import check_supported, choice_of
from qconfig.errors import FieldError
from qconfig.versioning import Config, attribute, register_config

_BASE = "The config that quantizes the scaled weight."
_STEP = "Where torchao's calibration stands; carried."


@register_config("AWQConfig", 4)
@frozen
class AWQConfig(Config):
    """Scales of input channels that are searched for over calibration data, then a base config.

    Served are base configs whose tensors take an `act_pre_scale`.
    """

    base_config: Config = attribute(_BASE)
    step: QuantizationStep = attribute(
        _STEP, default=QuantizationStep.PREPARE, converter=choice_of(QuantizationStep)
    )
    scale_search_space_size: int = attribute(
        "How many exponents are tried.", default=20, minimum=1, maximum=2**31 - 1
    )

    def __attrs_post_init__(self) -> None:
        """Check the base config and the step. Raises FieldError."""
        check_base(self.base_config)
        check_supported(self.step, "step", AWQ_STEPS)


AWQ_STEPS = (
    QuantizationStep.PREPARE,
    QuantizationStep.CONVERT,
    QuantizationStep.PREPARE_FOR_LOADING,
)
"""Steps that AWQ has."""


@register_config("SmoothQuantConfig", 4)
@frozen
class SmoothQuantConfig(Config):
    """Outliers moved from activations to weights, channel by channel, then a base config.

    The factor of an input channel is `max|x| ** alpha / max|w| ** (1 - alpha)` (Xiao et al., 2022).
    Served are base configs whose tensors take an `act_pre_scale`.
    """

    base_config: Config = attribute(_BASE)
    step: QuantizationStep = attribute(
        _STEP, default=QuantizationStep.PREPARE, converter=choice_of(QuantizationStep)
    )
    alpha: float | None = attribute(
        "How much of the difficulty goes to the weight; null for no scaling.",
        default=0.5,
        minimum=0,
        maximum=1,
    )
    use_running_absmax: bool = attribute(
        "Whether torchao keeps running maxima in place of the inputs; carried.", default=False
    )

    def __attrs_post_init__(self) -> None:
        """Check the base config. Raises FieldError."""
        check_base(self.base_config)


def check_base(base: Config) -> None:
    """Check that a base config quantizes by itself. Raises FieldError."""
    if isinstance(base, AWQConfig | SmoothQuantConfig | QATConfig | FqnToConfig):
        raise FieldError(
            "base_config is not supported",
            pointer="/base_config",
            found=type(base).__name__,
            expected="a config that quantizes weights by itself, such as Int4WeightOnlyConfig",
        )
