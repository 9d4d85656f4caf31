"""Int4 codes, scales and zero points of a float weight, as torchao's Int4Tensor has them.

For each group of a row, in float32 (float64 for float64 weights):

    scale = max(max(w) - min(w), 1e-6) / 15
    zero_point = min(w) + 8 * scale
    q = clamp(round((w - min(w)) / scale), 0, 15) - 8

halves to even; then scale and zero point take the weight's type. This is what torchao's
`Int4Tensor.from_hp` stores, whose quantizer (`int4_row_quantize_zp`) lies in another package; the
codes of torchao's stored files are equal bit for bit. Zero points are numbers, not codes, and zero
need not be among the values, as for torchao's tinygemm: on float32 weights scales and zero points
are those of `_choose_qparams_affine_tinygemm` wherever max - min is at least 1.5e-5, below which
that clamps at another place. `_quantize_affine_tinygemm` computes codes in the weight's type and
from the rounded scale; `quantize_with` does the second, in float32, and gives equal codes on
float32 weights.
"""

from collections.abc import Callable, Iterator

import torch

from qconfig.errors import BuildError
from qconfig.tensors.slab_size import slab_elements
from qconfig.tensors.unquantizable import not_finite, refuse_blocks

_LEAST_RANGE = 1e-6
_HIGHEST = 15
_MIDDLE = 8

Qparams = tuple[torch.Tensor, torch.Tensor]
Chooser = Callable[[torch.Tensor], Qparams]


