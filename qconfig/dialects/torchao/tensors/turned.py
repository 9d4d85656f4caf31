"""MX and NVFP4 tensors that were transposed before they were saved.

Their classes have no field for it. Up to 0.14 their codes, of which each row is made of blocks,
were taken to be transposed if they do not lie in rows; the scales were transposed, too, by NVFP4
since 0.14 and by MX since 0.15, and stayed as they are before.
"""

from typing import TYPE_CHECKING, Any

import attrs

from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.stored import Stored
from qconfig.dialects.torchao.tensors.reading import Read
from qconfig.errors import MigrationError

if TYPE_CHECKING:
    import torch


def upright(stored: Stored, codes: str, scale: str) -> Stored:
    """Return a tensor with codes and scales in rows of blocks.

    Args:
        stored: a transposed tensor.
        codes: the field that says so, as its elements lie in columns.
        scale: the field of the scales, which may be transposed with the codes.
    """
    fields = dict(stored.fields)
    fields[codes] = _exchanged(fields[codes])
    if scale in stored.turned or _is_line(fields.get(scale), fields[codes].shape[-2]):
        fields[scale] = _exchanged(fields[scale])
    shape = stored.shape
    if shape is not None:
        shape = (*shape[:-2], shape[-1], shape[-2])
    return attrs.evolve(stored, fields=fields, shape=shape, turned=frozenset())


def turned_back(read: Read) -> Read:
    """Return an upright tensor in its newest layout, transposed.

    Raises:
        MigrationError: its scales lie in tiles, which cannot be transposed.
    """
    read = read.newest()
    layout: Any = read.layout
    if layout.is_swizzled_scales:
        raise MigrationError(
            "a transposed tensor with scales in tiles cannot be read",
            pointer="/is_swizzled_scales",
            found=True,
            expected="a tensor as a linear stores it",
            hint="save the untransposed weight with the release that wrote the file",
        )
    return read.with_fields(qdata=_exchanged(layout.qdata), scale=_exchanged(layout.scale))


def _is_line(scale: Any, rows: int) -> bool:
    """Return whether scales are one row of as many entries as there are rows, transposed."""
    return isinstance(scale, LazyTensor) and scale.shape[-2:] == (1, rows) and rows > 1


def _exchanged(value: LazyTensor) -> LazyTensor:
    *leading, rows, columns = value.shape
    if leading:
        return value.map(_exchange, shape=(*leading, columns, rows), by_rows=1)
    return value.spread(_exchanged_rows, shape=(columns, rows))


def _exchanged_rows(first: int, stop: int, value: "torch.Tensor") -> "torch.Tensor":
    return _exchange(value[:, first:stop])


def _exchange(value: "torch.Tensor") -> "torch.Tensor":
    import torch

    if value.element_size() == 1:  # not every dtype can be copied; bytes can
        return value.view(torch.uint8).transpose(-1, -2).contiguous().view(value.dtype)
    return value.transpose(-1, -2).contiguous()
