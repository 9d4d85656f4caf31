"""Builder of quantization-aware training: fake-quantized modules in, packed weights out."""

from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import frozen

from qconfig.builders.base import (
    QparamsBuilder,
    Target,
    builder_of,
    register_builder,
)
from qconfig.builders.calibrated import needs_calibration
from qconfig.builders.qat_schemes import simulated_config
from qconfig.builders.torch_classes import torch_class
from qconfig.builders.weights import LINEAR_AND_EMBEDDING
from qconfig.configs.choices import QATStep
from qconfig.configs.qat import QATConfig
from qconfig.errors import BuildError
from qconfig.versioning import Config, Layout

if TYPE_CHECKING:
    import torch
    from torch import nn

    from qconfig.tensors.fake_quantized import FakeQuantizer


_FAKE = ("FakeQuantizedLinear", "FakeQuantizedEmbedding")


@frozen
class _Scheme:
    """What a config in its step means for a module.

    Args:
        base: the config whose rounding is simulated, or whose tensors are built.
        weights: whether weights are rounded.
        activations: whether activations are rounded.
        learned: whether scales are learned.
    """

    base: Config
    weights: bool = True
    activations: bool = True
    learned: bool = False


@register_builder(QATConfig)
class QATBuilder:
    """Puts fake-quantized modules into a model (PREPARE), and packed weights in their place."""

    def refusal(self, config: QATConfig, target: Target) -> str | None:
        """Return why a parameter is left alone, or None: what the base config says, and the step.

        Served are weights of Linear, and of Embedding where the base config serves it, but not of
        their subclasses: those have forwards of their own.
        """
        kind = _kind_of(target)
        is_fake = kind in _FAKE
        if target.parameter != "weight":
            return "it is not the weight of a module"
        if config.step is QATStep.CONVERT and not is_fake:
            return "the module is not prepared for training"
        if config.step is QATStep.PREPARE and is_fake:
            return "the module is prepared already"
        if not is_fake and kind not in LINEAR_AND_EMBEDDING:
            name = target.module_classes[0] if target.module_classes else None
            if name in LINEAR_AND_EMBEDDING:
                return f"module class {name} is not torch's own, and has a forward of its own"
            return f"module class {name} is neither Linear nor Embedding itself"
        base = _scheme(config).base
        return builder_of(base).refusal(base, target)

    def layout(self, config: QATConfig, target: Target) -> Layout:
        """Return the layout that the weight has in the end; in PREPARE it stays a float for now.

        Raises:
            BuildError: the fake quantizers have no counterpart that can be built, the base config
                needs calibration, or there is none to build with.
            FieldError or LayoutError: the base config does not fit the shape.
        """
        base = _scheme(config).base
        builder = builder_of(base)
        if needs_calibration(base):
            raise BuildError(
                "what needs calibration cannot be trained",
                pointer="/base_config",
                found=type(base).__name__,
                expected="a config that quantizes weights by itself",
                hint="give it the scales of activations, if it has fields for them",
            )
        return builder.layout(base, target)

    def build(self, config: QATConfig, weight: "torch.Tensor") -> "torch.Tensor":
        """Refuse: there is no module.

        Raises:
            BuildError: always.
        """
        raise BuildError(
            "training needs the modules of a live model",
            found="a weight alone",
            hint=f"quantize the checkpoint with {type(_scheme(config).base).__name__}",
        )

    def plan_note(self, config: QATConfig) -> str | None:
        """Return that weights stay floats in the step PREPARE."""
        if config.step is QATStep.CONVERT:
            return None
        return "weights stay floats while they are trained: layouts and bytes are those of CONVERT"

    def build_module(self, config: QATConfig, module: "nn.Module", name: str) -> "nn.Module":
        """Return the fake-quantized module, or in CONVERT the ordinary one with a packed weight.

        Args:
            config: the config.
            module: a Linear or Embedding, prepared in CONVERT; it is left as it is.
            name: "weight".

        Raises:
            BuildError: the base config rounds otherwise than what was trained, or learned scales
                are asked for where there are none.
        """
        if config.step is QATStep.CONVERT:
            return _converted(config, module)
        return _prepared(_scheme(config), module)


