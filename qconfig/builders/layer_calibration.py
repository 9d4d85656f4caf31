"""What was observed of one layer: the second argument of builders that need calibration."""

from typing import TYPE_CHECKING, Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.errors import BuildError

if TYPE_CHECKING:
    import torch

_FLOAT32, _INT8 = "torch.float32", "torch.int8"
# Each pair: a scale, the zero point that goes with it.
_QPARAMS = (("act_scale", "act_zero_point"), ("output_scale", "output_zero_point"))
_POSITIVE = frozenset({"act_scale", "output_scale"})
_NOT_NEGATIVE = ("act_absmax", "act_absmean")
_PER_CHANNEL = ("act_min", "act_max", *_NOT_NEGATIVE)


@frozen(eq=False)
class LayerCalibration:
    """Statistics of the activations that went through one linear layer, weight (N, K).

    Whatever was not observed is None; a builder refuses a layer that lacks what it needs. Tensors
    are on the CPU and finite; nothing in them is changed by those who read them.

    Args:
        act_scale: static scale of the input, float32: () per tensor, or (K,) per input channel.
        act_zero_point: its zero point, int8, shaped like `act_scale`; None if symmetric.
        output_scale: static scale of the output, float32: () per tensor, or (N,) per channel.
        output_zero_point: its zero point, int8, shaped like `output_scale`; None if symmetric.
        act_min: smallest x of each input channel, float32, (K,).
        act_max: largest x of each input channel, float32, (K,).
        act_absmax: largest |x| of each input channel, float32, (K,).
        act_absmean: mean |x| of each input channel, float32, (K,).
        act_sample: some rows of the input, floating point, (M, K).
        quant_dtype: codes that the scales are for: int8, float8_e4m3fn or float8_e5m2.
        reduce_range: whether int8 scales are for codes from -64 to 63.
        rows: how many rows (vectors of K values) were seen.

    Raises:
        BuildError: a tensor of another shape or type, one that is not finite, or a scale that is
            not positive.
    """

    act_scale: "torch.Tensor | None" = None
    act_zero_point: "torch.Tensor | None" = None
    output_scale: "torch.Tensor | None" = None
    output_zero_point: "torch.Tensor | None" = None
    act_min: "torch.Tensor | None" = None
    act_max: "torch.Tensor | None" = None
    act_absmax: "torch.Tensor | None" = None
    act_absmean: "torch.Tensor | None" = None
    act_sample: "torch.Tensor | None" = None
    quant_dtype: DType = DType.INT8
    reduce_range: bool = False
    rows: int = 0

    def __attrs_post_init__(self) -> None:
        """Check shapes, types and values."""
        for scale, zero_point in _QPARAMS:
            self._check(scale, "float32, () or one dimension", _is_scale)
            self._check(zero_point, "int8, () or one dimension", _is_zero_point)
            self._check_pair(scale, zero_point)
        for name in _PER_CHANNEL:
            self._check(name, "float32, (K,)", _is_per_channel)
        self._check("act_sample", "floating point, (M, K)", _is_sample)
        self._check_k()

    def _check(self, name: str, expected: str, fits: Any) -> None:
        value = getattr(self, name)
        if value is None:
            return
        if not fits(value):
            raise BuildError(
                f"{name} of the calibration has a wrong type or shape",
                found=f"{value.dtype} {tuple(value.shape)}",
                expected=expected,
            )
        bad, allowed = ~value.isfinite(), "finite numbers"
        if name in _POSITIVE:
            bad, allowed = bad | (value <= 0), "positive finite numbers"
        elif name in _NOT_NEGATIVE:
            bad, allowed = bad | (value < 0), "finite numbers from 0"
        if bool(bad.any()):
            raise BuildError(
                f"{name} of the calibration holds {int(bad.sum())} values that it cannot have",
                found=value[tuple(bad.nonzero()[0].tolist())].item(),
                expected=allowed,
            )

    def _check_pair(self, scale_name: str, zero_point_name: str) -> None:
        scale, zero_point = getattr(self, scale_name), getattr(self, zero_point_name)
        if zero_point is not None and (scale is None or scale.shape != zero_point.shape):
            raise BuildError(
                f"{zero_point_name} of the calibration does not fit {scale_name}",
                found=tuple(zero_point.shape),
                expected="a scale first" if scale is None else f"shape {tuple(scale.shape)}",
            )

    def _check_k(self) -> None:
        sizes = {
            name: value.shape[-1]
            for name in ("act_scale", *_PER_CHANNEL, "act_sample")
            if (value := getattr(self, name)) is not None and value.dim()
        }
        if len(set(sizes.values())) > 1:
            raise BuildError(
                "parts of the calibration have different numbers of input channels", found=sizes
            )


def _is_scale(value: "torch.Tensor") -> bool:
    return str(value.dtype) == _FLOAT32 and value.dim() <= 1


def _is_zero_point(value: "torch.Tensor") -> bool:
    return str(value.dtype) == _INT8 and value.dim() <= 1


def _is_per_channel(value: "torch.Tensor") -> bool:
    return str(value.dtype) == _FLOAT32 and value.dim() == 1


def _is_sample(value: "torch.Tensor") -> bool:
    return value.is_floating_point() and value.dim() == 2
