"""What quantized layers share: what goes in, what is multiplied, what comes out."""

from typing import Any, NamedTuple, cast

import torch

from qconfig.errors import QuantTensorError
from qconfig.modules.activation_quantizer import ActivationQuantizer
from qconfig.modules.bias_quantizer import (
    BiasQuantizer,
    ExternalBiasQuantizer,
    bias_quantizer,
)
from qconfig.modules.metadata_cache import UsesMetadata, plain
from qconfig.modules.weight_quantizer import WeightQuantizer
from qconfig.tensors.fake_quantized import PreparedForTraining
from qconfig.tensors.quant_tensor.base import QuantTensor
from qconfig.versioning import Config


class QuantModule(PreparedForTraining, UsesMetadata):
    """A module that may return quant tensors.

    Attributes:
        return_quant_tensor: whether the output keeps its metadata; else it is a plain tensor.
    """

    return_quant_tensor: bool

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

    Attributes:
        weight_quant, bias_quant, input_quant, output_quant: the quantizers, or None.
    """

    weight_quant: WeightQuantizer | None
    bias_quant: BiasQuantizer | None
    input_quant: ActivationQuantizer | None
    output_quant: ActivationQuantizer | None

    def _init_quantizers(
        self,
        *,
        weight: Config | None,
        bias: Config | None,
        inputs: tuple[Config | None, tuple[int, ...]],
        outputs: tuple[Config | None, tuple[int, ...]],
        return_quant_tensor: bool,
    ) -> None:
        """Set up the quantizers, on the device of the weight.

        Args:
            weight: config of the weight, or None.
            bias: that of the bias, or None; without a bias there is nothing to quantize.
            inputs: config of the input, and the shape of an input with its channels only.
            outputs: likewise.
            return_quant_tensor: whether the output keeps its metadata.
        """
        self._init_metadata()
        self.return_quant_tensor = return_quant_tensor
        layer: Any = self
        values, own = layer.weight, layer.bias
        self.weight_quant = None if weight is None else WeightQuantizer(weight, values)
        self.bias_quant = None if bias is None or own is None else bias_quantizer(bias, own)
        for name, (config, channels) in (("input_quant", inputs), ("output_quant", outputs)):
            made = None
            if config is not None:
                # Statistics of many steps need more bits than activations of 16 have.
                wide = torch.promote_types(torch.float32, values.dtype)
                made = ActivationQuantizer(config, channels).to(values.device, wide)
            setattr(self, name, made)
        self.train(self.training)

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
        scales = (self._scale_of(input), _own_scale(weight))
        if scales[0] is None or scales[1] is None:
            raise self._no_scale(*scales)
        wrapped: torch.Tensor = self.bias_quant(bias, *scales)
        return wrapped

    def _scale_of(self, input: Any) -> torch.Tensor | None:  # noqa: A002
        own, remembered = _own_scale(input), self.remembered
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
            known, remembered = seen.scale, self.remembered
            if known is None and remembered is not None:
                known = remembered.scale
            if known is None or weight.scale is None:
                raise self._no_scale(known, weight.scale)
            bias = self.bias_quant(bias, known, weight.scale, wrap=False).value
        elif bias is not None:
            bias = rounded(self.bias_quant, bias).value
        return self._product(seen.value, weight.value, bias)


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
