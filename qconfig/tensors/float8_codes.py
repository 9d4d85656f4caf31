"""Values of float8 codes and their scales: `q * scale`, whole or a few rows at a time.

torch 2.13 converts e4m3 one element at a time. Its bits are those of a float16 times 2**-8, once
they are moved: 5 bits of exponent hold 4, 10 bits of mantissa hold 3, and subnormal numbers stay
what they are; those of e5m2 are the upper half of a float16. So three integer operations that every
CPU has in vectors take the place of the conversion. Measured on 2 cores of a Zen 4 EPYC with torch
2.13, 4096 x 4096 codes into a buffer that stays in cache, milliseconds:

|          | `.to()` | here |
|----------|---------|------|
| float32  | 57      | 2.4  |
| bfloat16 | 70      | 3.5  |

Only NaN of e4m3 gets lost on that way, so it is looked for first (0.6 ms of the above). bfloat16 is
made from float32: from float16 torch converts one element at a time.
"""

import torch

from qconfig.tensors import blockwise

_E4M3_STEP = 2.0**-8
_SHIFT = {torch.float8_e4m3fn: 7, torch.float8_e5m2: 8}
# The sign and seven bits behind the first one of the exponent; int8 came with its sign extended.
_E4M3_BITS = -0x4080


def code_step(dtype: torch.dtype) -> float:
    """Return what `write_codes` divides the values of a float8 type by, a power of two.

    The quotient is exact in float16, bfloat16 and float32 alike.
    """
    return 1.0 / _E4M3_STEP if dtype == torch.float8_e4m3fn else 1.0


def write_codes(result: torch.Tensor, codes: torch.Tensor, bits: torch.Tensor) -> None:
    """Write the values of codes, divided by `code_step`; NaN and infinity stay what they are.

    Args:
        result: (R, K), float32; values go here.
        codes: (R, K), float8_e4m3fn or float8_e5m2, any strides.
        bits: int16, at least R rows of K, for the work.
    """
    raw = codes.view(torch.int8)
    if codes.dtype == torch.float8_e4m3fn and _has_nan(raw):
        result.copy_(codes).mul_(_E4M3_STEP)
        return
    part = bits[: codes.shape[0]]
    part.copy_(raw)
    part.bitwise_left_shift_(_SHIFT[codes.dtype])
    if codes.dtype == torch.float8_e4m3fn:
        part.bitwise_and_(_E4M3_BITS)
    result.copy_(part.view(torch.float16))


def _has_nan(raw: torch.Tensor) -> bool:
    # Codes 0x7f and 0xff: the largest as signed and as unsigned numbers.
    if not raw.numel():
        return False
    return int(raw.amax()) == 0x7F or int(raw.view(torch.uint8).amax()) == 0xFF


def dequantize_whole(qdata: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return all values in one expression, which a compiler can fuse.

    The product is taken in float32 and rounded once, as by torchao 0.18.

    Args:
        qdata: codes, any rank.
        scale: floating point, same rank; each size divides that of `qdata`.
        dtype: floating-point type of the result.
    """
    wide = torch.float32
    return blockwise.dequantize_whole(qdata, scale.to(wide), None, wide).to(dtype)


def dequantize(qdata: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return all values, on the CPU with no temporary beyond a few rows.

    Arguments are those of `dequantize_whole`.
    """
    plain = type(qdata) is torch.Tensor and not torch.compiler.is_compiling()
    if not plain or qdata.device.type != "cpu" or not qdata.numel():
        return dequantize_whole(qdata, scale, dtype)
    result = torch.empty(qdata.shape, dtype=dtype)
    _fill(result, qdata, scale)
    return result


def _fill(result: torch.Tensor, qdata: torch.Tensor, scale: torch.Tensor) -> None:
    if qdata.dim() > 2:
        block = qdata.shape[0] // scale.shape[0]
        for i in range(qdata.shape[0]):
            _fill(result[i], qdata[i], scale[i // block])
        return
    rows = RowWriter(qdata, scale)
    for i in range(0, qdata.shape[0], rows.step):
        rows.write(result[i : i + rows.step], i)


class RowWriter:
    """Writes the values of a few rows of a matrix, with buffers of its own.

    Args:
        qdata: (N, K), codes.
        scale: floating point, (N, K) or fewer entries that divide it; None for bare codes, divided
            by `code_step`.
    """

    def __init__(self, qdata: torch.Tensor, scale: torch.Tensor | None) -> None:
        self.qdata = qdata
        self.step = blockwise.rows_per_buffer(qdata.shape[1], 4, qdata.shape[0])
        self._bits: torch.Tensor | None = None
        self._work: torch.Tensor | None = None
        self._scale = scale
        if scale is not None:
            # Exact but for the smallest scales that float32 has, which are subnormal.
            self._scale = scale.to(torch.float32) * code_step(qdata.dtype)

    def buffer(self, dtype: torch.dtype) -> torch.Tensor:
        """Return an uninitialised buffer for `step` rows."""
        return blockwise.row_buffer(self.qdata, dtype, self.step)

    def write(self, result: torch.Tensor, start: int) -> None:
        """Write rows from `start` on, as many as `result` has."""
        stop = start + result.shape[0]
        values = result
        if result.dtype != torch.float32:
            if self._work is None:
                self._work = self.buffer(torch.float32)
            values = self._work[: stop - start]
        if result.dtype.itemsize == 2:
            bits = result.view(torch.int16)
        else:
            self._bits = self.buffer(torch.int16) if self._bits is None else self._bits
            bits = self._bits
        write_codes(values, self.qdata[start:stop], bits)
        if self._scale is not None:
            factor = blockwise.scales_of_rows(self._scale, start, stop, self.qdata.shape[0])
            groups = values.view(values.shape[0], factor.shape[1], -1)
            groups.mul_(factor.unsqueeze(-1))
        if values is not result:
            result.copy_(values)
