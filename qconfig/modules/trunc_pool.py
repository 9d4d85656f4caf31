"""Average pools whose division drops bits: the lowest ones of the sum go.

They compute with a value and with numbers beside it, so that the numbers may come from the input
itself or, where plain tensors flow, from what is remembered of it.
"""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import nn

from qconfig.configs.int_quant import IntQuantConfig
from qconfig.configs.quant_choices import RoundingMode
from qconfig.errors import QuantTensorError
from qconfig.modules.layer import QuantModule
from qconfig.modules.metadata_cache import InputMetadata, plain
from qconfig.modules.truncation import averaged_bits, truncated
from qconfig.tensors.quant_tensor import IntQuantTensor

_Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
ROUND_TO_8_BIT = IntQuantConfig(bit_width=8, rounding=RoundingMode.ROUND)
"""What Brevitas truncates to by default."""


class _TruncPool(QuantModule):
    def __init__(
        self,
        source: Any,
        *,
        trunc: IntQuantConfig | None = ROUND_TO_8_BIT,
        return_quant_tensor: bool = False,
    ) -> None:
        self._init_from(source, return_quant_tensor=return_quant_tensor)
        self.trunc_config = trunc

    def _pooled(self, value: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def _window(self, shape: Any) -> int:
        raise NotImplementedError

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
        """Return averages of `bit_width` bits; those of a plain tensor are ordinary averages.

        Args:
            input: (N, C, H, W) or (C, H, W); an IntQuantTensor, or in `plain_inference` a plain
                tensor in its place.

        Raises:
            QuantTensorError: the input is neither, though a quant tensor is to be returned; or in
                `plain_inference`, nothing was recorded.
        """
        seen = self.received(input)
        facts: Any = seen if isinstance(seen, IntQuantTensor) else self.remembered
        if self.is_plain and facts is None and self.trunc_config is not None:
            raise QuantTensorError(
                f"{type(self).__name__} has not been told the scale and bits of its input",
                found="a plain tensor",
                hint="run the model once in record_metadata(model), with quant tensors flowing",
            )
        value: torch.Tensor = plain(seen)
        pooled = self._pooled(value)
        if facts is None or self.trunc_config is None:
            return self.packed_output(pooled)
        return self._truncated(pooled, value.shape, facts)

    def _truncated(
        self, pooled: torch.Tensor, shape: Any, facts: "IntQuantTensor | InputMetadata"
    ) -> torch.Tensor:
        trunc: Any = self.trunc_config
        count = self._window(shape)
        known = (facts.scale, facts.zero_point, facts.bit_width)
        scale, zero_point, bits = cast("_Three", known)
        value, scale, zero_point = truncated(
            pooled,
            scale / count,
            zero_point,
            averaged_bits(bits, count),
            trunc.bit_width,
            signed=facts.signed,
            narrow_range=trunc.narrow_range,
            rounding=trunc.rounding,
        )
        if not self.return_quant_tensor or self.is_plain:
            return value
        return IntQuantTensor.made(
            value=value,
            scale=scale,
            zero_point=zero_point,
            bit_width=trunc.bit_width,
            signed=facts.signed,
            training=self.training,
        )


class TruncAvgPool2d(_TruncPool, nn.AvgPool2d):
    """An AvgPool2d of integers, whose average drops the lowest bits of the sum.

    The average has the scale `s / k`, and enough bits for the sum of k integers; truncation to
    `bit_width` bits multiplies the scale by `2 ** (bits of the sum - bit_width)`, divides the zero
    point by it, and rounds as the config says.

    Args:
        source: the AvgPool2d that it takes the place of; hooks are shared with it.
        trunc: `bit_width`, `narrow_range` and `rounding` of the result, or None for an ordinary
            average; the sign is that of the input.
        return_quant_tensor: whether the output keeps its metadata.
    """

    def _pooled(self, value: torch.Tensor) -> torch.Tensor:
        return nn.AvgPool2d.forward(self, value)

    def _window(self, shape: Any) -> int:
        if self.divisor_override is not None:
            return int(self.divisor_override)
        height, width = _pair(self.kernel_size)
        return int(height * width)


class TruncAdaptiveAvgPool2d(_TruncPool, nn.AdaptiveAvgPool2d):
    """An AdaptiveAvgPool2d of integers, whose average drops the lowest bits of the sum.

    Where the windows are of different sizes, scale and bits are those of Brevitas' one window,
    `in - (out - 1) * (in // out)` in each dimension, which no window exceeds.

    Args:
        source: the AdaptiveAvgPool2d that it takes the place of; hooks are shared with it.
        trunc: as for TruncAvgPool2d.
        return_quant_tensor: whether the output keeps its metadata.
    """

    def _pooled(self, value: torch.Tensor) -> torch.Tensor:
        return nn.AdaptiveAvgPool2d.forward(self, value)

    def _window(self, shape: Any) -> int:
        count = 1
        for given, wanted in zip(shape[-2:], _pair(self.output_size), strict=True):
            out = given if wanted is None else wanted
            count *= given - (out - 1) * (given // out)
        return count


def _pair(size: Any) -> tuple[Any, Any]:
    """Return both sizes of a window: torch takes one, one of each, and lists of them."""
    first, *rest = size if isinstance(size, Sequence) else (size,)
    return first, rest[0] if rest else first
