"""Modules that round weights and activations when they run, in the place of torch's own.

What the builders of the fake-quantized family share beside tensors: a live model gets modules whose
weights stay floats and can be trained; checkpoints, and modules that have no counterpart, get the
tensor of a weight.
"""

from typing import TYPE_CHECKING, Any

from qconfig.builders.base import PREPARED, ModuleTarget, Target
from qconfig.configs.granularity import PerTensor
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.configs.quant_choices import ScaleKind
from qconfig.errors import BuildError

if TYPE_CHECKING:
    import torch
    from torch import nn

_WITH_ACTIVATIONS = ("Linear", "Conv1d", "Conv2d")
_WEIGHTED = (*_WITH_ACTIVATIONS, "Embedding")
_FUNCTIONS = ("Identity", "ReLU")
_POOLS = ("AdaptiveAvgPool2d", "AvgPool2d")
_NESTED = ("input", "output", "bias")
_OF_POOLS = ("bit_width", "narrow_range", "rounding", "signed", "scale_kind")


class QuantModuleBuilder:
    """Puts Quant modules into a model; mixed into builders of weights, before them.

    A config without `input`, `output` and `bias` rounds the weight only. Modules without parameters
    are ReLU and Identity, whose output the config describes, and average pools, whose truncation it
    does.
    """

    if TYPE_CHECKING:

        def build(self, config: Any, weight: torch.Tensor) -> torch.Tensor:
            """Return the quantized weight."""

    def refusal(self, config: Any, target: Target) -> str | None:
        """Return why a parameter is left alone, or None: what the tensor says, and the module."""
        if PREPARED in target.module_classes:
            return "the module is quantized, or prepared for training, already"
        kind = target.module_classes[0] if target.module_classes else None
        if kind in _WEIGHTED and target.parameter != "weight":
            return f"it is no weight; the config of the weight has a field for the {kind}'s bias"
        builder: Any = super()
        reason: str | None = builder.refusal(config, target)
        if reason is None and kind is not None and kind not in _WITH_ACTIVATIONS:
            return _too_much(config, f"module class {kind}")
        return reason

    def plan_note(self, config: Any) -> str | None:
        """Return that weights stay floats until they are frozen."""
        return (
            "weights stay floats, and modules round them when they run: layouts and bytes are "
            "those of frozen weights"
        )

    def build_module(self, config: Any, module: "nn.Module", name: str) -> "nn.Module":
        """Return the module that rounds its weight, and what the config says beside it.

        A module of a class that has no counterpart is copied, and its weight is a quant tensor.

        Args:
            config: the config.
            module: the owner of the weight; parameters and hooks are shared with it.
            name: name of the weight.

        Raises:
            BuildError: the module's forward was exchanged, it cannot round what the config says, or
                the weight has no data, or values that are not finite.
        """
        from qconfig.modules import QuantConv1d, QuantConv2d, QuantEmbedding, QuantLinear
        from qconfig.modules.recorded_config import own_part

        weight: Any = getattr(module, name)
        if weight.is_meta:
            raise BuildError(
                "the parameter has no data", found="the meta device", hint="load it first"
            )
        kind = type(module).__name__
        if kind not in _WEIGHTED or name != "weight":
            _check_plain(config, kind)
            return self._with_tensor(config, module, name)
        _check_forward(module)
        source: Any = module
        # What a tensor cannot be made of, no module can round either.
        self.build(config, weight.detach())
        own = own_part(config)
        if kind == "Embedding":
            _check_plain(config, kind)
            return QuantEmbedding(source, weight=own)
        if config.bias is not None and source.bias is None:
            raise BuildError(
                f"the {kind} has no bias to quantize",
                pointer="/bias",
                found=type(config.bias).__name__,
                expected="null",
            )
        made: dict[str, Any] = {
            "Linear": QuantLinear,
            "Conv1d": QuantConv1d,
            "Conv2d": QuantConv2d,
        }
        result: nn.Module = made[kind](
            source, weight=own, input=config.input, output=config.output, bias=config.bias
        )
        return result

    def _with_tensor(self, config: Any, module: "nn.Module", name: str) -> "nn.Module":
        from torch import nn

        from qconfig.tensors.fake_quantized import adopt

        result: nn.Module = type(module).__new__(type(module))
        nn.Module.__init__(result)
        adopt(result, module)
        weight: Any = getattr(module, name)
        tensor = self.build(config, weight.detach())
        setattr(result, name, nn.Parameter(tensor, requires_grad=False))
        return result

    def activation_refusal(self, config: Any, target: ModuleTarget) -> str | None:
        """Return why the config cannot serve a module without parameters, or None."""
        kind = target.module_classes[0]
        if kind in _POOLS:
            return _pool_refusal(config)
        if kind not in _FUNCTIONS:
            return f"module class {kind} is none of " + ", ".join((*_FUNCTIONS, *_POOLS))
        if config.scale_kind is ScaleKind.EXTERNAL:
            return "scale_kind EXTERNAL is for biases and average pools"
        if not isinstance(getattr(config, "granularity", PerTensor()), PerTensor):
            return f"{kind} does not say how many channels there are, which PerAxis needs"
        for role in ("output", "bias"):
            if getattr(config, role) is not None:
                return f"{kind} has no {role} beside what the config itself describes"
        return None

    def build_activation_module(self, config: Any, module: "nn.Module") -> "nn.Module":
        """Return the module that rounds what `module` returns; its hooks are shared.

        Raises:
            BuildError: the module's forward was exchanged, or the config cannot serve it.
        """
        from qconfig.modules import (
            QuantIdentity,
            QuantReLU,
            TruncAdaptiveAvgPool2d,
            TruncAvgPool2d,
        )
        from qconfig.modules.recorded_config import own_part

        _check_forward(module)
        kind, own, source = type(module).__name__, own_part(config), module
        functions: dict[str, Any] = {"Identity": QuantIdentity, "ReLU": QuantReLU}
        pools: dict[str, Any] = {
            "AvgPool2d": TruncAvgPool2d,
            "AdaptiveAvgPool2d": TruncAdaptiveAvgPool2d,
        }
        result: nn.Module
        if kind in pools:
            result = pools[kind](source, trunc=own)
        else:
            result = functions[kind](source, act=own, input=config.input)
        return result


def _too_much(config: Any, what: str) -> str | None:
    """Return why a config says more than a module can round besides its weight, or None."""
    said = [role for role in _NESTED if getattr(config, role) is not None]
    return f"{what} does not round {' and '.join(said)}" if said else None


def _check_plain(config: Any, kind: str) -> None:
    reason = _too_much(config, f"module class {kind}")
    if reason is not None:
        raise BuildError(reason, hint="leave those fields out, or the module by a rule")


def _check_forward(module: "nn.Module") -> None:
    if "forward" in vars(module):
        raise BuildError(
            "the module's forward was exchanged, and quantizing needs its own",
            found="an attribute forward of the module",
            hint="quantize before what wraps the module, or leave it out by a rule",
        )


def _pool_refusal(config: Any) -> str | None:
    """Return why a config does not describe a truncation: it has bits and roundings, no scale."""
    if not isinstance(config, IntQuantConfig):
        return "average pools are truncated to integers only"
    if config.scale_kind is not ScaleKind.EXTERNAL:
        return "the scale of a truncated average is that of its input: scale_kind is EXTERNAL then"
    fields = {name: getattr(config, name) for name in _OF_POOLS}
    if IntQuantConfig(**fields) != config:
        return "a truncated average has no field but " + ", ".join(_OF_POOLS)
    return None
