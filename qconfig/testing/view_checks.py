"""Checks of views, cuts and joins: the values of the float tensor, or a refusal."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from qconfig.errors import LayoutError, UnsupportedOperationError
from qconfig.testing.subject import Subject, equal_packed, has_no_views, require


def transpositions(subject: Subject) -> None:
    """`t` and `transpose` have the values of the float tensor, and twice is once back."""
    tensor = subject.build()
    if has_no_views(tensor, lambda t: t.t(), lambda t: t.transpose(0, 1)):
        return
    values = tensor.dequantize()
    for name, found in (("t", tensor.t()), ("transpose", tensor.transpose(0, 1))):
        require(torch.equal(found.dequantize(), values.t()), f"{name} has other values")
        require(found.stride() == values.t().stride(), f"{name} shows strides {found.stride()}")
        require(equal_packed(found.t(), tensor), f"{name} twice is another tensor")


def slices(subject: Subject) -> None:
    """A slice along either dimension has the values of the float slice, or raises."""
    tensor = subject.build()
    for dim in (0, 1, -1):
        size = tensor.shape[dim]
        bounds = sorted({0, 1, size // 4, size // 2, size - 1, size})
        for start, stop in ((a, b) for a in bounds for b in bounds if a <= b):
            cut = partial(torch.narrow, dim=dim, start=start, length=stop - start)
            _same_or_refused(tensor, cut, f"narrow({dim}, {start}, {stop - start})")


def rows_are_cut(subject: Subject) -> None:
    """Rows can be split and chunked in quarters, and quarters put together again."""
    tensor, quarter = subject.build(), subject.shape[0] // 4
    if has_no_views(tensor, lambda t: t[:quarter], lambda t: t.chunk(4)):
        return
    values = tensor.dequantize()
    _require_values(tensor[:quarter], values[:quarter], "the first rows")
    for name, parts in (
        ("split", tensor.split(quarter)),
        ("split by sizes", tensor.split([quarter, 3 * quarter])),
        ("chunk", tensor.chunk(4)),
        ("chunk with dim by keyword", torch.chunk(tensor, 4, dim=0)),
    ):
        require(torch.equal(torch.cat([p.dequantize() for p in parts]), values), name)
    _require_values(torch.cat(tensor.chunk(4)), values, "cat of four quarters")


def cuts_and_joins(subject: Subject) -> None:
    """Split, chunk, select, index and cat have the values of the float tensor, or raise."""
    tensor = subject.build()
    rows = torch.tensor([0, subject.shape[0] - 1, 0])
    operations: dict[str, Callable[[Any], Any]] = {
        "columns in halves": lambda t: t.chunk(2, dim=1)[1],
        "columns in quarters": lambda t: t.split(t.shape[1] // 4, dim=-1)[0],
        "every second row": lambda t: t[::2],
        "an index": lambda t: t[rows],
        "index_select": lambda t: t.index_select(0, rows),
        "a column index": lambda t: t[:, rows % t.shape[1]],
        "select of a row": lambda t: t[1],
        "select of a column": lambda t: t.select(1, 0),
        "cat of rows": lambda t: torch.cat([t, t]),
        "cat of columns": lambda t: torch.cat([t, t], dim=1),
        "stack": lambda t: torch.stack([t, t]),
        "an open end": lambda t: t[1:],
        "a huge end": lambda t: t[:, : 2**62],
        "no rows": lambda t: t[:0],
    }
    for name, operation in operations.items():
        _same_or_refused(tensor, operation, name)


def shapes(subject: Subject) -> None:
    """Views that add or remove leading ones have the values of the float tensor."""
    tensor = subject.build()
    n, k = subject.shape
    if has_no_views(tensor, lambda t: t.unsqueeze(0), lambda t: t.reshape(1, n, k)):
        return
    _require_values(tensor.view(n, k), tensor.dequantize(), "view of the same shape")
    _require_values(tensor.reshape(1, n, k), tensor.dequantize()[None], "reshape")
    _require_values(tensor.unsqueeze(0), tensor.dequantize()[None], "unsqueeze")
    _require_values(tensor.unsqueeze(0).squeeze(0), tensor.dequantize(), "squeeze")
    for name, operation in (
        ("view(-1)", lambda t: t.view(-1)),
        ("reshape", lambda t: t.reshape(k, n)),
        ("flatten", lambda t: t.flatten()),
    ):
        _same_or_refused(tensor, operation, name)


def _same_or_refused(tensor: Any, operation: Callable[[Any], Any], name: str) -> None:
    try:
        found = operation(tensor)
    except (UnsupportedOperationError, LayoutError):
        return
    _require_values(found, operation(tensor.dequantize()), name)


def _require_values(found: Any, expected: torch.Tensor, name: str) -> None:
    require(tuple(found.shape) == tuple(expected.shape), f"{name} has shape {tuple(found.shape)}")
    require(torch.equal(found.dequantize(), expected), f"{name} has other values")
    if hasattr(found, "to_layout"):
        found.to_layout()


CHECKS = (transpositions, slices, rows_are_cut, cuts_and_joins, shapes)