def _kind_of(target: Target) -> str | None:
    """Return the name of the class of a module that is torch's own or ours; None for others."""
    if target.module_type is None:
        return torch_class(target)
    from qconfig.tensors.fake_quantized import FakeQuantizedEmbedding, FakeQuantizedLinear

    ours: dict[type, str] = dict(
        zip((FakeQuantizedLinear, FakeQuantizedEmbedding), _FAKE, strict=True)
    )
    return ours.get(target.module_type) or torch_class(target)


def _scheme(config: QATConfig) -> _Scheme:
    if config.base_config is not None:
        return _Scheme(config.base_config)
    if config.step is QATStep.CONVERT:
        raise BuildError(
            "the step CONVERT does not say what to build",
            pointer="/base_config",
            found=None,
            expected="the config, or the counterpart of the fake quantizers, of the step PREPARE",
        )
    weight, activation = config.weight_config, config.activation_config
    return _Scheme(
        simulated_config(activation, weight),
        weights=weight is not None,
        activations=activation is not None,
        learned=bool(getattr(weight, "range_learning", False)),
    )


def _prepared(scheme: _Scheme, module: "nn.Module") -> "nn.Module":
    from qconfig.tensors.fake_quantized import FAKE_QUANTIZED, FakeQuantizer, LearnedRange

    if "forward" in vars(module):
        raise BuildError(
            "the module's forward was exchanged, and training needs its own",
            found="an attribute forward of the module",
            hint="prepare before what wraps the module, or leave it out by a rule",
        )
    source: Any = module
    base, builder = scheme.base, builder_of(scheme.base)
    build = partial(builder.build, base)
    learned = None
    if scheme.learned:
        if not isinstance(builder, QparamsBuilder):
            raise _nothing_to_learn(base)
        packed: Any = build(source.weight.detach())
        learned = LearnedRange(packed, partial(builder.build_with_qparams, base))
    quantizer = FakeQuantizer(
        build, learned, weights=scheme.weights, activations=scheme.activations
    )
    prepared: Any = FAKE_QUANTIZED[type(module)]
    result: nn.Module = prepared(source, quantizer)
    return result


def _converted(config: QATConfig, module: "nn.Module") -> "nn.Module":
    from torch import nn

    from qconfig.tensors.fake_quantized import plain_module

    trained: Any = module
    quantizer: FakeQuantizer = trained.fake_quantizer
    base = _scheme(config).base
    simulated: Any = quantizer.packed(trained.weight)
    if quantizer.learned is None:
        packed = builder_of(base).build(base, trained.weight.detach())
    else:
        builder = builder_of(base)
        if not isinstance(builder, QparamsBuilder):
            raise _nothing_to_learn(base)
        zero_point = simulated.zero_point
        packed = builder.build_with_qparams(
            base, trained.weight.detach(), simulated.scale, zero_point
        )
    _check_alike(base, quantizer, simulated, packed)
    plain: Any = plain_module(trained)
    plain.weight = nn.Parameter(packed, requires_grad=False)
    result: nn.Module = plain
    return result


def _check_alike(base: Config, quantizer: "FakeQuantizer", simulated: Any, packed: Any) -> None:
    import torch

    differs = None
    if quantizer.rounds_weights and not torch.equal(simulated.dequantize(), packed.dequantize()):
        differs = "the weight"
    if quantizer.rounds_activations:
        rows, columns = packed.shape
        both = (simulated, packed)
        if not torch.equal(*[t.activation_seen(_probe(columns, t)) for t in both]):
            differs = "the activation"
        elif not torch.equal(*[t.output_seen(_probe(rows, t)) for t in both]):
            differs = "the output"
    if differs is not None:
        raise BuildError(
            f"the base config rounds {differs} otherwise than the module was trained with",
            pointer="/base_config",
            found=type(base).__name__,
            expected="the config, or the counterpart of the fake quantizers, of the step PREPARE",
        )


def _probe(columns: int, like: "torch.Tensor") -> "torch.Tensor":
    import torch

    values = torch.linspace(-3, 4, 2 * columns).view(2, columns)
    return values.to(like.device, like.dtype)


def _nothing_to_learn(base: Config) -> BuildError:
    return BuildError(
        f"{type(base).__name__} takes no scales that were learned",
        expected="a config whose builder has build_with_qparams",
        hint="set range_learning to false",
    )
