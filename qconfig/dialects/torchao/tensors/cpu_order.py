"""In which processor's order int4 codes lie: no file says it, but weights show it.

Orders differ in which rows share a byte: read in a wrong one, whole groups of codes come to the
scale and zero point of another row. Weights of a group lie around 0, so that the mean of its codes
is near the code of 0, which is `8 - zero / scale`; with another row's it is not.
"""

from typing import TYPE_CHECKING, Any

import attrs

from qconfig.layouts.int4_packing import CpuInt4Order, cpu_orders_agree, unpack_cpu_int4

if TYPE_CHECKING:
    import torch

_MOST_ROWS = 256
"""Rows that are looked at: whole tiles in every order."""
_CLEARLY = 1.25
"""How many times as far from 0 the next best order must be."""
_FOUND = (
    "order of codes: the file does not say for which processor they are packed; taken is {order}, "
    "in which the means of groups are {ratio:.1f} times as near to 0 as in any other"
)
_UNKNOWN = (
    "order of codes: the file does not say for which processor they are packed, and the weights do "
    "not show it; taken is {order}, another would give other values"
)


def with_cpu_order(layout: Any, packed: Any) -> tuple[Any, tuple[str, ...]]:
    """Return a layout with the order that its weights show, and what to say of that.

    Args:
        layout: a version of Int4OpaqueTensorLayout, with tensors that can be read.
        packed: its codes, (N, K/2).
    """
    rows = packed.shape[0]
    orders: list[CpuInt4Order] = []
    for order in CpuInt4Order:
        if not any(cpu_orders_agree(rows, order, other) for other in orders):
            orders.append(order)
    if len(orders) == 1:
        return layout, ()
    if not packed.shape[1] or len(layout.scale_and_zero.shape) != 3:
        return layout, ()
    distances = _distances(packed.load(), layout.scale_and_zero.load(), orders)
    best, second = sorted(distances.values())[:2]
    if not second > _CLEARLY * best:
        return layout, (_UNKNOWN.format(order=layout.cpu_order.value),)
    order = min(distances, key=lambda o: distances[o])
    ratio = second / best if best else float("inf")
    note = _FOUND.format(order=order.value, ratio=ratio)
    return attrs.evolve(layout, cpu_order=order), (note,)


def _distances(
    packed: "torch.Tensor", pairs: "torch.Tensor", orders: list[CpuInt4Order]
) -> dict[CpuInt4Order, float]:
    """Return the distances, in codes, between the means of groups and their codes of 0, summed."""
    import torch

    if packed.shape[0] > _MOST_ROWS:
        packed, pairs = packed[:_MOST_ROWS], pairs[:, :_MOST_ROWS]
    scale, zero = pairs.float().unbind(-1)
    # HQQ of 0.8 and 0.9 stored the code of 0 itself as zero point.
    tries: list[dict[CpuInt4Order, float]] = [{}, {}]
    for order in orders:
        codes = unpack_cpu_int4(packed.view(torch.uint8), order).float()
        means = codes.view(*scale.t().shape, -1).mean(-1)  # (N, K/g)
        for distances, center in zip(tries, (8 - zero / scale, zero), strict=True):
            far = (means - center.t()).abs()
            distances[order] = float(far[far.isfinite()].sum())
    return min(tries, key=lambda distances: min(distances.values()))
