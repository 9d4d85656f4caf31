"""Modules that train with the rounding of a quantized weight: what they compute, they convert to.

A fake-quantized weight has the values of the packed tensor that its builder would build at this
moment, so that any builder can be trained for, and nothing of its arithmetic is written twice.
Gradients pass straight through the rounding (Bengio et al., arXiv 1308.3432). Where the scales are
learned, their gradients are those of LSQ (Esser et al., arXiv 1902.08153) and LSQ+ (Bhalgat et
al., arXiv 2004.09576): of `(clamp(round(w / s) + z) - z) * s` with straight-through rounding.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import nn
from torch.nn import functional

from qconfig.tensors.matrix import MatrixTensor
from qconfig.tensors.matrix_ops import autocast_operands
from qconfig.tensors.quantizers.gradients import with_gradient_of

Build = Callable[[torch.Tensor], torch.Tensor]
"""From a weight to the packed tensor; picklable."""
BuildWithQparams = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor]
"""From a weight, scales and zero points to the packed tensor; picklable."""

_F = TypeVar("_F", bound=Callable[..., Any])
_LEAST_SCALE = 2.0**-23


def _eager(function: _F) -> _F:
    """Keep a function out of compiled graphs: builders look at values and write into buffers."""
    return cast("_F", torch.compiler.disable(function))  # type: ignore[no-untyped-call]


def replaced(source: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Return `value`, with the gradient that `source` would have.

    Args:
        source: differentiable.
        value: what it is rounded to, of its shape.
    """
    return with_gradient_of(source, value.to(source.dtype))


