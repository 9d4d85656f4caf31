"""NVIDIA's block-scaled products, where a device has them: CUDA capability 10.0 and later."""
# ruff: noqa: PLR0917 (what a product needs)

from typing import Any

import torch
from torch.nn import functional

from qconfig.layouts.block_scaled import block_dimension
from qconfig.layouts.mx import MXElementType
from qconfig.layouts.nvfp4 import BLOCK
from qconfig.tensors.swizzle import swizzled

_CAPABILITY = (10, 0)
_MX_BLOCK = 32
_MX_DTYPES = {
    MXElementType.FLOAT8_E4M3FN: torch.float8_e4m3fn,
    MXElementType.FLOAT4_E2M1FN_X2: torch.float4_e2m1fn_x2,
}
_OUTPUTS = (torch.bfloat16, torch.float16, torch.float32)


def has_block_scaled_product(device: torch.device) -> bool:
    """Return whether a device multiplies block-scaled codes itself, and torch can ask it to."""
    if device.type != "cuda" or not hasattr(functional, "scaled_mm"):
        return False
    return torch.cuda.get_device_capability(device) >= _CAPABILITY


def mx_on_device(
    codes: torch.Tensor,
    act_scale: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    element: MXElementType,
    block_size: int,
    is_swizzled: bool,  # noqa: FBT001
    dtype: torch.dtype,
) -> torch.Tensor | None:
    """Return the product of MX codes, or None where the device or the form has none.

    Args:
        codes: of the activation, (M, K) or two a byte.
        act_scale: float8_e8m0fnu, (M, K/32).
        qdata: of the weight, (N, K) or two a byte.
        scale: float8_e8m0fnu, (N, K/32), or tiles of them.
        element: type of both.
        block_size: elements of a block.
        is_swizzled: whether `scale` lies in tiles.
        dtype: of the result.
    """
    native = _MX_DTYPES.get(element)
    if native is None or block_size != _MX_BLOCK or not has_block_scaled_product(codes.device):
        return None
    per_byte = 2 if element.is_packed else 1
    recipe: Any = functional.ScalingType.BlockWise1x32
    return _scaled_mm(
        codes, act_scale, qdata, scale, native, recipe, block_size, per_byte, is_swizzled, dtype
    )


def nvfp4_on_device(
    codes: torch.Tensor,
    act_scale: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    is_swizzled: bool,  # noqa: FBT001
    dtype: torch.dtype,
) -> torch.Tensor | None:
    """Return the product of NVFP4 codes without second scales, or None; see `mx_on_device`."""
    if not has_block_scaled_product(codes.device):
        return None
    native, recipe = torch.float4_e2m1fn_x2, functional.ScalingType.BlockWise1x16
    return _scaled_mm(codes, act_scale, qdata, scale, native, recipe, BLOCK, 2, is_swizzled, dtype)


def _scaled_mm(
    codes: torch.Tensor,
    act_scale: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    native: torch.dtype,
    recipe: Any,
    block_size: int,
    per_byte: int,
    is_swizzled: bool,  # noqa: FBT001
    dtype: torch.dtype,
) -> torch.Tensor | None:
    last = qdata.dim() - 1
    rows_first = is_swizzled or last == block_dimension(
        tuple(qdata.shape), tuple(scale.shape), block_size, per_byte
    )
    # cuBLAS takes whole 16-byte pieces of rows and of results.
    aligned = qdata.shape[1] % 16 == 0 and qdata.shape[0] % 16 == 0
    if dtype not in _OUTPUTS or not rows_first or not aligned or not qdata.is_contiguous():
        return None
    tiles: Any = functional.SwizzleType.SWIZZLE_32_4_4
    result: torch.Tensor = functional.scaled_mm(
        codes.view(native),
        qdata.view(native).t(),
        scale_a=swizzled(act_scale).flatten(),
        scale_recipe_a=recipe,
        scale_b=(scale if is_swizzled else swizzled(scale)).flatten(),
        scale_recipe_b=recipe,
        swizzle_a=tiles,
        swizzle_b=tiles,
        output_dtype=dtype,
    )
    return result
