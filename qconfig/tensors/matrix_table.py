"""The operators that all packed weights share; modules of operators fill it when imported."""

from qconfig.tensors.common_ops import COMMON
from qconfig.tensors.dispatch import OperatorTable

MATRIX = OperatorTable(COMMON)
