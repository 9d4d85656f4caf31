"""The rules of tensors of small floats."""

from qconfig.tensors.quant_tensor.float_arithmetic import FLOAT_ARITHMETIC
from qconfig.tensors.quant_tensor.int_convolutions import CONVOLUTIONS
from qconfig.tensors.quant_tensor.int_mean_pools import MEAN_POOLS
from qconfig.tensors.quant_tensor.int_products import PRODUCTS
from qconfig.tensors.quant_tensor.joins import FLOAT_JOINS
from qconfig.tensors.quant_tensor.plain_rules import plain_rules
from qconfig.tensors.quant_tensor.rules import RuleTable
from qconfig.tensors.quant_tensor.selections import SELECTIONS
from qconfig.tensors.quant_tensor.slicing import SLICING
from qconfig.tensors.quant_tensor.views import VIEWS

FLOAT_RULES = RuleTable(
    *FLOAT_ARITHMETIC,
    *plain_rules(*PRODUCTS, *CONVOLUTIONS, *MEAN_POOLS),
    *FLOAT_JOINS,
    *SELECTIONS,
    *VIEWS,
    *SLICING,
)