def quantize_tinygemm(
    weight: torch.Tensor, group_size: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return packed codes, scales and zero points of a weight.

    Args:
        weight: (..., N, K), floating point, any strides; K is even and divided by `group_size`.
        group_size: elements of a row that share a scale.

    Returns:
        Codes, int8 (..., N, K/2), even columns in the low halves; scales and zero points,
        (..., N, K/g), in the weight's type.

    Raises:
        BuildError: the weight holds NaN or infinity, or its range is too large for its type.
    """
    qdata, scale, zero_point = empty_results(weight, group_size)
    for slab in slabs(weight, group_size, qdata, scale, zero_point):
        values = slab.load()
        low, high = values.amin(-1, keepdim=True), values.amax(-1, keepdim=True)
        factor = (high - low).clamp_(min=_LEAST_RANGE).div_(_HIGHEST)
        # 15 scales reach from the least value to the largest, so that nothing has to be clamped.
        slab.store(values.sub_(low).div_(factor).round_(), factor, low + factor * _MIDDLE)
    check_finite_results(weight, scale, zero_point)
    return qdata, scale, zero_point


def quantize_symmetric(
    weight: torch.Tensor, group_size: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return packed codes, scales and zero points for products with float8 activations.

    `scale = max(max|w|, 1e-6) / 8` and `q = clamp(round(w / scale), -8, 7)`, in float32; zero
    points are 0. This is `int4_row_quantize` of MSLK, which torchao's Int4Tensor calls then.

    Args:
        weight: as in `quantize_tinygemm`.
        group_size: elements of a row that share a scale.

    Returns:
        As `quantize_tinygemm`.

    Raises:
        BuildError: the weight holds NaN or infinity.
    """
    qdata, scale, zero_point = empty_results(weight, group_size)
    for slab in slabs(weight, group_size, qdata, scale, zero_point):
        values = slab.load()
        low, high = values.amin(-1, keepdim=True), values.amax(-1, keepdim=True)
        factor = torch.maximum(-low, high).clamp_(min=_LEAST_RANGE).div_(_MIDDLE)
        codes = values.div_(factor).round_().add_(_MIDDLE).clamp_(0, _HIGHEST)
        slab.store(codes, factor, torch.zeros_like(factor))
    check_finite_results(weight, scale, zero_point)
    return qdata, scale, zero_point


def quantize_with(
    weight: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor
) -> torch.Tensor:
    """Return packed codes for scales and zero points that are given, such as learned ones.

    `q = clamp(round((w - (zero_point - 8 * scale)) / scale), 0, 15) - 8`, in float32.

    Args:
        weight: (..., N, K), floating point.
        scale: floating point, (..., N, K/g).
        zero_point: floating point, shaped like `scale`: the value of code 0.

    Returns:
        int8, (..., N, K/2).

    Raises:
        BuildError: the weight holds NaN or infinity.
    """
    group_size = weight.shape[-1] // max(scale.shape[-1], 1)
    qdata = empty_results(weight, group_size)[0]
    if weight.numel() and not bool((weight.amax() - weight.amin()).isfinite()):
        raise not_finite(weight)
    for slab in slabs(weight, group_size, qdata, scale, zero_point):
        values = slab.load()
        factor = slab.scale.to(values.dtype).unsqueeze(-1)
        low = slab.zero_point.to(values.dtype).unsqueeze(-1) - factor * _MIDDLE
        slab.store(values.sub_(low).div_(factor).round_().clamp_(0, _HIGHEST))
    return qdata


class Slab:
    """Some rows of a matrix, and where their codes, scales and zero points go."""

    def __init__(self, fields: tuple[torch.Tensor, ...], buffers: tuple[torch.Tensor, ...]) -> None:
        self.weight, self.qdata, self.scale, self.zero_point = fields
        self._codes, self._spare, self._values, *spares = buffers
        self.spares = [self._grouped(t) for t in spares]

    def _grouped(self, rows: torch.Tensor) -> torch.Tensor:
        return rows.view(*self.scale.shape, -1)

    def load(self) -> torch.Tensor:
        """Return the rows, widened in a buffer that may be overwritten, as (R, G, g)."""
        return self._grouped(self._values.copy_(self.weight))

    def store(
        self,
        codes: torch.Tensor,
        scale: torch.Tensor | None = None,
        zero_point: torch.Tensor | None = None,
    ) -> None:
        """Pack codes, and keep scales and zero points if they are given.

        Args:
            codes: (R, G, g), floating point, whole numbers from 0 to 15.
            scale: (R, G, 1), or None.
            zero_point: (R, G, 1), or None.
        """
        self._codes.copy_(codes.view(self._codes.shape))
        pairs = self._codes.view(torch.int16)
        torch.bitwise_right_shift(pairs, 4, out=self._spare)
        # From 0 .. 15 to -8 .. 7 in two's complement is the highest bit, turned over.
        pairs.bitwise_or_(self._spare).bitwise_xor_(0x88)
        self.qdata.view(torch.uint8).copy_(pairs)
        if scale is not None and zero_point is not None:
            self.scale.copy_(scale.squeeze(-1))
            self.zero_point.copy_(zero_point.squeeze(-1))


def empty_results(
    weight: torch.Tensor, group_size: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return room for packed codes, scales and zero points of a weight."""
    columns = weight.shape[-1]
    make = weight.detach().new_empty
    scale = make((*weight.shape[:-1], columns // group_size if columns else 0))
    qdata = make((*weight.shape[:-1], columns // 2), dtype=torch.int8)
    return qdata, scale, torch.empty_like(scale)


def slabs(
    weight: torch.Tensor,
    group_size: int,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    *,
    spare: int = 0,
) -> Iterator[Slab]:
    """Yield a weight a few rows at a time; all buffers take at most an eighth of its size.

    Args:
        weight: (..., N, K).
        group_size: elements of a row that share a scale.
        qdata: (..., N, K/2); packed codes go here.
        scale: (..., N, K/g).
        zero_point: shaped like `scale`.
        spare: how many more buffers of a slab's size its `spares` holds.
    """
    if not weight.numel():
        return
    weight = weight.detach()
    if weight.dim() > 2:
        for fields in zip(weight, qdata, scale, zero_point, strict=True):
            yield from slabs(fields[0], group_size, *fields[1:], spare=spare)
        return
    rows, columns = weight.shape
    wide = torch.promote_types(weight.dtype, torch.float32)
    elements = slab_elements(weight, (1 + spare) * wide.itemsize + 2)
    step = min(rows, max(1, elements // columns))
    make = weight.new_empty
    buffers = [
        make((step, columns), dtype=torch.int8),
        make((step, columns // 2), dtype=torch.int16),
    ]
    buffers += [make((step, columns), dtype=wide) for _ in range(1 + spare)]
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        rows_of = tuple(t[start:stop] for t in (weight, qdata, scale, zero_point))
        yield Slab(rows_of, tuple(t[: stop - start] for t in buffers))


def check_finite_results(
    weight: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor
) -> None:
    """Raise BuildError if a weight gave scales or zero points that are not finite."""
    if not (bool(scale.isfinite().all()) and bool(zero_point.isfinite().all())):
        raise not_finite(weight, scale.dtype)


def checked_qparams(
    scale: torch.Tensor, zero_point: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return given scales and zero points, detached; zeros where there are none.

    Raises:
        BuildError: not floating point or not finite, or a scale that is not positive.
    """
    zero_point = torch.zeros_like(scale) if zero_point is None else zero_point
    for name, values in (("scale", scale), ("zero_point", zero_point)):
        kind = "positive finite numbers" if name == "scale" else "finite numbers"
        if not values.dtype.is_floating_point:
            raise BuildError(f"{name} is not floating point", found=values.dtype, expected=kind)
        bad = ~values.isfinite() | (values <= 0) if name == "scale" else ~values.isfinite()
        refuse_blocks(bad, values, name, kind)
    return scale.detach(), zero_point.detach()
