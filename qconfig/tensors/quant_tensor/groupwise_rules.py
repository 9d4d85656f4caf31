"""The rules of tensors with a grid for each group."""

from qconfig.tensors.quant_tensor.rules import RuleTable

GROUPWISE_RULES = RuleTable()
