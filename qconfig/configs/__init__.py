"""Current config classes, one family a file."""

from qconfig.configs.fqn_to_config import FqnToConfig, Precedence, Rule
from qconfig.configs.granularity import (
    AnyGranularity,
    Granularity,
    PerAxis,
    PerBlock,
    PerGroup,
    PerRow,
    PerTensor,
    PerToken,
)
from qconfig.configs.int8 import Int8WeightOnlyConfig

__all__ = [
    "AnyGranularity",
    "FqnToConfig",
    "Granularity",
    "Int8WeightOnlyConfig",
    "PerAxis",
    "PerBlock",
    "PerGroup",
    "PerRow",
    "PerTensor",
    "PerToken",
    "Precedence",
    "Rule",
]
