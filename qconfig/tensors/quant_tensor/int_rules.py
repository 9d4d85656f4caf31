"""The rules of tensors on a grid of integers."""

from qconfig.tensors.quant_tensor.int_arithmetic import ARITHMETIC
from qconfig.tensors.quant_tensor.rules import RuleTable
from qconfig.tensors.quant_tensor.slicing import SLICING
from qconfig.tensors.quant_tensor.views import VIEWS

INT_RULES = RuleTable(*ARITHMETIC, *VIEWS, *SLICING)
