"""The rules of tensors on a grid of integers."""

from qconfig.tensors.quant_tensor.int_arithmetic import ARITHMETIC
from qconfig.tensors.quant_tensor.int_convolutions import CONVOLUTIONS
from qconfig.tensors.quant_tensor.int_mean_pools import MEAN_POOLS
from qconfig.tensors.quant_tensor.int_products import PRODUCTS
from qconfig.tensors.quant_tensor.joins import INT_JOINS
from qconfig.tensors.quant_tensor.rules import RuleTable
from qconfig.tensors.quant_tensor.selections import SELECTIONS
from qconfig.tensors.quant_tensor.slicing import SLICING
from qconfig.tensors.quant_tensor.views import VIEWS

INT_RULES = RuleTable(
    *ARITHMETIC,
    *PRODUCTS,
    *CONVOLUTIONS,
    *INT_JOINS,
    *MEAN_POOLS,
    *SELECTIONS,
    *VIEWS,
    *SLICING,
)
