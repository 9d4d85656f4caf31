"""In which processor's order int4 codes lie: no file says it, but weights show it.

Orders differ in which rows share a byte: read in a wrong one, whole groups of codes come to the
scale and zero point of another row. Weights of a group lie around 0, so that the mean of its codes
is near the code of 0, which is `8 - zero / scale`; with another row's it is not.

A checkpoint was written on one processor, so that a few of its layers show the order of all.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import attrs
from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.first_rows import first_rows
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.stored import Stored
from qconfig.layouts.int4_packing import CpuInt4Order, cpu_orders_agree, unpack_cpu_int4

_MOST_ROWS = 256
"""Rows that are looked at: whole tiles in every order."""
_CLEARLY = 1.25
"""How many times as far from 0 the next best order must be."""
_ENOUGH_LAYERS = 3
"""Layers that show an order are looked for until there are so many."""
_MOST_LAYERS = 16
"""So many layers are looked at; both numbers are of layers that tell the same orders apart."""
_FARTHEST = 1e6
_CODES = {"Int4CPUAQTTensorImpl": "packed_weight", "Int4OpaqueTensor": "qdata"}
_FOUND = (
    "order of codes: the file does not say for which processor they are packed; for all layers of "
    "the checkpoint taken is {order}, in which the means of groups of those that were looked at "
    "({layers}) are {ratio:.1f} times as near to 0 as in any other"
)
_UNKNOWN = (
    "order of codes: the file does not say for which processor they are packed, and the weights "
    "that were looked at do not show it; taken is {order}, another would give other values"
)


@frozen
class Packed:
    """Int4 codes that a processor packed.

    Args:
        codes: (N, K/2) bytes.
        pairs: scale and zero point of each group, (K/g, N, 2).
    """

    codes: LazyTensor
    pairs: LazyTensor

    def is_sound(self) -> bool:
        """Return whether the shapes are those of a matrix and of its groups."""
        if len(self.codes.shape) != 2 or len(self.pairs.shape) != 3:
            return False
        (rows, half), (groups, *rest) = self.codes.shape, self.pairs.shape
        whole = half and groups and not 2 * half % groups and not rows % 2
        is_bytes = self.codes.dtype in (DType.UINT8, DType.INT8)
        return bool(whole) and rest == [rows, 2] and is_bytes and self.pairs.dtype.is_float


def packed_in(stored: Iterable[Stored]) -> Iterator[Packed]:
    """Yield the codes that a processor packed in some tensors, wrapped ones among them."""
    inside = list(stored)[::-1]
    while inside:
        found = inside.pop()
        fields = found.fields
        codes, pairs = fields.get(_CODES.get(found.name, "")), fields.get("scale_and_zero")
        if isinstance(codes, LazyTensor) and isinstance(pairs, LazyTensor):
            packed = Packed(codes, pairs)
            if packed.is_sound():
                yield packed
        inside += [value for value in fields.values() if isinstance(value, Stored)]


class CpuOrders:
    """What the weights of a checkpoint show of the processor that packed them.

    A few of them are looked at, when somebody first asks.

    Args:
        weights: all that processors packed.
    """

    def __init__(self, weights: Iterable[Packed]) -> None:
        self._weights = weights
        self._distances: dict[CpuInt4Order, float] | None = None
        self._layers = 0

    def of(self, rows: int) -> tuple[CpuInt4Order, tuple[str, ...]]:
        """Return the order of a weight with so many rows, and what to say of that.

        Raises:
            ContainerError or StorageError: a file cannot be read any more.
        """
        alike = _told_apart(rows)
        if len(alike) == 1:
            return alike[0][0], ()
        if self._distances is None:
            self._distances = self._looked_at()
        distances = self._distances
        scores = [min(distances[order] for order in orders) for orders in alike]
        best, second = sorted(scores)[:2]
        order = alike[scores.index(best)][0]
        if not second > _CLEARLY * best:
            return order, (_UNKNOWN.format(order=order.value),)
        note = _FOUND.format(order=order.value, ratio=second / best, layers=self._layers)
        return order, (note,)

    def _looked_at(self) -> dict[CpuInt4Order, float]:
        """Return how far from 0 means are in each order, summed, with the nearest at 1 each."""
        total = dict.fromkeys(CpuInt4Order, 0.0)
        seen: dict[Any, list[bool]] = {}
        for weight in self._weights:
            alike = _told_apart(weight.codes.shape[0])
            shown = seen.setdefault(alike, [])
            if len(alike) == 1 or sum(shown) == _ENOUGH_LAYERS or len(shown) == _MOST_LAYERS:
                continue
            distances = _distances(weight, alike)
            best, second = sorted(distances.values())[:2]
            shown.append(second > _CLEARLY * best)
            if shown[-1]:
                self._layers += 1
                for orders in alike:
                    distance = distances[orders[0]]
                    ratio = min(distance / best, _FARTHEST) if best else _FARTHEST
                    for order in orders:
                        total[order] += ratio if distance > best else 1
        return total


def with_cpu_order(layout: Any, packed: Any, orders: CpuOrders) -> tuple[Any, tuple[str, ...]]:
    """Return a layout with the order that its checkpoint shows, and what to say of that.

    Args:
        layout: a version of Int4OpaqueTensorLayout.
        packed: its codes, (N, K/2).
        orders: what the weights of its checkpoint show.
    """
    if 0 in packed.shape:
        return layout, ()
    order, notes = orders.of(packed.shape[0])
    if order is layout.cpu_order:
        return layout, notes
    return attrs.evolve(layout, cpu_order=order), notes


def _told_apart(rows: int) -> tuple[tuple[CpuInt4Order, ...], ...]:
    """Return the orders of a matrix with so many rows; those that agree stand together."""
    # All orders have whole tiles in 64 rows.
    return _groups(rows if rows < 128 else 64 + rows % 64)


@cache
def _groups(rows: int) -> tuple[tuple[CpuInt4Order, ...], ...]:
    groups: list[list[CpuInt4Order]] = []
    for order in CpuInt4Order:
        group = next((g for g in groups if cpu_orders_agree(rows, order, g[0])), None)
        if group is None:
            groups.append([order])
        else:
            group.append(order)
    return tuple(map(tuple, groups))


def _distances(
    weight: Packed, alike: tuple[tuple[CpuInt4Order, ...], ...]
) -> dict[CpuInt4Order, float]:
    """Return the distances, in codes, between the means of groups and their codes of 0, summed."""
    import torch

    packed = first_rows(weight.codes, _MOST_ROWS)
    pairs = weight.pairs.load()[:, : packed.shape[0]]
    scale, zero = pairs.float().unbind(-1)
    # HQQ of 0.8 and 0.9 stored the code of 0 itself as zero point.
    tries: list[dict[CpuInt4Order, float]] = [{}, {}]
    for order, *_ in alike:
        codes = unpack_cpu_int4(packed.view(torch.uint8), order).float()
        means = codes.view(*scale.t().shape, -1).mean(-1)  # (N, K/g)
        for distances, center in zip(tries, (8 - zero / scale, zero), strict=True):
            far = (means - center.t()).abs()
            distances[order] = float(far[far.isfinite()].sum())
    return min(tries, key=lambda distances: min(distances.values()))
