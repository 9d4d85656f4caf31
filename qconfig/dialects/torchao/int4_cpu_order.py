"""Which processor packed int4 codes for a CPU: the file does not say, but its numbers can.

Quantized rows lie about zero, so a group's zero point says what its codes are on average. In the
order of the writer both go together; in another one, codes stand beside other rows' zero points.
For each order the correlation, over all groups, of the mean code with the code of the value 0 is
taken: `-zero / scale`, or `zero` itself, where a release before 0.10 stored HQQ's zero points,
which are codes. In the corpus of real files it is above 0.95 for the right order and below 0.2 for
all others.
"""

from typing import TYPE_CHECKING

from attrs import frozen

from qconfig.layouts.int4_packing import CpuInt4Order, cpu_orders_agree, unpack_cpu_int4

if TYPE_CHECKING:
    import torch

_MOST_ROWS = 512
_LEAST = 0.4
_LEAD = 2.0
_SIGMAS = 5.0


@frozen
class FoundOrder:
    """The order to take, and how well it is known.

    Args:
        order: the order; AVX512, of most servers, if nothing speaks for another.
        is_certain: whether all known orders put these codes at the same places.
        correlation: of the codes and zero points in that order; None if they were not decisive.
    """

    order: CpuInt4Order
    is_certain: bool = False
    correlation: float | None = None


def find_cpu_order(packed: "torch.Tensor", scale_and_zero: "torch.Tensor") -> FoundOrder:
    """Find the order of the codes of a matrix.

    Args:
        packed: uint8, (N, K/2), contiguous.
        scale_and_zero: floating point, (K/g, N, 2).
    """
    rows = packed.shape[0]
    default = CpuInt4Order.AVX512
    if all(cpu_orders_agree(rows, default, other) for other in CpuInt4Order):
        return FoundOrder(default, is_certain=True)
    # The first tiles of every order are the first bytes: tiles of 16, 32 and 64 rows divide this.
    head, pairs = packed[:_MOST_ROWS], scale_and_zero[:, :_MOST_ROWS].double()
    found = {order: _correlation(head, pairs, order) for order in CpuInt4Order}
    best = max(CpuInt4Order, key=found.__getitem__)
    others = [
        found[order] for order in CpuInt4Order if not cpu_orders_agree(head.shape[0], best, order)
    ]
    # Chance correlates n numbers by about one over the root of n.
    least = max(_LEAST, _SIGMAS * pairs[..., 0].numel() ** -0.5, _LEAD * max(others, default=0.0))
    if found[best] < least:
        return FoundOrder(default)
    return FoundOrder(best, correlation=found[best])


def _correlation(
    packed: "torch.Tensor", scale_and_zero: "torch.Tensor", order: CpuInt4Order
) -> float:
    import torch

    codes = unpack_cpu_int4(packed, order)
    means = codes.view(codes.shape[0], scale_and_zero.shape[0], -1).double().mean(-1).t()
    scale, zero = scale_and_zero.unbind(-1)
    results = []
    for expected in (-zero / scale, zero):
        both = torch.stack((means.flatten(), expected.flatten()))
        both = both[:, both.isfinite().all(0)]
        both = both - both.mean(1, keepdim=True)
        norms = both.norm(dim=1).prod()
        results.append(float(both.prod(0).sum() / norms) if norms > 0 else 0.0)
    return max(results)
