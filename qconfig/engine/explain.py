"""Say for one name which rule decides, whether it is a module or a parameter."""

from qconfig.builders.base import Target
from qconfig.codec.dtypes import DType
from qconfig.engine.targets import inferred_class
from qconfig.rules.explain import Explanation, explain
from qconfig.rules.matcher import rules_of
from qconfig.versioning import Config

_PARAMETERS = ("weight", "bias")


def explain_name(fqn: str, config: Config, module_class: str | None) -> Explanation:
    """Return why a name gets its config.

    A name that ends in weight or bias is a parameter's; any other is taken for a module's and
    stands for its `weight`.

    Raises:
        RuleError: a pattern that cannot be used.
    """
    name = fqn if fqn.endswith(_PARAMETERS) else f"{fqn}.weight"
    classes = (module_class,) if module_class else inferred_class(name, 2)
    return explain(rules_of(config), Target(name, (), DType.FLOAT32, classes))
