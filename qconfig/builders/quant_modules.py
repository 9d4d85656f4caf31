"""Modules that round weights and activations when they run, in the place of torch's own.

What the builders of the fake-quantized family share beside tensors: a live model gets modules whose
weights stay floats and can be trained; checkpoints, and modules that have no counterpart, get the
tensor of a weight.
"""

from typing import TYPE_CHECKING, Any

from qconfig.builders.base import PREPARED, ModuleTarget, Target
from qconfig.builders.quant_layers import activation_refusal, layer_refusal
from qconfig.builders.torch_classes import torch_class
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
_QUANTIZERS = ("weight_quant", "bias_quant", "input_quant", "output_quant", "act_quant")
_STATE = ("threshold", "zero_point", "bit_width", "statistic", "zero_point_statistic")
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
        if _is_state(target):
            return "it is the state of a quantizer"
        kind = torch_class(target)
        if kind in _WEIGHTED and target.parameter != "weight":
            return f"it is no weight; the config of the weight has a field for the {kind}'s bias"
        builder: Any = super()
        reason: str | None = builder.refusal(config, target)
        if reason is not None or target.module_type is None:
            # Without a model, weights are all that is quantized, whatever the config says besides.
            return reason
        if kind not in _WITH_ACTIVATIONS:
            return _too_much(config, f"module class {target.module_classes[0]}")
        return layer_refusal(config, target)

    def plan_note(self, config: Any) -> str | None:
        """Return that weights stay floats until they are frozen, and what a bias needs."""
        note = (
            "weights stay floats, and modules round them when they run: layouts and bytes are "
            "those of frozen weights"
        )
        bias = config.bias
        if bias is None or config.input is not None or bias.scale_kind is not ScaleKind.EXTERNAL:
            return note
        return note + (
            "; without an input config, a bias has a scale only where the module before returns "
            "quant tensors"
        )

    def checkpoint_note(self, config: Any) -> str | None:
        """Return that stored weights stay floats, and what of a config is for modules."""
        note = "weights stay floats, rounded to a grid; packed, they are smaller"
        said = [role for role in _NESTED if getattr(config, role) is not None]
        if not said:
            return note
        return f"only weights are quantized, without {' and '.join(said)} of the config; {note}"

    def training_record(self, fqn: str) -> str:
        """Return the name of the config that is recorded beside a weight which still trains."""
        owner, _, _ = fqn.rpartition(".")
        return f"{owner}.weight_quant.config" if owner else "weight_quant.config"

    def training_disagreement(self, config: Any, record: "torch.Tensor") -> tuple[str, str] | None:
        """Return what config is recorded and what is the config of the weight, if they differ."""
        from qconfig.modules.recorded_config import contradiction, own_part

        problem = contradiction(own_part(config), record)
        return None if problem is None else (str(problem.found), str(problem.expected))

    def build_module(self, config: Any, module: "nn.Module", name: str) -> "nn.Module":
        """Return the module that rounds its weight, and what the config says beside it.

        A module of a class that has no counterpart is copied, and its weight is a quant tensor;
        that goes for subclasses too, whose forward is their own. A layer without a bias has none
        to round.

        Args:
            config: the config.
            module: the owner of the weight; parameters and hooks are shared with it.
            name: name of the weight.

        Raises:
            BuildError: the module's forward was exchanged, it cannot round what the config says, or
                the weight has no data, or values that are not finite.
        """
        from torch import nn

        from qconfig.modules import QuantConv1d, QuantConv2d, QuantEmbedding, QuantLinear
        from qconfig.modules.recorded_config import own_part

        weight: Any = getattr(module, name)
        if weight.is_meta:
            raise BuildError(
                "the parameter has no data", found="the meta device", hint="load it first"
            )
        layers: dict[type, Any] = {
            nn.Linear: QuantLinear,
            nn.Conv1d: QuantConv1d,
            nn.Conv2d: QuantConv2d,
        }
        cls = type(module)
        if name != "weight" or (cls not in layers and cls is not nn.Embedding):
            _check_plain(config, cls.__name__)
            return self._with_tensor(config, module, name)
        _check_forward(module)
        source: Any = module
        # What a tensor cannot be made of, no module can round either.
        self.build(config, weight.detach())
        own = own_part(config)
        if cls is nn.Embedding:
            _check_plain(config, cls.__name__)
            return QuantEmbedding(source, weight=own)
        result: nn.Module = layers[cls](
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
        if PREPARED in target.module_classes:
            return "the module is quantized already"
        kind = torch_class(target)
        if kind in _POOLS:
            return _pool_refusal(config)
        if kind not in _FUNCTIONS:
            name = target.module_classes[0]
            known = ", ".join((*_FUNCTIONS, *_POOLS))
            whose = "torch's own " if name in {*_FUNCTIONS, *_POOLS} else ""
            return f"module class {name} is none of {whose}{known}"
        if config.scale_kind is ScaleKind.EXTERNAL:
            return "scale_kind EXTERNAL is for biases and average pools"
        for role in ("output", "bias"):
            if getattr(config, role) is not None:
                return f"{kind} has no {role} beside what the config itself describes"
        reason = activation_refusal(config)
        if reason is None and config.input is not None:
            reason = activation_refusal(config.input)
        return reason and f"{kind}: {reason}"

    def build_activation_module(self, config: Any, module: "nn.Module") -> "nn.Module":
        """Return the module that rounds what `module` returns; its hooks are shared.

        Raises:
            BuildError: the module's forward was exchanged, or the config cannot serve it.
        """
        from torch import nn

        from qconfig.modules import (
            QuantIdentity,
            QuantReLU,
            TruncAdaptiveAvgPool2d,
            TruncAvgPool2d,
        )
        from qconfig.modules.recorded_config import own_part

        _check_forward(module)
        cls, own, source = type(module), own_part(config), module
        functions: dict[type, Any] = {nn.Identity: QuantIdentity, nn.ReLU: QuantReLU}
        pools: dict[type, Any] = {
            nn.AvgPool2d: TruncAvgPool2d,
            nn.AdaptiveAvgPool2d: TruncAdaptiveAvgPool2d,
        }
        result: nn.Module
        if cls in pools:
            result = pools[cls](source, trunc=own)
        elif cls in functions:
            result = functions[cls](source, act=own, input=config.input)
        else:
            raise BuildError(
                "no module rounds what a module of this class returns",
                found=f"{cls.__module__}.{cls.__qualname__}",
                expected="torch's own " + ", ".join((*_FUNCTIONS, *_POOLS)),
            )
        return result


def _is_state(target: Target) -> bool:
    """Return whether a parameter is what a quantizer learned or has seen, by its name."""
    owner = target.module.rpartition(".")[2]
    return owner in _QUANTIZERS and target.parameter in _STATE


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
