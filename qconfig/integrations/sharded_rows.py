"""Rows of a quantized tensor in several processes: each part becomes a `DTensor` of its own.

torch then stores and reads the parts as it does any `DTensor`: each process its own entries, also
where another number of processes reads them.
"""

from math import prod
from typing import Any, cast

import torch
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard

from qconfig.errors import CheckpointError
from qconfig.tensors.classes import has_layout
from qconfig.tensors.geometry import present_fields, row_dimension
from qconfig.tensors.matrix import MatrixTensor
from qconfig.tensors.matrix_sharding import joined_parts, row_parts
from qconfig.tensors.small_types import as_comparable


def is_sharded(value: Any) -> bool:
    """Return whether a value is a `DTensor` of which this process holds quantized rows."""
    return isinstance(value, DTensor) and has_layout(local_part(value))


def local_part(value: DTensor) -> Any:
    """Return what this process holds, without a gradient; shared memory."""
    return value._local_tensor  # noqa: SLF001 (`to_local` makes a view with a history)


def sharded_parts(value: DTensor) -> tuple[Any, dict[str, torch.Tensor]]:
    """Return the layout of the whole tensor, of meta tensors, and its parts as `DTensor`s.

    Args:
        value: by rows, as many in each process, or replicated.

    Raises:
        CheckpointError: distributed in another way, or of a class that has no rows.
    """
    local = local_part(value)
    whole = _whole(value, local)
    inner: Any = whole.inner_tensors
    parts: dict[str, torch.Tensor] = {}
    for field in present_fields(local):
        own = row_dimension(field, local.shape)
        placements = [_placement(placement, own) for placement in value.placements]
        size = inner[field.name].shape
        parts[field.name] = DTensor.from_local(
            as_comparable(field.tensor.detach().contiguous()),
            value.device_mesh,
            placements,
            run_check=False,
            shape=size,
            stride=torch.empty(size, device="meta").stride(),
        )
    return whole.to_layout(), parts


def _placement(placement: Placement, own: int | None) -> Placement:
    if isinstance(placement, Replicate) or own is None:
        return Replicate()
    return Shard(own)


def _whole(value: DTensor, local: Any) -> MatrixTensor:
    """Return the whole tensor, of meta tensors."""
    sizes = zip(value.placements, value.device_mesh.shape, strict=True)
    pieces = prod(size for placement, size in sizes if type(placement) is Shard)
    by_rows = all(
        isinstance(placement, Replicate) or (type(placement) is Shard and placement.dim == 0)
        for placement in value.placements
    )
    if not isinstance(local, MatrixTensor) or not by_rows or value.shape[0] % pieces:
        raise CheckpointError(
            "a quantized tensor is distributed otherwise than by rows",
            found=f"{type(local).__name__} of shape {tuple(value.shape)}, {value.placements}",
            expected="Shard(0) with as many rows in each process, or Replicate()",
            hint="gather it first, with full_tensor()",
        )
    form: Any = local.to("meta")
    if pieces == 1:
        return cast("MatrixTensor", form)
    repeated = {name: part.repeat(pieces, 1) for name, part in row_parts(form).items()}
    whole: MatrixTensor = joined_parts(form, repeated)
    return whole


def fill(value: DTensor, parts: dict[str, torch.Tensor]) -> None:
    """Copy parts that were read into the rows of this process.

    Args:
        value: the rows.
        parts: as `sharded_parts` gave them, with other elements.
    """
    local = local_part(value)
    found: dict[str, Any] = {}
    for name, tensor in local.inner_tensors.items():
        if tensor is not None:
            part = local_part(cast("DTensor", parts[name]))
            found[name] = part.view(tensor.dtype)
    with torch.no_grad():
        local.copy_(local.with_fields(**found))


def empty_parts(parts: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return parts of the same form to read into."""
    return {name: torch.empty_like(part) for name, part in parts.items()}