class LearnedRange(nn.Module):
    """Scales and zero points of a weight as parameters.

    Args:
        packed: the packed tensor that they start from; its `code_bounds` are those of the codes.
        build: makes the packed tensor of given ones.

    Attributes:
        scale: float32, in the shape of the layout's; what is used is at least 2**-23, with the
            gradient of what is used, so that a scale which fell below can rise again.
        zero_point: float32, shaped like `scale`, or None; what is used is rounded and clamped.
    """

    def __init__(self, packed: MatrixTensor, build: BuildWithQparams) -> None:
        super().__init__()
        self.bounds = packed.code_bounds()
        self.build = build
        fields: Any = packed
        self.scale = nn.Parameter(fields.scale.float().clone())
        zero_point = fields.zero_point
        self.zero_point: nn.Parameter | None
        learned = None if zero_point is None else nn.Parameter(zero_point.float().clone())
        self.register_parameter("zero_point", learned)
        self.scale_dtype: torch.dtype = fields.scale.dtype

    def packed(self, weight: torch.Tensor) -> MatrixTensor:
        """Return the packed tensor of a weight with the scales of this moment."""
        with torch.no_grad():
            scale, zero_point = self._used()
            codes = None if zero_point is None else zero_point.to(torch.int8)
            return cast(
                "MatrixTensor", self.build(weight.detach(), scale.to(self.scale_dtype), codes)
            )

    def values(self, weight: torch.Tensor) -> torch.Tensor:
        """Return the differentiable values of a weight: of itself, the scales and zero points."""
        low, high = self.bounds
        scale, zero = self._used()
        blocks = [n for pair in zip(scale.shape, weight.shape, strict=True) for n in _tile(*pair)]
        per_block = [n for size in scale.shape for n in (size, 1)]
        tiled, step = weight.float().reshape(blocks), scale.reshape(per_block)
        shift = torch.zeros_like(step) if zero is None else zero.reshape(per_block)
        codes = (_rounded(tiled / step) + shift).clamp(low, high)
        return ((codes - shift) * step).reshape(weight.shape).to(weight.dtype)

    def _used(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        scale = self.scale.to(self.scale_dtype).float()
        scale = replaced(scale, scale.detach().clamp(min=_LEAST_SCALE))
        zero: torch.Tensor | None = self.zero_point
        return scale, None if zero is None else _rounded(zero.clamp(*self.bounds))


def _tile(blocks: int, size: int) -> tuple[int, int]:
    return blocks, size // blocks if blocks else 1


def _rounded(value: torch.Tensor) -> torch.Tensor:
    return replaced(value, value.detach().round())


def keep_from_fusing(module: nn.Module) -> None:
    """Give a module that is never called a hook that does nothing.

    torch's fused encoder layers read weights past the forward of the layers in them, unless any
    module in there has a hook.
    """
    module.register_forward_pre_hook(_nothing)


def _nothing(_module: nn.Module, _args: Any) -> None:
    """Do nothing: a hook that is there to be seen."""


class FakeQuantizer(nn.Module):
    """What the weight of a module is rounded to, and its activations and outputs.

    Args:
        build: makes the packed tensor of a weight.
        learned: scales that are learned, instead of those that `build` finds.
        weights: whether weights are rounded.
        activations: whether activations and outputs are rounded.
    """

    def __init__(
        self,
        build: Build,
        learned: LearnedRange | None = None,
        *,
        weights: bool = True,
        activations: bool = True,
    ) -> None:
        super().__init__()
        self.build = build
        self.learned = learned
        keep_from_fusing(self)
        self.rounds_weights = weights
        self.rounds_activations = activations

    def packed(self, weight: torch.Tensor) -> MatrixTensor:
        """Return the packed tensor that the weight would become now."""
        if self.learned is not None:
            return self.learned.packed(weight)
        with torch.no_grad():
            return cast("MatrixTensor", self.build(weight.detach()))

    def weight(self, weight: torch.Tensor, packed: MatrixTensor) -> torch.Tensor:
        """Return the rounded weight, differentiable."""
        if not self.rounds_weights:
            return weight
        source = weight if self.learned is None else self.learned.values(weight)
        return replaced(source, packed.dequantize(weight.dtype))

    def activation(self, activation: torch.Tensor, packed: MatrixTensor) -> torch.Tensor:
        """Return the rounded activation, differentiable."""
        if not self.rounds_activations:
            return activation
        with torch.no_grad():
            seen = packed.activation_seen(activation.detach())
        return replaced(activation, seen)

    def output(self, output: torch.Tensor, packed: MatrixTensor) -> torch.Tensor:
        """Return the rounded output, differentiable."""
        if not self.rounds_activations:
            return output
        with torch.no_grad():
            seen = packed.output_seen(output.detach())
        return replaced(output, seen)


class PreparedForTraining:
    """A module that stands in for another while a model trains: it is converted, not quantized.

    Plans know it by this name, `qconfig.builders.base.PREPARED`.
    """


class FakeQuantizedLinear(PreparedForTraining, nn.Linear):
    """A Linear whose weight, and activation where its scheme says so, is rounded when it runs.

    Args:
        source: the Linear that it takes the place of; parameters and hooks are shared with it.
        quantizer: what it rounds to.
    """

    def __init__(self, source: nn.Linear, quantizer: FakeQuantizer) -> None:
        nn.Module.__init__(self)
        adopt(self, source)
        self.fake_quantizer = quantizer.train(source.training)

    @_eager
    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
        """Return `input @ weight.T + bias` of what both are rounded to.

        Args:
            input: (..., K), floating point.
        """
        quantizer = self.fake_quantizer
        packed = quantizer.packed(self.weight)
        # What a packed weight would be given under autocast is what is rounded here.
        activation, bias = autocast_operands(input, self.bias)
        seen = quantizer.activation(activation, packed)
        product = functional.linear(seen, quantizer.weight(self.weight, packed), bias)
        return quantizer.output(product, packed)


class FakeQuantizedEmbedding(PreparedForTraining, nn.Embedding):
    """An Embedding whose weight is rounded when it runs.

    Args:
        source: the Embedding that it takes the place of; parameters and hooks are shared with it.
        quantizer: what it rounds to.
    """

    def __init__(self, source: nn.Embedding, quantizer: FakeQuantizer) -> None:
        nn.Module.__init__(self)
        adopt(self, source)
        self.fake_quantizer = quantizer.train(source.training)

    @_eager
    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
        """Return the rows of the rounded weight; what `max_norm` scales is them, not the weight.

        Args:
            input: indices, integers of any shape.
        """
        quantizer = self.fake_quantizer
        rounded = quantizer.weight(self.weight, quantizer.packed(self.weight))
        return functional.embedding(
            input,
            rounded if self.max_norm is None else rounded.clone(),
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )


FAKE_QUANTIZED = {nn.Linear: FakeQuantizedLinear, nn.Embedding: FakeQuantizedEmbedding}
"""What takes the place of a module, by its class itself."""

_CHILDREN = frozenset({"_parameters", "_buffers", "_modules"})


def adopt(module: nn.Module, source: nn.Module) -> None:
    """Take over what a module has: sizes, mode, hooks, parameters, and what was put on it.

    Args:
        module: where `nn.Module.__init__` has run, and nothing else.
        source: it is left as it is; children, parameters and buffers are shared.
    """
    vars(module).update(
        {name: dict(value) if name in _CHILDREN else value for name, value in vars(source).items()}
    )


def plain_module(module: "FakeQuantizedLinear | FakeQuantizedEmbedding") -> nn.Module:
    """Return the ordinary module of a fake-quantized one; they share parameters and hooks."""
    kind = nn.Embedding if isinstance(module, FakeQuantizedEmbedding) else nn.Linear
    result: nn.Module = kind.__new__(kind)
    nn.Module.__init__(result)
    adopt(result, module)
    del result.fake_quantizer
    return result
