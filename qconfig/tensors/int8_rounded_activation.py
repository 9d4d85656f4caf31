"""Activations as int8 codes in the types and bounds of older torchao releases.

As in `qconfig.tensors.int8_activation`, a scale is chosen from the extremes of a token, or of all,
in the activation's own type. Other than there, its least value may be the epsilon of that type; it
may stay in that type, and then `x * (1 / scale)` is rounded to it, too, or be widened to float64.
Codes may begin at -127. Formulas are those of `choose_qparams_affine` and `quantize_affine` of
torchao 0.4 to 0.17.
"""

import torch
from attrs import frozen

from qconfig.configs.choices import MappingType
from qconfig.layouts.activation import Int8Arithmetic
from qconfig.tensors.activation_qparams import choose_activation_qparams, code_range
from qconfig.tensors.int8_activation import dequantize_activation, quantize_activation

Quantized = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]


@frozen
class ActivationForm:
    """How activations become codes, in words of torch.

    Args:
        per_token: whether each row has its own scale.
        asymmetric: whether there is a zero point.
        reduce_range: whether codes keep to 7 bits.
        least_code: the smallest code, -128 or -127, where they do not.
        least_scale: the smallest scale that is chosen; None is the type's epsilon.
        scale_dtype: type that a chosen scale takes; None is the activation's.
    """

    per_token: bool
    asymmetric: bool
    reduce_range: bool = False
    least_code: int = -128
    least_scale: float | None = None
    scale_dtype: torch.dtype | None = None

    @classmethod
    def of(
        cls, arithmetic: Int8Arithmetic, *, per_token: bool, asymmetric: bool, reduce_range: bool
    ) -> "ActivationForm":
        """Return the form that an arithmetic asks for."""
        kind = arithmetic.scale_dtype
        return cls(
            per_token,
            asymmetric,
            reduce_range,
            arithmetic.least_code,
            arithmetic.least_scale,
            None if kind is None else kind.to_torch(),
        )

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest code."""
        low, high = code_range(reduce_range=self.reduce_range)
        return max(low, self.least_code), high


def quantize_rounded(
    flat: torch.Tensor,
    form: ActivationForm,
    act_scale: torch.Tensor | None = None,
    act_zero_point: torch.Tensor | None = None,
) -> Quantized:
    """Return codes, scales and zero points of activations.

    Args:
        flat: (M, K), floating point, neither M nor K 0.
        form: how they are quantized.
        act_scale: static scale, one element or M of them, or None to choose scales.
        act_zero_point: static zero point of as many elements, or None.

    Returns:
        Codes, (M, K) int8; scales, (M, 1) or (1, 1), NaN for rows with a NaN; zero points, int8 of
        the same shape, or None.
    """
    low = form.bounds[0]
    if act_scale is None:
        scale, zero = _chosen(flat, form)
    else:
        scale = act_scale.reshape(-1, 1)
        zero = None if act_zero_point is None else act_zero_point.reshape(-1, 1)
    codes = quantize_activation(flat, scale, zero, reduce_range=form.reduce_range)
    if low > code_range(reduce_range=form.reduce_range)[0]:
        codes.clamp_(min=low)
    if act_scale is not None:
        # A NaN has no code: it makes its row NaN, as in a product of floats.
        scale = torch.where(flat.amax(1, keepdim=True).isnan(), float("nan"), scale)
    return codes, scale, zero


def rounded_values(
    flat: torch.Tensor,
    form: ActivationForm,
    act_scale: torch.Tensor | None = None,
    act_zero_point: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return activations quantized and dequantized, (M, K), in their own type.

    Arguments are those of `quantize_rounded`.
    """
    codes, chosen, zero = quantize_rounded(flat, form, act_scale, act_zero_point)
    wide = torch.promote_types(flat.dtype, chosen.dtype)
    return dequantize_activation(codes, chosen, zero, wide).to(flat.dtype)


def _chosen(flat: torch.Tensor, form: ActivationForm) -> tuple[torch.Tensor, torch.Tensor | None]:
    dims = (1,) if form.per_token else (0, 1)
    least, most = flat.amin(dims, keepdim=True), flat.amax(dims, keepdim=True)
    mapping = MappingType.ASYMMETRIC if form.asymmetric else MappingType.SYMMETRIC
    scale, zero = choose_activation_qparams(
        least,
        most,
        mapping,
        least_code=form.bounds[0],
        reduce_range=form.reduce_range,
        least_scale=torch.finfo(flat.dtype).eps if form.least_scale is None else form.least_scale,
    )
    return scale if form.scale_dtype is None else scale.to(form.scale_dtype), zero
