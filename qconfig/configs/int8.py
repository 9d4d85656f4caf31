"""Configs of the int8 family, current versions. Retired ones lie in `qconfig.migrations`."""

from attrs import frozen

from qconfig.configs.granularity import Granularity, PerRow
from qconfig.versioning import Config, attribute, register_config


@register_config("Int8WeightOnlyConfig", 3)
@frozen
class Int8WeightOnlyConfig(Config):
    """Int8 weights with floating-point scales; activations stay as they are.

    Codes are symmetric: `scale = max|w| / 127.5`, `q = clamp(round(w / scale), -128, 127)`, as in
    torchao 0.18.
    """

    granularity: Granularity = attribute(
        "Which weights share a scale.",
        factory=PerRow,
    )
    set_inductor_config: bool = attribute(
        "A switch of torchao's, carried so that a document returns to torchao unchanged.",
        default=True,
    )
