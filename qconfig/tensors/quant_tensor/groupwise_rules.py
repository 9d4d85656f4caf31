"""The rules of tensors with a grid for each group."""

from qconfig.tensors.quant_tensor.groupwise_arithmetic import GROUPWISE_ARITHMETIC
from qconfig.tensors.quant_tensor.groupwise_views import GROUPWISE_VIEWS
from qconfig.tensors.quant_tensor.int_convolutions import CONVOLUTIONS
from qconfig.tensors.quant_tensor.int_mean_pools import MEAN_POOLS
from qconfig.tensors.quant_tensor.int_products import PRODUCTS
from qconfig.tensors.quant_tensor.joins import INT_JOINS
from qconfig.tensors.quant_tensor.plain_rules import plain_rules
from qconfig.tensors.quant_tensor.rules import RuleTable
from qconfig.tensors.quant_tensor.selections import SELECTIONS

GROUPWISE_RULES = RuleTable(
    *GROUPWISE_ARITHMETIC,
    *plain_rules(*PRODUCTS, *CONVOLUTIONS, *INT_JOINS, *MEAN_POOLS, *SELECTIONS),
    *GROUPWISE_VIEWS,
)
