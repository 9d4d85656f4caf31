"""From modules that train to modules that run: quantizers of weights become quantized weights."""

from typing import Any

import torch
from torch import nn

from qconfig.errors import BuildError
from qconfig.modules.bias_quantizer import ExternalBiasQuantizer
from qconfig.modules.conv import QuantConv1d, QuantConv2d
from qconfig.modules.embedding import QuantEmbedding
from qconfig.modules.layer import QuantWeightLayer
from qconfig.modules.linear import QuantLinear
from qconfig.tensors.fake_quantized import adopt
from qconfig.tensors.quant_tensor import FloatQuantTensor, IntQuantTensor
from qconfig.tensors.quant_tensor.base import QuantTensor

_ORDINARY: dict[type[nn.Module], type[nn.Module]] = {
    QuantLinear: nn.Linear,
    QuantConv1d: nn.Conv1d,
    QuantConv2d: nn.Conv2d,
    QuantEmbedding: nn.Embedding,
}
_OWN = (
    "weight_quant",
    "bias_quant",
    "input_quant",
    "output_quant",
    "input_metadata",
    "metadata_use",
    "return_quant_tensor",
)


@torch.no_grad()
def to_inference(module: nn.Module) -> nn.Module:
    """Return a module that computes the same with a weight that is quantized for good.

    The weight, and a bias with a scale of its own, are quant tensors in Parameters without
    gradient. Where nothing else is rounded, the module is torch's ordinary one: a Linear,
    Conv1d, Conv2d or Embedding. Where activations are rounded, or a bias to the scale of the input,
    it keeps its class and those quantizers; so does an embedding whose rows have their own scales
    or a greatest norm, and a subclass.

    Args:
        module: a QuantLinear, QuantConv1d, QuantConv2d or QuantEmbedding; it is left as it is. Any
            other module is returned itself.

    Raises:
        BuildError: the weight is no parameter, because something computes it.
    """
    if not isinstance(module, (QuantWeightLayer, QuantEmbedding)):
        return module
    if "weight" not in dict(module.named_parameters(recurse=False)):
        raise BuildError(
            "the weight is computed, and no parameter that could be quantized for good",
            found=f"{type(module).__name__} without a parameter weight",
            hint="make it permanent first: prune.remove, or remove_parametrizations",
        )
    weight = module.quant_weight()
    kept = _is_needed(module, weight)
    kind = type(module) if kept else _ORDINARY[type(module)]
    result: Any = kind.__new__(kind)
    nn.Module.__init__(result)
    adopt(result, module)
    result.weight = _frozen(weight)
    result.weight_quant = None
    if isinstance(module, QuantWeightLayer):
        bias = module.bias_quant
        if bias is not None and not isinstance(bias, ExternalBiasQuantizer):
            result.bias = _frozen(bias(result.bias))
            result.bias_quant = None
    if not kept:
        for name in _OWN:
            if hasattr(result, name):
                delattr(result, name)
    ordinary: nn.Module = result
    return ordinary


def freeze(model: nn.Module) -> nn.Module:
    """Put the modules that `to_inference` returns into a model, in place, and return the model.

    Args:
        model: any module; modules and parameters under several names stay shared.
    """
    frozen: dict[int, nn.Module] = {}
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):  # noqa: SLF001 (shared ones too)
            if child is None:
                continue
            if id(child) not in frozen:
                frozen[id(child)] = to_inference(child)
            if frozen[id(child)] is not child:
                setattr(parent, name, frozen[id(child)])
    return to_inference(model)


def _is_needed(module: QuantWeightLayer | QuantEmbedding, weight: torch.Tensor) -> bool:
    """Return whether torch's own module would not compute the same."""
    if module.return_quant_tensor or type(module) not in _ORDINARY:
        return True
    if isinstance(module, QuantEmbedding):
        if module.max_norm is not None:
            return True
        # torch looks up rows of a quant tensor only where they have one scale.
        return isinstance(weight, IntQuantTensor | FloatQuantTensor) and weight.scale.numel() != 1
    others = (module.input_quant, module.output_quant)
    return isinstance(module.bias_quant, ExternalBiasQuantizer) or any(
        other is not None for other in others
    )


def _frozen(value: torch.Tensor) -> nn.Parameter:
    if isinstance(value, QuantTensor):
        value = value.set(training=False)
    return nn.Parameter(value.detach(), requires_grad=False)
