"""Rules of operations that other classes have a rule for, and this one has none."""

from qconfig.tensors.quant_tensor.calls import plain
from qconfig.tensors.quant_tensor.rules import Rule


def plain_rules(*rules: Rule) -> tuple[Rule, ...]:
    """Return rules by which the same operations give plain tensors."""
    return tuple(Rule(rule.operation, rule.functions, plain, {}, "plain") for rule in rules)
