"""Say for one name which rule decides, whether it is a module or a parameter."""

from qconfig.builders.base import Target
from qconfig.codec.dtypes import DType
from qconfig.configs.fqn_to_config import FqnToConfig
from qconfig.engine.targets import inferred_class
from qconfig.rules.explain import Explanation, explain
from qconfig.versioning import Config

_PARAMETERS = ("weight", "bias")


def explain_name(fqn: str, config: Config, module_class: str | None) -> Explanation:
    """Return why a name gets its config; the name of a module stands for its `weight`.

    Raises:
        RuleError: a pattern that cannot be used.
    """
    leaf = fqn.rpartition(".")[2]
    name = fqn if leaf in _PARAMETERS else f"{fqn}.weight"
    classes = (module_class,) if module_class else inferred_class(name, 2)
    rules = config if isinstance(config, FqnToConfig) else as_default(config)
    return explain(rules, Target(name, (), DType.FLOAT32, classes))


def as_default(config: Config) -> FqnToConfig:
    """Return one config for every Linear as an FqnToConfig."""
    return FqnToConfig(configs={"default": config}, default="default")
