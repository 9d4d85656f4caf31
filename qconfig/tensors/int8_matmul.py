"""The exact product of two matrices of int8 codes, by the fastest kernel that the machine has.

Which kernel is best depends on the processor and on the number of rows:

- **single**: `torch._int_mm`, a row at a time. Up to 8 rows it passes over the weight at the speed
  of memory, several times faster than the same operator on a few rows at once.
- **unsigned**: `torch._int_mm` of `a + 128` as uint8, for which processors with VNNI have an
  instruction. `128 * rowsum(b)` is taken off again; the row sums come from the same call, as the
  product with a row of ones. (A sum over int8 alone takes torch 2.13 longer than all of that.)
- **signed**: `torch._int_mm` of the codes as they are.
- **blocked**: where the processor has no VNNI, `torch._int_mm` is a loop of scalar steps. There, a
  few rows of codes at a time are cast to float32 into buffers that stay in cache and multiplied by
  the float kernel, over at most 1024 columns: float32 sums whole numbers exactly up to 2**24, which
  is 1024 * 128 * 128. Pieces are added as integers.
- **cuda**: `torch._int_mm`, with operands padded to the sizes that cuBLAS takes.

Shortest of 21 calls on 2 cores of a Zen 4 EPYC with torch 2.13, weight 4096 x 4096, milliseconds
(tests/benchmarks/bench_int8_dynamic.py --kernels); torch's scalar loop takes 430 at M=16 on one:

|          | M=1  | 4    | 8    | 16  | 64  |
|----------|------|------|------|-----|-----|
| single   | 0.16 | 0.62 | 1.3  |     |     |
| unsigned |      | 1.5  | 1.8  | 2.4 | 3.7 |
| signed   |      | 3.0  | 3.3  | 3.5 | 5.1 |
| blocked  |      | 14   |      | 9.3 | 17  |

On its first use the kernels of `torch._int_mm` are compared with the exact product of extreme
codes, and one that fails is not used.
"""
# ruff: noqa: SLF001 (torch's integer product has an underscored name)

from collections.abc import Callable
from functools import cache

import torch
from torch.nn import functional

from qconfig.tensors.blockwise import rows_per_buffer
from qconfig.tensors.float_product import times_transposed

_EXACT_COLUMNS = 1024
_LONGEST_PIECE = 1 << 16  # 255 * 128 * 65536 is less than 2**31
LONGEST_IN_INT32 = ((1 << 31) - 1) // 128**2
_SINGLE_ROWS = 8

Shifted = tuple[torch.Tensor, torch.Tensor | None, int]
"""`p`, `sums` and `shift`, such that the product is `p - shift * sums`."""


