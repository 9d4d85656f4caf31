"""Current config classes, one family a file."""

from qconfig.configs.fqn_to_config import FqnToConfig, Precedence, Rule
from qconfig.configs.granularity import (
    Granularity,
    PerAxis,
    PerGroup,
    PerRow,
    PerTensor,
)
from qconfig.configs.int8 import Int8WeightOnlyConfig

__all__ = [
    "FqnToConfig",
    "Granularity",
    "Int8WeightOnlyConfig",
    "PerAxis",
    "PerGroup",
    "PerRow",
    "PerTensor",
    "Precedence",
    "Rule",
]
