"""NVFP4 codes and scales of a float tensor, bit for bit those of torchao 0.18 on the CPU.

Blocks of 16 with largest magnitude m, in float32, p the scale of the whole tensor, or 1:

- p = max(m) / (448 * 6), so that the largest block scale is the largest of e4m3;
- block scale `s = m / 6 / p`, clamped to 2**-6 ... 448 and rounded to e4m3;
- codes `round(w * (1 / p / s))`, rounded to nearest E2M1, ties to even, saturated at 6.

Blocks of zeros get s = 2**-6 and codes of 0. Where p or 1 / p / s would leave float32, as in a
tensor of zeros, torchao has NaN; here p is 1, or at least 2**-126, and the factor is finite.

Source: NVIDIA, "Pretraining Large Language Models with NVFP4", and torchao 0.18.
"""

import torch

from qconfig.layouts.nvfp4 import BLOCK
from qconfig.tensors.row_slabs import all_finite, check_blocks_divide, peaks, row_slabs
from qconfig.tensors.small_floats import E2M1, codes_of, packed
from qconfig.tensors.unquantizable import not_finite

_LARGEST_SCALE = 448.0
_LEAST_SCALE = 2.0**-6
_FLOAT32 = torch.finfo(torch.float32)


def per_tensor_scale_of(weight: torch.Tensor) -> torch.Tensor:
    """Return the second scale that suits a tensor, or each matrix of several.

    Args:
        weight: (N, K) or (B, N, K), floating point.

    Returns:
        float32, () or (B, 1, 1): the largest magnitude / (448 * 6), 1 for zeros. NaN and infinity
        pass.
    """
    dims = tuple(range(max(weight.dim() - 2, 0), weight.dim()))
    if not weight.numel():
        shape = weight.shape[:-2]
        peak = torch.zeros((*shape, 1, 1) if shape else (), device=weight.device)
    else:
        low, high = weight.amin(dims, keepdim=True), weight.amax(dims, keepdim=True)
        peak = torch.maximum(high, -low)
    scale = peak.to(torch.float32) / (_LARGEST_SCALE * E2M1.largest)
    scale = torch.where(scale == 0, 1.0, scale.clamp(min=_FLOAT32.tiny))
    return scale if weight.dim() > 2 else scale.reshape(())


def quantize_nvfp4(
    weight: torch.Tensor, per_tensor_scale: torch.Tensor | None, *, checked: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return NVFP4 codes and block scales.

    Args:
        weight: (..., K), float16, bfloat16, float32 or float64, any strides; left as it is.
            16 divides K.
        per_tensor_scale: float32, one entry, or (B, 1, 1) for a weight (B, N, K); None is 1.
        checked: whether NaN and infinity are refused; if not, their block gets the scale NaN.

    Returns:
        Codes, (..., K/2) uint8, and scales, (..., K/16) float8_e4m3fn, both contiguous.

    Raises:
        BuildError: the weight holds NaN or infinity; count and first index are named.
        UsageError: rows have no whole blocks.
    """
    weight = weight.detach()
    *leading, columns = weight.shape
    check_blocks_divide(columns, BLOCK)
    blocks = columns // BLOCK
    codes = torch.empty((*leading, columns // 2), dtype=torch.uint8, device=weight.device)
    scale = torch.empty((*leading, blocks), dtype=torch.float8_e4m3fn, device=weight.device)
    if not weight.numel():
        return codes, scale
    second = None
    if per_tensor_scale is not None:
        second = per_tensor_scale.to(torch.float32).reshape(-1, 1)
        if second.shape[0] > 1:
            second = second.repeat_interleave(leading[-1], 0)
    rows_of_codes, rows_of_scale = codes.view(-1, columns // 2), scale.view(-1, blocks)
    for rows, values, work in row_slabs(weight):
        tiled = values.view(values.shape[0], blocks, BLOCK)
        peak = peaks(tiled, work)
        finite = None if checked else peak.isfinite()
        if checked and not all_finite(peak):
            raise not_finite(weight)
        own = second if second is None or second.numel() == 1 else second[rows]
        peak.div_(E2M1.largest)
        if own is not None:
            peak.div_(own)
        peak.clamp_(_LEAST_SCALE, _LARGEST_SCALE)
        if finite is not None:
            peak = torch.where(finite, peak, torch.nan)
        rounded = peak.to(torch.float8_e4m3fn)
        rows_of_scale[rows] = rounded
        decoded = rounded.to(torch.float32)
        factor = 1.0 / decoded if own is None else (1.0 / own) / decoded
        tiled.mul_(factor.clamp_(max=_FLOAT32.max).unsqueeze(-1))
        if not checked:
            values.nan_to_num_()
        rows_of_codes[rows] = packed(codes_of(values, E2M1, work))
    return codes, scale
