"""A weight a few rows at a time, in buffers that stay in cache: at most an eighth of its size."""

from collections.abc import Callable

import torch
from attrs import frozen

from qconfig.errors import LayoutError
from qconfig.tensors.slab_size import slab_elements


@frozen
class Slab:
    """Some rows of a matrix and what belongs to them; G groups a row.

    Args:
        weight: (R, K).
        codes: (R, K), int8; results go here.
        scale: (R, G).
        zero_point: (R, G), int8, or None.
        buffer: (R, K), at least float32.
        rounded: (R, K) in the type of the product, or None where the buffer has it.
        spare: more buffers like `buffer`, as many as were asked for.
    """

    weight: torch.Tensor
    codes: torch.Tensor
    scale: torch.Tensor
    zero_point: torch.Tensor | None
    buffer: torch.Tensor
    rounded: torch.Tensor | None
    spare: tuple[torch.Tensor, ...]

    def load(self) -> torch.Tensor:
        """Return the rows, widened in the buffer, as (R, G, g)."""
        return grouped(self.buffer.copy_(self.weight), self.scale)

    def product(self, factor: torch.Tensor) -> torch.Tensor:
        """Return rows times a factor (R, G, 1) as (R, G, g), rounded as the types of both say."""
        rows, values = grouped(self.weight, self.scale), grouped(self.buffer, self.scale)
        kind = torch.promote_types(rows.dtype, factor.dtype)
        if kind == values.dtype:
            if rows.dtype != kind:
                return self.load().mul_(factor)
            return torch.mul(rows, factor, out=values)
        if self.rounded is None:
            return values.copy_(rows * factor)
        return values.copy_(torch.mul(rows, factor, out=grouped(self.rounded, self.scale)))


def grouped(rows: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return rows (R, K) as (R, G, g) for scales (R, G): a view, whatever the strides are."""
    groups = scale.shape[1]
    return rows.view(rows.shape[0], groups, rows.shape[1] // groups)


def by_slabs(
    weight: torch.Tensor,
    codes: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    work: Callable[[Slab], None],
    *,
    spare: int = 0,
    elements: int | None = None,
) -> None:
    """Call `work` for a few rows after others.

    Args:
        weight: (..., K), any strides.
        codes: int8, of the weight's shape, contiguous.
        scale: (..., G), contiguous; each row has G groups.
        zero_point: int8, shaped like `scale`, or None.
        work: reads the weight of a slab and writes the rest.
        spare: how many more buffers of the slab's size `work` needs.
        elements: how many a slab has; None for what takes an eighth of the weight.

    Raises:
        LayoutError: a block has more than one row.
    """
    if scale.shape[:-1] != weight.shape[:-1]:
        raise LayoutError(
            "blocks of several rows have no intx codes",
            pointer="/block_size",
            found=tuple(scale.shape),
            expected=f"scales for each row of shape {tuple(weight.shape)}",
        )
    if not weight.numel():
        return
    columns, groups = weight.shape[-1], scale.shape[-1]
    if weight.dim() != 2 and not weight.is_contiguous():
        for i in range(weight.shape[0]):
            zero = None if zero_point is None else zero_point[i]
            by_slabs(weight[i], codes[i], scale[i], zero, work, spare=spare, elements=elements)
        return
    weight, codes = weight.reshape(-1, columns), codes.view(-1, columns)
    scale = scale.view(-1, groups)
    zero_point = None if zero_point is None else zero_point.view(-1, groups)
    rows = weight.shape[0]
    wide = torch.promote_types(weight.dtype, torch.float32)
    kind = torch.promote_types(weight.dtype, scale.dtype)
    if elements is None:
        elements = _buffer_elements(weight, wide, kind, spare)
    step = min(rows, max(1, elements // columns))
    buffer = torch.empty((step, columns), dtype=wide, device=weight.device)
    rounded = None if kind == wide else torch.empty_like(buffer, dtype=kind)
    others = [torch.empty_like(buffer) for _ in range(spare)]
    for i in range(0, rows, step):
        j = min(i + step, rows)
        work(
            Slab(
                weight[i:j],
                codes[i:j],
                scale[i:j],
                None if zero_point is None else zero_point[i:j],
                buffer[: j - i],
                None if rounded is None else rounded[: j - i],
                tuple(other[: j - i] for other in others),
            )
        )


def _buffer_elements(weight: torch.Tensor, wide: torch.dtype, kind: torch.dtype, spare: int) -> int:
    taken = (1 + spare) * wide.itemsize + (0 if kind == wide else kind.itemsize)
    return slab_elements(weight, taken)
