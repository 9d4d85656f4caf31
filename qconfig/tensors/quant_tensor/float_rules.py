"""The rules of tensors of small floats."""

from qconfig.tensors.quant_tensor.float_arithmetic import FLOAT_ARITHMETIC
from qconfig.tensors.quant_tensor.joins import FLOAT_JOINS
from qconfig.tensors.quant_tensor.rules import RuleTable
from qconfig.tensors.quant_tensor.selections import SELECTIONS
from qconfig.tensors.quant_tensor.slicing import SLICING
from qconfig.tensors.quant_tensor.views import VIEWS

FLOAT_RULES = RuleTable(*FLOAT_ARITHMETIC, *FLOAT_JOINS, *SELECTIONS, *VIEWS, *SLICING)
