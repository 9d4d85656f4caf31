"""What quantized layers share: what goes in, what is multiplied, what comes out."""

from typing import Any, NamedTuple, cast

import torch
from torch import nn

from qconfig.errors import QuantTensorError
from qconfig.modules.activation_quantizer import ActivationQuantizer
from qconfig.modules.bias_quantizer import BiasQuantizer, ExternalBiasQuantizer, bias_quantizer
from qconfig.modules.construction import TakesModule, check_source
from qconfig.modules.metadata_cache import UsesMetadata, plain
from qconfig.modules.weight_quantizer import WeightQuantizer
from qconfig.tensors.fake_quantized import PreparedForTraining, adopt
from qconfig.tensors.quant_tensor.base import QuantTensor
from qconfig.versioning import Config


class QuantModule(TakesModule, PreparedForTraining, UsesMetadata):
    """A module that may return quant tensors.

    Attributes:
        return_quant_tensor: whether the output keeps its metadata; else it is a plain tensor.
    """

    return_quant_tensor: bool

    def _init_from(self, source: nn.Module | None, *, return_quant_tensor: bool) -> None:
        """Begin as the module that this one takes the place of; None for a new one."""
        check_source(type(self), source)
        nn.Module.__init__(self)
        if source is not None:
            adopt(self, source)
        self._init_metadata()
        self.return_quant_tensor = return_quant_tensor

    @property
    def returns_plain(self) -> bool:
        """Whether plain tensors are returned, because nothing else is asked for or possible."""
        return not self.return_quant_tensor or self.is_plain

    def quantized_output(
        self, quantizer: ActivationQuantizer, output: torch.Tensor
    ) -> torch.Tensor:
        """Return an output that a quantizer rounds, as `return_quant_tensor` says."""
        wrap = not self.returns_plain
        found: Any = quantizer(output, wrap=wrap)
        result: torch.Tensor = found if wrap else found.value
        return result

    def packed_output(self, output: torch.Tensor) -> torch.Tensor:
        """Return an output as `return_quant_tensor` says.

        Raises:
            QuantTensorError: it has no metadata that could be returned.
        """
        if self.returns_plain:
            found: torch.Tensor = plain(output)
            return found
        if not isinstance(output, QuantTensor):
            raise QuantTensorError(
                f"{type(self).__name__} has no quant tensor to return",
                found=self.missing_metadata(),
                expected="an input and a weight that are quantized, or an output quantizer",
                hint="configure them, give the module a quant tensor, or set "
                "return_quant_tensor to False",
            )
        return output

    def missing_metadata(self) -> str:
        """Return what there is instead of metadata, for an error."""
        names = ("input_quant", "weight_quant", "output_quant", "act_quant")
        there = [name for name in names if getattr(self, name, None) is not None]
        return "no metadata" + (f", quantizers: {', '.join(there)}" if there else "")


