"""Operations that select values: for a shape, ways to call each of them."""

import torch
from hypothesis import strategies as st

from tests.tensors.quant_tensor.moves import dims


def entries(draw, shape, *, tensors=False):
    """Return an index: integers, slices, None, an ellipsis, and tensors if they may be there."""
    kinds = ["int", "slice", "all"] + (["tensor", "list", "mask"] if tensors else [])
    index = []
    for n in shape:
        if draw(st.booleans()) and draw(st.booleans()):
            index.append(None)
        kind = draw(st.sampled_from(kinds))
        if kind == "int" and n:
            index.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            start, stop = draw(st.none() | st.integers(-5, 5)), draw(st.none() | st.integers(-5, 5))
            index.append(slice(start, stop, draw(st.none() | st.integers(1, 2))))
        elif kind == "tensor" and n:
            places = torch.tensor([draw(st.integers(-n, n - 1)) for _ in range(2)])
            index.append(draw(st.sampled_from([places, places[:, None], places[0], places[:1]])))
        elif kind == "list" and n:
            index.append([draw(st.integers(0, n - 1))] * 2)
        elif kind == "mask" and n > 1:
            index.append(torch.arange(n) < 2)
        else:
            index.append(slice(None))
    cut = draw(st.integers(0, len(index)))
    if draw(st.booleans()):
        index = [*index[:cut], Ellipsis]
    return tuple(index)


def _index(draw, shape):
    index = entries(draw, shape)
    forms = [lambda x: x[index]]
    return forms + ([lambda x: x[index[0]]] if index else [])


def _index_tensors(draw, shape):
    index = entries(draw, shape, tensors=True)
    return [lambda x: x[index]]


def _mask(draw, shape):
    mask = torch.arange(torch.Size(shape).numel()).reshape(shape) % 3 == 0
    return [
        lambda x: x[mask],
        lambda x: x.masked_select(mask),
        lambda x: torch.masked_select(x, mask),
    ]


def _partial_mask(draw, shape):
    count = draw(st.integers(1, len(shape)))
    part = shape[:count]
    mask = torch.arange(torch.Size(part).numel()).reshape(part) % 2 == 0
    return [lambda x: x[mask], lambda x: x[mask.numpy()]]


def _select(draw, shape):
    dim = dims(draw, shape)
    if not shape[dim]:
        return []
    at = draw(st.integers(-shape[dim], shape[dim] - 1))
    return [lambda x: x.select(dim, at), lambda x: torch.select(x, dim=dim, index=at)]


def _narrow(draw, shape):
    dim = dims(draw, shape)
    start = draw(st.integers(0, shape[dim]))
    length = draw(st.integers(0, shape[dim] - start))
    first = start - shape[dim] if start < shape[dim] and draw(st.booleans()) else start
    return [
        lambda x: x.narrow(dim, first, length),
        lambda x: torch.narrow(x, dim=dim, start=first, length=length),
    ]


def _pieces(draw, shape):
    dim, count = dims(draw, shape), draw(st.integers(1, 3))
    sizes = [shape[dim] - shape[dim] // 2, shape[dim] // 2]
    return [
        lambda x: x.chunk(count, dim),
        lambda x: torch.chunk(x, count, dim=dim),
        lambda x: x.split(count, dim),
        lambda x: x.split(sizes, dim=dim),
        lambda x: torch.split(x, sizes, dim),
        lambda x: x.tensor_split(count, dim),
        lambda x: torch.tensor_split(x, (1, 2), dim=dim),
        lambda x: x.chunk(count),
    ]


def _split_along(draw, shape):
    return [
        lambda x: x.hsplit([1]),
        *([lambda x: torch.vsplit(x, [1])] if len(shape) > 1 else []),
        *([lambda x: x.dsplit((1, 2))] if len(shape) > 2 else []),
    ]


def _unbind(draw, shape):
    dim = dims(draw, shape)
    return [lambda x: x.unbind(dim), lambda x: torch.unbind(x, dim=dim), list, tuple]


def _index_select(draw, shape):
    dim = dims(draw, shape)
    if not shape[dim]:
        return []
    index = torch.tensor([0, shape[dim] - 1, 0])
    return [lambda x: x.index_select(dim, index), lambda x: torch.index_select(x, dim, index)]


def _gather(draw, shape):
    dim = dims(draw, shape)
    index = torch.zeros(shape, dtype=torch.long)
    return [
        lambda x: x.gather(dim, index),
        lambda x: torch.gather(x, dim=dim, index=index),
        lambda x: x.take_along_dim(index, dim),
        lambda x: torch.take_along_dim(x, index.flatten()),
        lambda x: torch.take(x, index),
    ]


SELECTING = {
    "index": _index,
    "index by tensors": _index_tensors,
    "mask": _mask,
    "mask of some dimensions": _partial_mask,
    "select": _select,
    "narrow": _narrow,
    "pieces": _pieces,
    "split along": _split_along,
    "unbind": _unbind,
    "index_select": _index_select,
    "gather": _gather,
}
"""Operations that keep the class, whatever metadata there is."""
