"""torchao 0.18's MX and NVFP4 tensors, imported without notes about kernels and enums."""

import logging
import warnings
from typing import Any

import torch

from qconfig.configs.choices import ScaleCalculationMode
from qconfig.layouts.mx import MXElementType


def torchao_mx(
    weight: torch.Tensor, element: MXElementType, block_size: int, mode: ScaleCalculationMode
) -> Any:
    """Return torchao's MXTensor of a weight."""
    with _quiet():
        from torchao.prototype.mx_formats.config import ScaleCalculationMode as TheirMode
        from torchao.prototype.mx_formats.mx_tensor import MXTensor
    kind = element.value if element.value.startswith("fp6") else getattr(torch, element.value)
    return MXTensor.to_mx(weight, kind, block_size, TheirMode[mode.value])


def torchao_nvfp4(weight: torch.Tensor, *, second: bool) -> Any:
    """Return torchao's NVFP4Tensor of a weight, with a second scale if asked for."""
    with _quiet():
        from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale
    scale = None
    if second:
        peak = weight.abs().amax((1, 2), keepdim=True) if weight.dim() == 3 else weight.abs().max()
        scale = per_tensor_amax_to_scale(peak)
    return NVFP4Tensor.to_nvfp4(weight, per_tensor_scale=scale)


def same_bytes(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Return whether two tensors of one-byte elements agree bit by bit."""
    return torch.equal(first.view(torch.uint8), second.view(torch.uint8))


def _quiet() -> Any:
    logging.getLogger("torchao").setLevel(logging.ERROR)
    logging.getLogger("torch.utils._pytree").setLevel(logging.ERROR)
    context = warnings.catch_warnings()
    warnings.simplefilter("ignore")
    return context
