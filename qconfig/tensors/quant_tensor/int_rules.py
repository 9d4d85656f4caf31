"""The rules of tensors on a grid of integers."""

from qconfig.tensors.quant_tensor.int_arithmetic import ARITHMETIC
from qconfig.tensors.quant_tensor.rules import RuleTable

INT_RULES = RuleTable(*ARITHMETIC)
