"""Builder of fake-quantized weights: what the four configs of the family have in common."""

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from qconfig.builders.base import Target
from qconfig.builders.quant_stored import stored_disagreement
from qconfig.builders.weights import served_target
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.configs.float16 import float16_refusal
from qconfig.configs.granularity import PerAxis
from qconfig.configs.quant_choices import ScaleKind
from qconfig.configs.scale_shapes import (
    GroupwiseConfig,
    axis_of,
    given_scale_shape,
    group_dim_of,
    value_shape,
    zero_point_shape,
)

if TYPE_CHECKING:
    import torch

_NUMBER = TensorSpec(DType.FLOAT32, ())
_SERVED = ("Linear", "Embedding", "_ConvNd")
_CONV = ("Conv1d", "Conv2d", "Conv3d")
_TRANSPOSED = ("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
_UNSERVED = ("RNNBase", "Bilinear", "EmbeddingBag", "MultiheadAttention")
_WHAT = "fake-quantized values"


class QuantWeightBuilder:
    """Quantizes weights of Linear, convolutions and Embedding, as their quantizers would.

    Scales and zero points that are learned are those that learning begins with.
    """

    integers: ClassVar[bool]

    def refusal(self, config: Any, target: Target) -> str | None:
        """Return why this parameter cannot be fake-quantized, or None.

        Of a module class that is served that is the weight, and any other parameter that a rule
        names. A checkpoint does not tell all classes; there, patterns are taken at their word.
        """
        if not target.dtype.is_float:
            return f"dtype {target.dtype.value} is not float16, bfloat16, float32 or float64"
        if not target.shape:
            return "rank 0 is no weight"
        if 0 in target.shape:
            return f"shape {target.shape} has no elements"
        return _module_refusal(target) or self._unfit(config, target)

    def _unfit(self, config: Any, target: Target) -> str | None:
        if config.scale_kind is ScaleKind.EXTERNAL:
            return "scale_kind EXTERNAL is for biases"
        transposed = set(target.module_classes) & set(_TRANSPOSED)
        grouped = isinstance(config, GroupwiseConfig)
        if transposed and not grouped and config.granularity == PerAxis(0):
            name = min(transposed)
            return f"PerAxis(0) has the input channels of {name}: use PerAxis(1)"
        return float16_refusal(config) if target.dtype is DType.FLOAT16 else None

    def specs(self, config: Any, target: Target) -> dict[str, Any]:
        """Return the fields of the layout that all configs of the family have.

        Raises:
            FieldError: the axis, or the groups' dimension, does not exist.
        """
        zero = zero_point_shape(target.shape, config) if self.integers else ()
        return {
            "value": TensorSpec(target.dtype, value_shape(target.shape, config)),
            "scale": TensorSpec(target.dtype, given_scale_shape(target.shape, config)),
            "zero_point": TensorSpec(target.dtype, zero),
            "signed": config.signed,
            **({"bit_width": _NUMBER} if self.integers else float_specs(config)),
        }

    def disagreement(self, config: Any, found: Any, expected: Any) -> tuple[str, str] | None:
        """Return what a stored layout says and what a config does, where they differ.

        Args:
            config: the config.
            found: the stored layout; bit widths and the like are loaded.
            expected: what `layout` gives.
        """
        return stored_disagreement(config, found, expected)

    def rows_together(self, config: Any, target: Target) -> int:
        """Return how many rows go together: those that share a scale."""
        if isinstance(config, GroupwiseConfig):
            return 0 if group_dim_of(config, len(target.shape)) == 0 else 1
        return 1 if axis_of(config, len(target.shape)) == 0 else 0

    def build(self, config: Any, weight: "torch.Tensor") -> "torch.Tensor":
        """Return the weight as a quant tensor, without gradients.

        Args:
            config: how.
            weight: floating point, with elements; its shape is any that the config fits.

        Raises:
            BuildError: another type, or values that are not finite, or too large for their type.
            FieldError: the axis, or the groups' dimension, does not exist.
        """
        import torch

        from qconfig.modules.made_tensors import made_tensor
        from qconfig.tensors.quantizers import quantize_by_slabs
        from qconfig.tensors.unquantizable import is_finite, not_finite

        served_target(weight, _WHAT, partial(self.refusal, config))
        with torch.no_grad():
            values = weight.detach()
            if not is_finite(values):
                raise not_finite(values)
            found = quantize_by_slabs(values, config)
            if not all(is_finite(part) for part in found):
                raise not_finite(values, values.dtype)
            return made_tensor(config, found, values.shape, training=False)


def _module_refusal(target: Target) -> str | None:
    classes = set(target.module_classes)
    if classes & set(_UNSERVED):
        return f"module class {target.module_classes[0]} is not served"
    if not classes or target.named:
        return None
    if not classes & {*_SERVED, *_CONV, *_TRANSPOSED}:
        known = "Linear, Embedding or a convolution"
        return f"module class {target.module_classes[0]} is not {known}, and no rule names it"
    if target.parameter != "weight":
        return f"{target.parameter} is not the weight of {target.module_classes[0]}"
    return None


def float_specs(config: Any) -> dict[str, Any]:
    """Return the fields of a layout that describe the format of a config of floats."""
    return {
        "exponent_bit_width": _NUMBER,
        "mantissa_bit_width": _NUMBER,
        "exponent_bias": _NUMBER,
        "saturating": config.saturating,
        "inf_values": config.inf_values,
        "nan_values": config.nan_values,
    }


def group_fields(config: Any, target: Target) -> dict[str, Any]:
    """Return the fields of a layout that describe the groups of a config."""
    return {
        "group_size": config.group_size,
        "group_dim": config.group_dim,
        "dequant_shape": target.shape,
    }
