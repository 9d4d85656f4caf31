"""Real Brevitas, for tests that compare with it: layers, quantizers and what they give."""

import warnings
from typing import Any

import torch

with warnings.catch_warnings():
    # Brevitas uses what torch deprecates.
    warnings.simplefilter("ignore")
    import brevitas.nn as qnn
    from brevitas.quant_tensor import QuantTensor

__all__ = ["layer_with", "qnn", "quantized_weight"]


def layer_with(quantizer: Any, weight: torch.Tensor, kind: str = "Linear", **changes: Any) -> Any:
    """Return a Brevitas layer that holds a weight and quantizes it.

    Args:
        quantizer: the weight quantizer, an injector.
        weight: the weight.
        kind: `Linear`, `Conv2d`, `ConvTranspose2d`, ...
        changes: settings of the quantizer that differ.
    """
    settings = {f"weight_{name}": value for name, value in changes.items()}
    rows, columns, *kernel = weight.shape
    if "Transpose" in kind:
        rows, columns = columns, rows
    sizes = (columns, rows, tuple(kernel)) if kernel else (columns, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = getattr(qnn, f"Quant{kind}")(
            *sizes, bias=False, weight_quant=quantizer, dtype=weight.dtype, **settings
        )
        with torch.no_grad():
            layer.weight.copy_(weight)
        layer.weight_quant.init_tensor_quant()
    return layer.eval()


def quantized_weight(
    quantizer: Any, weight: torch.Tensor, kind: str = "Linear", **changes: Any
) -> "QuantTensor":
    """Return a weight as Brevitas quantizes it; arguments as of `layer_with`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return layer_with(quantizer, weight, kind, **changes).quant_weight()
