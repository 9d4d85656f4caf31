"""Fake quantization as plain functions: statistics, scales, zero points, codes and back.

They consist of torch's operators only and branch on nothing that a tensor holds, so that autograd,
`torch.compile` and fake tensors go through them. Results are those of Brevitas 0.13.4, bit for bit;
`docs/quant-tensors-configs.md` has the exceptions.
"""

from qconfig.tensors.quantizers.clamping import clamp
from qconfig.tensors.quantizers.groups import from_groups, to_groups
from qconfig.tensors.quantizers.integers import code_bounds, quantize_int
from qconfig.tensors.quantizers.minifloats import quantize_float
from qconfig.tensors.quantizers.rounding import rounded
from qconfig.tensors.quantizers.scales import (
    at_least,
    float_levels,
    int_levels,
    restricted,
    scale_of,
    stored_threshold,
)
from qconfig.tensors.quantizers.statistics import lowest, scale_statistic, statistics_view
from qconfig.tensors.quantizers.weights import (
    bit_width_of,
    first_threshold,
    first_zero_point,
    quantize_by_slabs,
    quantize_weight,
)
from qconfig.tensors.quantizers.zero_points import shifted_zero_point

__all__ = [
    "at_least",
    "bit_width_of",
    "clamp",
    "code_bounds",
    "first_threshold",
    "first_zero_point",
    "float_levels",
    "from_groups",
    "int_levels",
    "lowest",
    "quantize_by_slabs",
    "quantize_float",
    "quantize_int",
    "quantize_weight",
    "restricted",
    "rounded",
    "scale_of",
    "scale_statistic",
    "shifted_zero_point",
    "statistics_view",
    "stored_threshold",
    "to_groups",
]
