"""The rules of tensors of small floats."""

from qconfig.tensors.quant_tensor.rules import RuleTable

FLOAT_RULES = RuleTable()
