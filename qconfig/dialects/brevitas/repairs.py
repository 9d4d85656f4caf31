"""What releases of Brevitas wrote wrongly into metadata, found and put right.

Activations that pass a tensor through (0.11 to 0.13.4) exchanged the widths of exponent and
mantissa of FloatQuantTensors, and gave groupwise tensors values and scales that were no longer in
groups.
"""

from math import prod
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.brevitas.fields import number_of
from qconfig.dialects.brevitas.grids import MOST_LOOKED_AT, FloatGrid, are_integers
from qconfig.errors import LayoutError

if TYPE_CHECKING:
    import torch

SWAPPED = (
    "the widths of exponent and mantissa were exchanged, as activations of Brevitas up to 0.13.4 "
    "that pass a tensor through wrote them; they are put right"
)
MAYBE_SWAPPED = (
    "the widths of exponent and mantissa may be exchanged, as activations of Brevitas up to 0.13.4 "
    "wrote them; bias and values fit both, and what is stored is taken"
)
OFF_GRID = "values are not small floats of the format that is stored; they are carried as they are"
NO_INTEGERS = (
    "values are no multiples of the scale: 0.8 to 0.10 kept those of small floats so, without "
    "their format; they are carried as they are"
)
UNGROUPED = (
    "values and scales were not in groups, as activations of Brevitas up to 0.13.4 that pass a "
    "tensor through wrote them; they are put back into groups, which changes no value"
)


@frozen
class Repaired:
    """Fields of a NamedTuple, put right where a release wrote them wrongly.

    Args:
        fields: by name.
        changes: what was put right.
        ambiguities: what could not be decided.
    """

    fields: dict[str, Any]
    changes: tuple[str, ...] = ()
    ambiguities: tuple[str, ...] = field(default=())


def with_widths(fields: dict[str, Any]) -> Repaired:
    """Return the fields of a FloatQuantTensor with its widths in their places.

    The bias says which is the exponent's; where it fits neither or both, or fits the other one
    only, values are compared with both grids.
    """
    names = ("exponent_bit_width", "mantissa_bit_width", "exponent_bias")
    stored = FloatGrid(*(number_of(fields[name]) for name in names))
    swapped = stored.swapped
    if stored == swapped or not stored.is_plausible:
        return Repaired(fields)
    if stored.usualness > swapped.usualness:
        return Repaired(fields)
    codes, precision = _codes(fields)
    fits, fits_swapped = stored.holds(codes, precision), swapped.holds(codes, precision)
    exchanged = fields | {names[0]: fields[names[1]], names[1]: fields[names[0]]}
    if fits_swapped and (not fits or swapped.usualness > stored.usualness):
        return Repaired(exchanged, (SWAPPED,))
    if not fits:
        return Repaired(fields, (), (OFF_GRID,))
    return Repaired(fields, (), (MAYBE_SWAPPED,) if fits_swapped else ())


def in_groups(fields: dict[str, Any]) -> Repaired:
    """Return the fields of a groupwise tensor with values and scales in groups.

    Raises:
        LayoutError: scales or zero points differ inside a group, so that no group has one.
    """
    dim, size, value = fields["group_dim"], fields["group_size"], fields["value_"]
    shape = _logical_shape(fields)
    if shape is None or size < 1 or not -len(shape) <= dim < len(shape):
        return Repaired(fields)
    repaired = fields | {"dequant_shape": shape}
    if value.shape == shape:
        repaired["value_"] = _grouped(value, shape, size, dim % len(shape))
    for name in ("scale_", "zero_point_"):
        if prod(fields[name].shape) != 1 and fields[name].shape == shape:
            repaired[name] = _one_a_group(name, fields[name], size, dim % len(shape))
    if all(repaired[name] is fields[name] for name in ("value_", "scale_", "zero_point_")):
        return Repaired(fields)
    return Repaired(repaired, (UNGROUPED,))


def old_integers(fields: dict[str, Any]) -> Repaired:
    """Say where the one class of 0.8 to 0.10 holds values that are no integers times a scale."""
    whole = are_integers(*_codes(fields))
    return Repaired(fields, (), () if whole else (NO_INTEGERS,))


def _logical_shape(fields: dict[str, Any]) -> tuple[int, ...] | None:
    """Return the logical shape that is said, or that of values and scales without groups."""
    said, value, dim = fields["dequant_shape"], fields["value_"], fields["group_dim"]
    if said is not None:
        return tuple(said)
    rank = len(value.shape)
    inner = dim % rank + (dim >= 0) if -rank <= dim < rank else rank
    in_groups = inner < rank and value.shape[inner] == fields["group_size"]
    is_full = fields["scale_"].shape == value.shape and prod(value.shape) != 1
    return tuple(value.shape) if is_full and not in_groups else None


def _codes(fields: dict[str, Any]) -> "tuple[torch.Tensor, float]":
    """Return values over scales, plus zero points, and how precise they are.

    Of a large tensor it is a part of them.
    """
    import torch

    value, scale, zero = (fields[n].load() for n in ("value", "scale", "zero_point"))
    try:
        scale, zero = scale.broadcast_to(value.shape), zero.broadcast_to(value.shape)
    except RuntimeError:
        raise LayoutError(
            "scale or zero_point is not aligned with the values",
            pointer="/scale",
            found=f"shapes {fields['scale'].shape} and {fields['zero_point'].shape}",
            expected=f"shapes that broadcast to {fields['value'].shape}",
        ) from None
    every = max(1, -(-value.numel() // MOST_LOOKED_AT))
    value, scale, zero = (t.flatten()[::every] for t in (value, scale, zero))
    codes = value.double() / scale.double() + zero.double()
    precision = max(torch.finfo(t.dtype).eps for t in (value, scale))
    return codes[codes.isfinite()], precision


def _grouped(value: LazyTensor, shape: tuple[int, ...], size: int, dim: int) -> LazyTensor:
    groups = -(-shape[dim] // size)
    target = (*shape[:dim], groups, size, *shape[dim + 1 :])
    if prod(target) == prod(shape):
        return value.reshape(*target)

    def filled(tensor: "torch.Tensor") -> "torch.Tensor":
        import torch

        missing = groups * size - shape[dim]
        zeros = tensor.new_zeros((*shape[:dim], missing, *shape[dim + 1 :]))
        return torch.cat([tensor, zeros], dim).reshape(target)

    return value.map(filled, shape=target)


def _one_a_group(name: str, metadata: LazyTensor, size: int, dim: int) -> LazyTensor:
    import torch

    full = metadata.load()
    count = full.shape[dim]
    first = torch.arange(count) // size * size
    if not torch.equal(full.index_select(dim, first), full):
        raise LayoutError(
            f"{name} is not in groups, and differs inside a group",
            pointer=f"/{name}",
            found=f"shape {metadata.shape}",
            expected=f"one entry for each {size} values along dimension {dim}",
        )
    return LazyTensor.of(full.index_select(dim, torch.arange(0, count, size)).unsqueeze(dim + 1))
