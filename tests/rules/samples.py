"""Short ways to write rules and targets in tests."""

from qconfig.builders.base import Target
from qconfig.codec.dtypes import DType
from qconfig.configs import FqnToConfig, Int8WeightOnlyConfig, Precedence, Rule
from qconfig.rules.assignment import Assignment
from qconfig.rules.matcher import RuleSet

INT8 = Int8WeightOnlyConfig()
NAMES = ("w4", "w8")


def target(fqn, *classes, shape=(8, 8)):
    """Return a float32 target, by default of a Linear."""
    return Target(fqn, shape, DType.FLOAT32, classes or ("Linear", "Module"))


def document(*rules, default=None, precedence=Precedence.DECLARED, **more):
    """Return an FqnToConfig of Rules, or of pairs of match and use."""
    return FqnToConfig(
        configs=dict.fromkeys(NAMES, INT8),
        rules=tuple(r if isinstance(r, Rule) else Rule(*r) for r in rules),
        default=default,
        precedence=precedence,
        **more,
    )


def assign(config, *targets) -> Assignment:
    """Return the assignment of targets, given as such or by name."""
    return RuleSet(config).assign([target(t) if isinstance(t, str) else t for t in targets])


def given(config, *targets):
    """Return the name of the config that each target gets."""
    return [d.config for d in assign(config, *targets).decisions]