def int8_matmul(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return `left @ right.T`, exactly.

    Args:
        left: (M, K), int8.
        right: (N, K), int8, any strides.

    Returns:
        (M, N), int32; int64 if K is over 131071, where int32 could overflow.
    """
    total, sums, shift = shifted_product(left, right, sums=False)
    return total.sub_(sums * shift) if sums is not None and shift else total


def shifted_product(left: torch.Tensor, right: torch.Tensor, *, sums: bool) -> Shifted:
    """Return an integer matrix from which the product follows, and the row sums of `right`.

    Args:
        left: (M, K), int8.
        right: (N, K), int8, any strides.
        sums: whether the row sums are wanted.

    Returns:
        A matrix (M, N); the row sums (N,), or None where neither wanted nor needed; and `shift`:
        `left @ right.T` is the matrix minus `shift * sums`. int32, or int64 if K is over 131071.
    """
    columns = right.shape[1]
    if columns <= _LONGEST_PIECE and columns and left.shape[0] and right.shape[0]:
        return _piece(left, right, sums=sums)
    dtype = torch.int32 if columns <= LONGEST_IN_INT32 else torch.int64
    total = left.new_zeros((left.shape[0], right.shape[0]), dtype=dtype)
    row_sums = right.new_zeros((right.shape[0],), dtype=dtype)
    if total.numel():
        for start in range(0, columns, _LONGEST_PIECE):
            stop = start + _LONGEST_PIECE
            part, ones, shift = _piece(left[:, start:stop], right[:, start:stop], sums=True)
            total += part
            if ones is not None:
                row_sums += ones
                total -= ones.to(dtype) * shift
    return total, row_sums, 0


def _piece(left: torch.Tensor, right: torch.Tensor, *, sums: bool) -> Shifted:
    if left.device.type == "cuda":
        return _on_cuda(left, right, sums=sums)
    if left.device.type != "cpu":
        return _in_float64(left, right, sums=sums)
    signed, unsigned = (False, False) if not _fast_integers() else trusted_kernels()
    if not signed or right.shape[1] == 1:
        # torch 2.13 reads past a right operand with K = 1, whose two strides are both 1.
        return _blocked(left, right, sums=sums)
    right = right.contiguous()
    if left.shape[0] <= _SINGLE_ROWS:
        return _single(left, right, sums=sums)
    if unsigned:
        return _unsigned(left, right)
    return _signed(left, right, sums=sums)


def _fast_integers() -> bool:
    # Without VNNI, or without oneDNN, torch._int_mm is a loop of scalar steps.
    known = getattr(torch.cpu, "_is_vnni_supported", None)
    return known is not None and bool(known()) and bool(torch.backends.mkldnn.enabled)


@cache
def trusted_kernels() -> tuple[bool, bool]:
    """Return whether torch's signed and unsigned products exist here and are exact."""
    generator = torch.Generator().manual_seed(0)
    left = torch.randint(-128, 128, (19, 200), dtype=torch.int8, generator=generator)
    right = torch.randint(-128, 128, (23, 200), dtype=torch.int8, generator=generator)
    # Sums of two products of these pass int16, in which older processors would saturate them.
    left[:3], left[3:5], right[:3], right[3:5] = -128, 127, -128, 127
    exact = left.double() @ right.double().t()
    alone = exact[:2]

    def trusted(kernel: Callable[..., Shifted], rows: torch.Tensor, wanted: torch.Tensor) -> bool:
        try:
            total, sums, shift = kernel(rows, right)
        except (RuntimeError, AttributeError):  # this build of torch does not have it
            return False
        found = total if sums is None else total - sums * shift
        return torch.equal(found.double(), wanted)

    signed = trusted(_signed, left, exact) and trusted(_single, left[:2], alone)
    return signed, signed and trusted(_unsigned, left, exact)


def _single(left: torch.Tensor, right: torch.Tensor, *, sums: bool = False) -> Shifted:
    total = left.new_empty((left.shape[0] + sums, right.shape[0]), dtype=torch.int32)
    if sums:
        left = torch.cat((left, left.new_ones((1, left.shape[1]))))
    columns = right.t()
    for i in range(left.shape[0]):
        torch._int_mm(left[i : i + 1], columns, out=total[i : i + 1])
    return (total[:-1], total[-1], 0) if sums else (total, None, 0)


def _signed(left: torch.Tensor, right: torch.Tensor, *, sums: bool = False) -> Shifted:
    if sums:
        left = torch.cat((left, left.new_ones((1, left.shape[1]))))
    total = torch._int_mm(left, right.t())
    return (total[:-1], total[-1], 0) if sums else (total, None, 0)


def _unsigned(left: torch.Tensor, right: torch.Tensor) -> Shifted:
    rows = left.shape[0]
    shifted = torch.empty((rows + 1, left.shape[1]), dtype=torch.uint8)
    # Two's complement: exchanging the top bit adds 128.
    torch.bitwise_xor(left.contiguous().view(torch.uint8), 128, out=shifted[:rows])
    shifted[rows] = 1
    total = torch._int_mm(shifted, right.t())
    return total[:rows], total[rows], 128


def _blocked(left: torch.Tensor, right: torch.Tensor, *, sums: bool = False) -> Shifted:
    rows, columns = right.shape
    bounds = [(k, min(k + _EXACT_COLUMNS, columns)) for k in range(0, columns, _EXACT_COLUMNS)]
    pieces = [left[:, i:j].float() for i, j in bounds]
    if sums:
        pieces = [torch.cat((p, p.new_ones((1, p.shape[1])))) for p in pieces]
    step = rows_per_buffer(columns, 4, rows)
    buffers = [torch.empty((step, j - i)) for i, j in bounds]
    total = torch.empty((left.shape[0] + sums, rows), dtype=torch.int32)
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        found: torch.Tensor | None = None
        for (i, j), piece, buffer in zip(bounds, pieces, buffers, strict=True):
            values = buffer[: stop - start]
            values.copy_(right[start:stop, i:j])
            part = times_transposed(piece, values).to(torch.int32)
            found = part if found is None else found.add_(part)
        if found is not None:
            total[:, start:stop] = found
    return (total[:-1], total[-1], 0) if sums else (total, None, 0)


def _in_float64(left: torch.Tensor, right: torch.Tensor, *, sums: bool = False) -> Shifted:
    total = (left.double() @ right.double().t()).to(torch.int32)
    return total, right.sum(1, dtype=torch.int32) if sums else None, 0


def _on_cuda(left: torch.Tensor, right: torch.Tensor, *, sums: bool = False) -> Shifted:
    if torch.cuda.get_device_capability(left.device) < (7, 5):
        return _in_float64(left, right, sums=sums)
    rows, others = left.shape[0], right.shape[0]
    total = torch._int_mm(*padded(left, right))[:rows, :others]
    return total, right.sum(1, dtype=torch.int32) if sums else None, 0


def padded(left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (M', K') and (K', N'), padded with zeros to what cuBLAS takes: M' > 16, else by 8."""
    rows, columns = left.shape
    down = max(0, 32 - rows) if rows <= 16 else -rows % 8
    across, more = -columns % 8, -right.shape[0] % 8
    left = functional.pad(left, (0, across, 0, down)) if across or down else left.contiguous()
    right = functional.pad(right, (0, across, 0, more)) if across or more else right.contiguous()
    return left, right.t()
