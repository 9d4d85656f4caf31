"""Operations that move values: for a shape, ways to call each of them."""

import torch
from hypothesis import strategies as st


def dims(draw, shape):
    """Return one dimension, from the front or from the end."""
    return draw(st.integers(-len(shape), len(shape) - 1))


def _reshape(draw, shape):
    parts = list(shape)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(parts)))
        if draw(st.booleans()) or len(parts) < 2:
            n = parts[at] if at < len(parts) else 1
            small = draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0] or [1]))
            parts[at : at + 1] = [small, n // small]
        else:
            at = min(at, len(parts) - 2)
            parts[at : at + 2] = [parts[at] * parts[at + 1]]
    new = tuple(parts)
    other = torch.zeros(new)
    return [
        lambda x: x.view(new),
        lambda x: x.view(*new),
        lambda x: x.view_as(other),
        lambda x: x.reshape(*new),
        lambda x: x.reshape_as(other),
        lambda x: torch.reshape(x, new),
        lambda x: torch.reshape(input=x, shape=new),
    ]


def _flatten(draw, shape):
    first = draw(st.integers(0, len(shape) - 1))
    last = draw(st.integers(first, len(shape) - 1))
    return [
        lambda x: x.flatten(first, last),
        lambda x: torch.flatten(x, start_dim=first, end_dim=last),
        torch.nn.Flatten(first, last),
        torch.ravel,
    ]


def _unflatten(draw, shape):
    dim = dims(draw, shape)
    n = shape[dim]
    first = draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0] or [1]))
    sizes = (first, n // first)
    return [lambda x: x.unflatten(dim, sizes), lambda x: torch.unflatten(x, dim, sizes)]


def _transpose(draw, shape):
    first, second = dims(draw, shape), dims(draw, shape)
    return [
        lambda x: x.transpose(first, second),
        lambda x: torch.transpose(x, dim0=first, dim1=second),
        lambda x: x.swapaxes(first, second),
        lambda x: torch.swapdims(x, first, second),
        lambda x: x.movedim(first, second),
        lambda x: torch.moveaxis(x, first, second),
    ]


def _permute(draw, shape):
    order = tuple(draw(st.permutations(range(len(shape)))))
    return [
        lambda x: x.permute(order),
        lambda x: x.permute(*order),
        lambda x: torch.permute(x, dims=order),
    ]


def _getters(draw, shape):
    forms = [lambda x: x.mT, lambda x: x.mH, lambda x: x.adjoint()] if len(shape) > 1 else []
    if len(shape) == 2:
        forms += [lambda x: x.T, lambda x: x.H]
    if len(shape) <= 2:
        forms += [lambda x: x.t(), torch.t]
    return forms


def _flip(draw, shape):
    dim = dims(draw, shape)
    forms = [lambda x: x.flip(dim), lambda x: torch.flip(x, dims=(dim,)), lambda x: x.flipud()]
    forms.append(reversed)
    if len(shape) > 1:
        forms += [torch.fliplr, torch.rot90, lambda x: x.rot90(2, (0, -1))]
    return forms


def _roll(draw, shape):
    dim, by = dims(draw, shape), draw(st.integers(-5, 5))
    return [lambda x: x.roll(by, dim), lambda x: torch.roll(x, shifts=(by,), dims=(dim,))]


def _roll_all(draw, shape):
    by = draw(st.integers(-5, 5))
    return [lambda x: x.roll(by), lambda x: torch.roll(x, shifts=by)]


def _squeeze(draw, shape):
    dim = dims(draw, shape)
    return [
        lambda x: x.squeeze(),
        lambda x: x.squeeze(dim),
        lambda x: torch.squeeze(x, dim=dim),
        lambda x: torch.squeeze(x, (dim,)),
    ]


def _unsqueeze(draw, shape):
    dim = draw(st.integers(-len(shape) - 1, len(shape)))
    return [lambda x: x.unsqueeze(dim), lambda x: torch.unsqueeze(x, dim=dim)]


def _expand(draw, shape):
    new = [draw(st.integers(1, 3)) if n == 1 else n for n in shape]
    new = (*draw(st.lists(st.integers(0, 3), max_size=2)), *new)
    other = torch.zeros(new)
    return [
        lambda x: x.expand(new),
        lambda x: x.expand(*new),
        lambda x: x.expand_as(other),
        lambda x: x.broadcast_to(new),
        lambda x: torch.broadcast_to(x, size=new),
    ]


def _repeat(draw, shape):
    counts = tuple(draw(st.integers(0, 3)) for _ in range(len(shape) + draw(st.integers(0, 2))))
    return [
        lambda x: x.repeat(counts),
        lambda x: x.repeat(*counts),
        lambda x: x.repeat(repeats=counts),
        lambda x: x.tile(counts),
        lambda x: torch.tile(x, dims=counts[1:] or (2,)),
    ]


def _interleave(draw, shape):
    dim, count = dims(draw, shape), draw(st.integers(0, 3))
    counts = torch.arange(shape[dim])
    return [
        lambda x: x.repeat_interleave(count, dim),
        lambda x: torch.repeat_interleave(x, counts, dim=dim),
    ]


KEEPING = {
    "transpose": _transpose,
    "permute": _permute,
    "T": _getters,
    "flip": _flip,
    "roll": _roll,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "expand": _expand,
    "repeat": _repeat,
    "repeat_interleave": _interleave,
}
"""Operations that keep the class, whatever metadata there is."""
BREAKING = {
    "reshape": _reshape,
    "flatten": _flatten,
    "unflatten": _unflatten,
    "roll all": _roll_all,
}
"""Operations that cannot move all metadata."""
