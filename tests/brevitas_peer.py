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


def quantized_activation(quantizer: Any, x: torch.Tensor, **changes: Any) -> "QuantTensor":
    """Return an activation as Brevitas quantizes it in eval mode, after one step of training.

    Args:
        quantizer: the activation quantizer, an injector.
        x: (N, C, ...).
        changes: settings of the quantizer that differ.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = qnn.QuantIdentity(quantizer, return_quant_tensor=True, **changes)
        layer.train()(x)
        return layer.eval()(x)


def quantized_bias(
    quantizer: Any, bias: torch.Tensor, scale: torch.Tensor | None = None
) -> tuple[torch.Tensor, ...]:
    """Return value, scale and zero point of a bias, as Brevitas quantizes it.

    Args:
        quantizer: the bias quantizer, an injector.
        bias: the bias.
        scale: its scale, where the quantizer takes one from outside.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = qnn.QuantLinear(3, bias.numel(), bias=True, bias_quant=quantizer)
        with torch.no_grad():
            layer.bias.copy_(bias)
        layer.bias_quant.init_tensor_quant()
        given = (bias,) if scale is None else (bias, scale)
        return tuple(part.detach() for part in layer.bias_quant.tensor_quant(*given)[:3])


def stored_parts(tensor: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return value, scale and zero point of Brevitas' tensor as it stores them."""
    if "group_size" in tensor._fields:
        return tensor.value_.detach(), tensor.scale_.detach(), tensor.zero_point_.detach()
    return tensor.value.detach(), tensor.scale.detach(), tensor.zero_point.detach()
