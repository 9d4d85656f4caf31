"""The rules of tensors with a grid for each group."""

from qconfig.tensors.quant_tensor.groupwise_arithmetic import GROUPWISE_ARITHMETIC
from qconfig.tensors.quant_tensor.groupwise_views import GROUPWISE_VIEWS
from qconfig.tensors.quant_tensor.rules import RuleTable

GROUPWISE_RULES = RuleTable(*GROUPWISE_ARITHMETIC, *GROUPWISE_VIEWS)
