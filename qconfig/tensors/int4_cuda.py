"""The product with int4 weights through torch's kernel for tensor cores (`_weight_int4pack_mm`).

The kernel reads codes in tiles of its own, which are made and kept as `int4_prepack` does for CPUs.
"""

import torch

from qconfig.tensors.int4_prepack import GROUP_SIZES, kept

_TILES = 8  # tiles of 16 columns that lie together
_ROWS, _COLUMNS = 8, 16 * _TILES
_CAPABILITY = (8, 0)


def cuda_serves(flat: torch.Tensor, qdata: torch.Tensor, scale: torch.Tensor) -> bool:
    """Return whether the kernel serves a device and a shape.

    It takes bfloat16, 8 divides N, 128 divides K, groups of 32, 64, 128 or 256, and tensor cores
    of compute capability 8.0.
    """
    if flat.device.type != "cuda" or flat.dtype != torch.bfloat16 or not scale.numel():
        return False
    rows, columns = qdata.shape[0], 2 * qdata.shape[1]
    shape = rows % _ROWS == 0 and columns % _COLUMNS == 0
    if not shape or columns // scale.shape[1] not in GROUP_SIZES:
        return False
    return torch.cuda.get_device_capability(flat.device) >= _CAPABILITY


def cuda_product(
    flat: torch.Tensor, qdata: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor
) -> torch.Tensor | None:
    """Return `flat @ values.T`, or None where the weight has no tiles.

    Args:
        flat: (M, K), bfloat16, on the device.
        qdata: int8, (N, K/2).
        scale: floating point, (N, K/g).
        zero_point: floating point, shaped like `scale`.
    """
    form = kept(qdata, scale, zero_point, tiled)
    if form is None:
        return None
    result: torch.Tensor = torch.ops.aten._weight_int4pack_mm(  # noqa: SLF001
        flat.contiguous(), form.codes, form.group_size, form.scale_and_zero
    )
    return result


def tiled(qdata: torch.Tensor) -> torch.Tensor:
    """Return the codes of a weight in tiles; the kernel has the even column in the upper half."""
    codes = qdata.contiguous().view(torch.uint8) ^ 0x88
    swapped = (codes << 4) | (codes >> 4)
    tiles: torch.Tensor = torch.ops.aten._convert_weight_to_int4pack(swapped, _TILES)  # noqa: SLF001
    return tiles
