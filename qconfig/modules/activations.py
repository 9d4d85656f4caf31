"""QuantIdentity and QuantReLU: activations that are rounded when they run."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from qconfig.modules.activation_quantizer import ActivationQuantizer
from qconfig.modules.layer import QuantModule
from qconfig.modules.metadata_cache import plain
from qconfig.versioning import Config


class _QuantActivation(QuantModule):
    act_quant: ActivationQuantizer | None
    input_quant: ActivationQuantizer | None
    _function: Callable[[torch.Tensor], torch.Tensor]

    def __init__(
        self,
        source: nn.Module | None = None,
        *,
        act: Config | None = None,
        input: Config | None = None,  # noqa: A002
        channels: tuple[int, ...] = (),
        return_quant_tensor: bool = False,
    ) -> None:
        self._init_from(source, return_quant_tensor=return_quant_tensor)
        self.act_quant = None if act is None else ActivationQuantizer(act, channels)
        self.input_quant = None if input is None else ActivationQuantizer(input, channels)
        self.train(self.training)

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
        """Return the rounded activation; without a quantizer, what is given keeps its metadata.

        Args:
            input: a plain or quant tensor of any shape.

        Raises:
            QuantTensorError: a quant tensor is to be returned, and there is no metadata.
            UncalibratedError: a quantizer has seen nothing yet.
        """
        seen = self.received(input)
        if self.input_quant is not None:
            seen = self.input_quant(seen)
        if self.act_quant is None:
            return self.packed_output(self._apply_function(seen))
        return self.quantized_output(self.act_quant, self._apply_function(plain(seen)))

    def _apply_function(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
        raise NotImplementedError


class QuantIdentity(_QuantActivation, nn.Identity):
    """An activation that is rounded and otherwise left as it is.

    Args:
        source: the Identity that it takes the place of; hooks are shared with it.
        act: config of what is returned, or None for none.
        input: config of what the function is given, or None for none.
        channels: shape of an activation with its channels only, such as (1, 64, 1, 1), where
            scales are per axis.
        return_quant_tensor: whether the output keeps its metadata.

    Raises:
        BuildError: a config cannot serve activations.
    """

    def _apply_function(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
        return input


class QuantReLU(_QuantActivation, nn.ReLU):
    """A ReLU whose output is rounded; arguments are those of QuantIdentity."""

    inplace = False

    def _apply_function(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
        return functional.relu(input)
