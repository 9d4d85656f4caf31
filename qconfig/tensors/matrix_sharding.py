"""Packed weights in pieces on several processes: FSDP2, and collectives for DTensor.

Pieces are rows (dimension 0, of experts the experts). Each inner tensor that follows the rows is
gathered by itself, as bytes; what all rows share is taken as it is, for the pieces come from one
tensor. A scale that all rows of a piece share becomes one of several for the whole.
"""

from typing import TYPE_CHECKING, Any

import torch

from qconfig.tensors.dispatch import unsupported
from qconfig.tensors.geometry import Field, elements_per_entry, present_fields, row_dimension
from qconfig.tensors.matrix_table import MATRIX
from qconfig.tensors.matrix_views import check_views

if TYPE_CHECKING:
    from qconfig.tensors.matrix import MatrixTensor

aten = torch.ops.aten
_COLLECTIVES = "_c10d_functional."


def row_parts(weight: "MatrixTensor") -> dict[str, torch.Tensor]:
    """Return the inner tensors that follow dimension 0, as (entries, bytes) uint8.

    Raises:
        UnsupportedOperationError: the class refuses views.
    """
    check_views(weight, "sharding")
    parts = {}
    for field in present_fields(weight):
        own = row_dimension(field, weight.shape)
        if own is not None:
            rows = field.tensor.movedim(own, 0).contiguous()
            parts[field.name] = rows.view(rows.shape[0], -1).view(torch.uint8)
    return parts


def joined_parts(weight: "MatrixTensor", parts: dict[str, torch.Tensor]) -> "MatrixTensor":
    """Return the tensor whose rows are those of all pieces, from what `row_parts` gave for each.

    Args:
        weight: a piece.
        parts: its parts and those of its peers, one after the other.
    """
    tensors, pieces = weight.inner_tensors, 1
    for field in present_fields(weight):
        if field.name not in parts:
            continue
        own = row_dimension(field, weight.shape) or 0
        form = field.tensor.movedim(own, 0)
        gathered = parts[field.name].view(form.dtype).view(-1, *form.shape[1:])
        tensors[field.name] = gathered.movedim(0, own)
        if field.is_payload and form.shape[0]:
            pieces = gathered.shape[0] // form.shape[0]
    shape = (weight.shape[0] * pieces, *weight.shape[1:])
    return weight.restructured(tensors, shape, weight.blocks)


@MATRIX.implements_named(_COLLECTIVES + "all_gather_into_tensor.default")
def _all_gather(func: Any, args: Any, kwargs: Any) -> "MatrixTensor":
    weight, *group = args
    wait: Any = torch.ops._c10d_functional.wait_tensor  # noqa: SLF001 (torch's name for it)
    gathered = {
        name: wait(func(part, *group, **kwargs)) for name, part in row_parts(weight).items()
    }
    return joined_parts(weight, gathered)


@MATRIX.implements_named(
    _COLLECTIVES + "wait_tensor.default", _COLLECTIVES + "_wrap_tensor_autograd.default"
)
def _wait(func: Any, args: Any, kwargs: Any) -> "MatrixTensor":
    weight: MatrixTensor = args[0]
    return weight


# What FSDP2 does to a parameter before it first runs.


@MATRIX.implements(aten.new_zeros.default)
def _new_zeros(func: Any, args: Any, kwargs: Any) -> "MatrixTensor":
    weight, size = args[0], tuple(args[1])
    if size[1:] != tuple(weight.shape[1:]) or kwargs.get("dtype") not in (
        None,
        weight.shown_dtype,
    ):
        raise unsupported(type(weight), func, "only the number of rows may differ")
    check_views(weight, str(func))
    tensors = weight.inner_tensors
    for field in present_fields(weight):
        shape = list(field.tensor.shape)
        own = field.dimension(0, weight.dim())
        if own is not None:
            shape[own] = _entries(weight, field, size[0])
        tensors[field.name] = field.tensor.new_zeros(shape)
    block = weight.blocks
    if block is not None and block[0] == weight.shape[0] != 1:
        block = (size[0], *block[1:])
    zeros: MatrixTensor = weight.restructured(tensors, size, block)
    return zeros


def _entries(weight: "MatrixTensor", field: Field, rows: int) -> int:
    per_entry = elements_per_entry(field, 0, weight.shape[0], weight.dim())
    return -(-rows // per_entry) if per_entry else 1


@MATRIX.implements(aten.as_strided.default)
def _as_strided(func: Any, args: Any, kwargs: Any) -> "MatrixTensor":
    weight, size, stride, *offset = args
    same = (tuple(size), tuple(stride)) == (tuple(weight.shape), tuple(weight.stride()))
    if not same or (offset or [kwargs.get("storage_offset")])[0] not in (None, 0):
        raise unsupported(type(weight), func, "it would take the payload apart")
    alias: MatrixTensor = weight.map_tensors(aten.alias.default)
    return alias


def pre_all_gather(
    weight: "MatrixTensor", rows: int, pieces: int
) -> tuple[tuple[torch.Tensor, ...], tuple[Any, ...]]:
    """Return what FSDP2 gathers of a piece, and what it hands to `post_all_gather`.

    Args:
        weight: the piece of this process.
        rows: how many rows all pieces have.
        pieces: how many there are.

    Raises:
        UnsupportedOperationError: the rows cannot be divided evenly; in every process.
    """
    if rows % pieces:
        reason = f"{rows} rows cannot be divided by {pieces} processes"
        raise unsupported(type(weight), "FSDP2", reason)
    parts = row_parts(weight)
    return tuple(parts.values()), (weight, tuple(parts))


def post_all_gather(
    outputs: tuple[torch.Tensor, ...], metadata: tuple[Any, ...], out: torch.Tensor | None
) -> Any:
    """Return the whole tensor and the tensors that it lies in, as FSDP2 asks for them.

    Where `out` is given, it lies in `outputs` already.
    """
    if out is not None:
        return None
    weight, names = metadata
    whole = joined_parts(weight, dict(zip(names, outputs, strict=True)))
    return whole, outputs
