"""What a conformance check gets: a config with its builder, a shape, a type; and ways to fail."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import frozen

from qconfig.builders.base import Builder, CalibratedBuilder, Target, builder_of
from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.codec.dtypes import DType
from qconfig.errors import LayoutError, UnsupportedOperationError
from qconfig.versioning import Config

if TYPE_CHECKING:
    import torch
    from torch import nn


class ConformanceFailure(AssertionError):  # noqa: N818
    """A builder or its tensor breaks a promise that all of them make."""


@frozen
class Subject:
    """A config under test, with one shape and one type of weight.

    Args:
        config: the config.
        shape: (N, K) of the weight.
        dtype: element type of the weight.
        module_class: name of the module class that the weight belongs to.
        compile_backend: backend of torch.compile; `aot_eager` traces everything and compiles
            nothing.
    """

    config: Config
    shape: tuple[int, int] = (32, 64)
    dtype: DType = DType.FLOAT32
    module_class: str = "Linear"
    compile_backend: str = "aot_eager"

    @property
    def builder(self) -> Builder:
        """The builder registered for the config."""
        return builder_of(self.config)

    @property
    def target(self) -> Target:
        """The parameter that the weight stands for."""
        return Target("layer.weight", self.shape, self.dtype, (self.module_class,))

    def weight(self, seed: int = 0) -> "torch.Tensor":
        """Return a float weight, the same for a seed."""
        import torch

        generator = torch.Generator().manual_seed(seed)
        return torch.randn(self.shape, generator=generator).to(self.dtype.to_torch())

    def activation(self, *leading: int) -> "torch.Tensor":
        """Return activations of shape (*leading, K), the same for a shape."""
        import torch

        generator = torch.Generator().manual_seed(1)
        shape = (*leading, self.shape[1])
        return torch.randn(shape, generator=generator).to(self.dtype.to_torch())

    def build(self, seed: int = 0) -> Any:
        """Return the quantized weight, calibrated if its builder needs that."""
        return self.quantized(self.weight(seed))

    def quantized(self, weight: "torch.Tensor") -> Any:
        """Return another weight, quantized in the same way."""
        builder = self.builder
        if isinstance(builder, CalibratedBuilder) and builder.needs_calibration(self.config):
            return builder.build(self.config, weight, self.calibration())
        return builder.build(self.config, weight)

    def serves(self, shape: tuple[int, ...], module_class: str) -> bool:
        """Return whether the builder takes a weight of another shape or module class."""
        target = Target("layer.weight", shape, self.dtype, (module_class,))
        return self.builder.refusal(self.config, target) is None

    def calibration(self) -> LayerCalibration:
        """Return what calibration would observe: activations within -4 and 4, outputs within 64.

        Scales are for codes of the config's `activation_dtype`, int8 if it has none.
        """
        import torch

        codes = getattr(self.config, "activation_dtype", DType.INT8)
        largest = 127.5 if codes is DType.INT8 else torch.finfo(codes.to_torch()).max
        peak = torch.full((self.shape[1],), 4.0)
        return LayerCalibration(
            act_scale=torch.tensor(4.0 / largest),
            output_scale=torch.tensor(64.0 / largest),
            quant_dtype=codes,
            act_min=-peak,
            act_max=peak,
            act_absmax=peak,
            act_absmean=peak / 5,
            act_sample=self.activation(16).float(),
            rows=16,
        )

    def linear(self) -> "nn.Linear":
        """Return a float Linear of that shape and type, without bias."""
        from torch import nn

        rows, columns = self.shape
        return nn.Linear(columns, rows, bias=False, dtype=self.dtype.to_torch())

    def quantized_linear(self, seed: int = 0) -> "nn.Linear":
        """Return a Linear that holds the quantized weight."""
        from torch import nn

        layer = self.linear()
        layer.weight = nn.Parameter(self.build(seed), requires_grad=False)
        return layer


@frozen
class Check:
    """One named promise, bound to a subject; call it to have it checked."""

    name: str
    function: Callable[[Subject], None]
    subject: Subject

    def __call__(self) -> None:
        """Run the check.

        Raises:
            ConformanceFailure: the promise is broken; the message says which and how.
        """
        self.function(self.subject)

    def __str__(self) -> str:
        return self.name


def require(condition: object, message: str) -> None:
    """Raise ConformanceFailure with `message` unless `condition` holds."""
    if not condition:
        raise ConformanceFailure(message)


def require_refusal(function: Callable[[], object], what: str) -> None:
    """Raise ConformanceFailure unless `function` raises one of our refusals."""
    try:
        function()
    except (UnsupportedOperationError, LayoutError):
        return
    raise ConformanceFailure(f"{what} neither works as promised nor raises")


def has_no_views(tensor: Any, *views: Callable[[Any], object]) -> bool:
    """Return whether a tensor says, by `view_refusal`, that it has no views and cuts.

    Raises:
        ConformanceFailure: it says so, and one of `views` is not refused.
    """
    reason = getattr(tensor, "view_refusal", None)
    if reason is None or reason() is None:
        return False
    for view in views:
        require_refusal(partial(view, tensor), "a view of a tensor that has none")
    return True


def require_close(found: "torch.Tensor", expected: "torch.Tensor", what: str) -> None:
    """Raise ConformanceFailure unless two results agree as well as their type allows.

    The tolerance is relative to the largest expected value: 2**-6 for bfloat16, 2**-9 for float16,
    1e-5 otherwise; that covers another order of summation and one more rounding.
    """
    require(found.shape == expected.shape, f"{what}: shape {found.shape}, not {expected.shape}")
    require(found.dtype == expected.dtype, f"{what}: dtype {found.dtype}, not {expected.dtype}")
    if not expected.numel():
        return
    error, most = (found.double() - expected.double()).abs().max(), largest(expected)
    allowed = _tolerance(expected.dtype) * most
    require(error <= allowed, f"{what}: off by {float(error / most):.2g} of the largest")


def require_linear(
    found: "torch.Tensor",
    tensor: Any,
    activation: "torch.Tensor",
    what: str,
    bias: "torch.Tensor | None" = None,
) -> None:
    """Raise ConformanceFailure unless a result is what `linear` should give.

    That is computed in float32 from the dequantized weight. A tensor that quantizes activations or
    outputs says how in `activation_seen` and `output_seen`, see
    `qconfig.tensors.matrix.MatrixTensor`; a value at the edge of two output codes may take either.
    """
    from torch.nn.functional import linear

    seen = getattr(tensor, "activation_seen", _unchanged)(activation).float()
    total = linear(seen, tensor.dequantize().float(), None if bias is None else bias.float())
    rounded = getattr(tensor, "output_seen", _unchanged)
    slack = _tolerance(activation.dtype) * largest(total)
    low, high = rounded(total - slack) - slack, rounded(total + slack) + slack
    require(found.shape == total.shape, f"{what}: shape {found.shape}, not {total.shape}")
    require(found.dtype == activation.dtype, f"{what}: dtype {found.dtype}")
    if total.numel():
        error = (low - found.float()).maximum(found.float() - high).max() + slack
        require(
            error <= slack, f"{what}: off by {float(error / largest(total)):.2g} of the largest"
        )


def largest(values: "torch.Tensor") -> "torch.Tensor":
    """Return the largest absolute value, float64, at least 1e-30."""
    import torch

    if not values.numel():
        return torch.tensor(1e-30, dtype=torch.float64)
    return values.double().abs().max().clamp(min=1e-30)


def _tolerance(dtype: "torch.dtype") -> float:
    return {DType.BFLOAT16: 2.0**-6, DType.FLOAT16: 2.0**-9}.get(DType.parse(dtype), 1e-5)


def _unchanged(value: Any) -> Any:
    return value


def equal_packed(first: Any, second: Any) -> bool:
    """Return whether two quantized tensors agree in class, form and every bit of every part."""
    from qconfig.tensors.small_types import equal_elements

    if type(first) is not type(second):
        return False
    (names, context), (others, other_context) = (
        first.__tensor_flatten__(),
        second.__tensor_flatten__(),
    )
    return (
        names == others
        and context == other_context
        and all(equal_elements(getattr(first, n), getattr(second, n)) for n in names)
    )