class QuantWeightLayer(QuantModule):
    """A layer with a weight, and optionally a bias, each with an optional quantizer.

    Args:
        source: the module that it takes the place of; parameters and hooks are shared with it, and
            quantizers are on the device of its weight.
        weight: config of the weight, or None for none.
        bias: config of the bias; without a bias it is not used.
        input: config of the input.
        output: config of the output.
        return_quant_tensor: whether the output keeps its metadata.

    Attributes:
        weight_quant, bias_quant, input_quant, output_quant: the quantizers, or None.
    """

    weight_quant: WeightQuantizer | None
    bias_quant: BiasQuantizer | None
    input_quant: ActivationQuantizer | None
    output_quant: ActivationQuantizer | None

    def __init__(
        self,
        source: Any,
        *,
        weight: Config | None = None,
        bias: Config | None = None,
        input: Config | None = None,  # noqa: A002
        output: Config | None = None,
        return_quant_tensor: bool = False,
    ) -> None:
        self._init_from(source, return_quant_tensor=return_quant_tensor)
        layer: Any = self
        values, own = layer.weight, layer.bias
        self.weight_quant = None if weight is None else WeightQuantizer(weight, values)
        self.bias_quant = None if bias is None or own is None else bias_quantizer(bias, own)
        inputs, outputs = self._channels()
        self.input_quant = _activation_quantizer(input, inputs, values)
        self.output_quant = _activation_quantizer(output, outputs, values)
        self.train(self.training)

    def _channels(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the shapes of an input and of an output with their channels only."""
        raise NotImplementedError

    def quant_weight(self) -> torch.Tensor:
        """Return the quantized weight, or the weight itself where no quantizer is for it."""
        weight: torch.Tensor = cast("Any", self).weight
        return weight if self.weight_quant is None else self.weight_quant(weight)

    def quant_bias(
        self,
        input: torch.Tensor | None = None,  # noqa: A002
        weight: torch.Tensor | None = None,
    ) -> torch.Tensor | None:
        """Return the quantized bias, or the bias itself where no quantizer is for it.

        Args:
            input: the quantized input, whose scale the bias may need; what is remembered of it
                takes its place in `plain_inference`.
            weight: the quantized weight, by default that of this moment.

        Raises:
            QuantTensorError: the bias takes its scale from the input, and that has none.
        """
        bias: torch.Tensor | None = cast("Any", self).bias
        if bias is None or self.bias_quant is None:
            return bias
        if not isinstance(self.bias_quant, ExternalBiasQuantizer):
            found: torch.Tensor = self.bias_quant(bias)
            return found
        weight = self.quant_weight() if weight is None else weight
        scales = (self._input_scale(_own_scale(input)), _own_scale(weight))
        if scales[0] is None or scales[1] is None:
            raise self._no_scale(*scales)
        wrapped: torch.Tensor = self.bias_quant(bias, *scales)
        return wrapped

    def _input_scale(self, own: torch.Tensor | None) -> torch.Tensor | None:
        """Return the scale of an input, or what is remembered where it has none."""
        remembered = self.remembered
        return remembered.scale if own is None and remembered is not None else own

    def _no_scale(
        self,
        input_scale: torch.Tensor | None,
        weight_scale: torch.Tensor | None,
    ) -> QuantTensorError:
        scales = (("input", input_scale), ("weight", weight_scale))
        missing = [f"no scale of the {what}" for what, scale in scales if scale is None]
        return QuantTensorError(
            f"the bias of {type(self).__name__} has the scale of input times weight, and that is "
            "not known",
            found=" and ".join(missing),
            expected="an input and a weight that are quantized",
            hint="give the layer an input quantizer (`input` of its config) or a quant tensor, "
            "set return_quant_tensor on the module before it, or give the bias a scale of its own",
        )

    def _product(
        self,
        input: torch.Tensor,  # noqa: A002
        weight: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> torch.Tensor:
        raise NotImplementedError

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
        """Return the product of what input and weight are rounded to, rounded itself if asked for.

        Args:
            input: a plain or quant tensor, as the ordinary module takes it.

        Raises:
            QuantTensorError: the bias needs a scale of the input, or a quant tensor is to be
                returned and cannot be.
            UncalibratedError: a quantizer of activations has seen nothing yet.
        """
        seen = self.received(input)
        if self.output_quant is None and not self.returns_plain:
            seen = seen if self.input_quant is None else self.input_quant(seen)
            weight = self.quant_weight()
            return self.packed_output(self._product(seen, weight, self.quant_bias(seen, weight)))
        product = self._rounded_product(seen)
        if self.output_quant is None:
            return product
        return self.quantized_output(self.output_quant, product)

    def _rounded_product(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
        """Return the product of rounded values as a plain tensor; nothing is wrapped meanwhile."""
        layer: Any = self
        seen = rounded(self.input_quant, input)
        weight = rounded(self.weight_quant, layer.weight)
        bias = layer.bias
        if bias is not None and isinstance(self.bias_quant, ExternalBiasQuantizer):
            known = self._input_scale(seen.scale)
            if known is None or weight.scale is None:
                raise self._no_scale(known, weight.scale)
            bias = self.bias_quant(bias, known, weight.scale, wrap=False).value
        elif bias is not None:
            bias = rounded(self.bias_quant, bias).value
        return self._product(seen.value, weight.value, bias)


def _activation_quantizer(
    config: Config | None, channels: tuple[int, ...], like: torch.Tensor
) -> ActivationQuantizer | None:
    if config is None:
        return None
    # Statistics of many steps need more bits than activations of 16 have.
    wide = torch.promote_types(torch.float32, like.dtype)
    return ActivationQuantizer(config, channels).to(like.device, wide)


def rounded(quantizer: Any, tensor: torch.Tensor) -> Any:
    """Return values and scale of what a quantizer makes of a tensor, without wrapping them.

    Args:
        quantizer: of a weight, a bias or activations; None leaves the tensor as it is.
        tensor: plain, or a quant tensor, which has a scale already.

    Returns:
        What has `value` and `scale`, which is None where there is none.
    """
    if quantizer is not None:
        return quantizer(tensor, wrap=False)
    return tensor if isinstance(tensor, QuantTensor) else _Plain(tensor, None)


class _Plain(NamedTuple):
    value: torch.Tensor
    scale: None


def _own_scale(tensor: Any) -> torch.Tensor | None:
    return tensor.scale if isinstance(tensor, QuantTensor) else None
