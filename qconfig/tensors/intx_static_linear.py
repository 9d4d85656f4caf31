"""The operator behind linears of `IntxStaticActivationTensor`, and its gradient.

`qconfig::intx_static_linear` stands in every graph: a graph is compiled once for all batch sizes
and layers of a shape. Gradients go straight through the rounding and clamping of activations and
outputs, as in training with fake quantization: that of the activation is `gradient @ dequantized`.
"""

from typing import Any

import torch

from qconfig.tensors.int8_linear import int8_linear
from qconfig.tensors.intx_static_product import product
from qconfig.tensors.intx_static_quantize import static_values

_NAME = "qconfig::intx_static_linear"


def intx_static_linear(  # noqa: PLR0917
    activation: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    act_scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    act_zero_point: torch.Tensor | None,
    output_scale: torch.Tensor | None,
    output_zero_point: torch.Tensor | None,
    weight_sums: torch.Tensor | None,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    """Return the product of a statically quantized activation and an intx weight, and the bias.

    Args:
        activation: (..., K), floating point.
        qdata: (N, K) int8 codes, any strides.
        scale: floating point, (N, K/g) or any other that divides (N, K).
        act_scale: floating point, (1,) or (K,).
        zero_point: int8, shaped like `scale`, or None.
        act_zero_point: int8, shaped like `act_scale`, or None.
        output_scale: floating point, (1,) or (N,), or None to leave the output as it is.
        output_zero_point: int8, shaped like `output_scale`, or None.
        weight_sums: int32 (N, 1), see `qconfig.tensors.intx_static_product`, or None.
        bias: (N,) or None; it is added before the output is quantized.

    Returns:
        (..., N) in the activation's type, rounded to it once; differentiable with respect to
        activation and bias.
    """
    arguments = (
        activation,
        qdata,
        scale,
        act_scale,
        zero_point,
        act_zero_point,
        output_scale,
        output_zero_point,
        weight_sums,
        bias,
    )
    present = [t for t in arguments if t is not None]
    plain = all(type(t) in (torch.Tensor, torch.nn.Parameter) for t in present)
    differentiable = torch.is_grad_enabled() and any(t.requires_grad for t in present)
    if plain and not differentiable and not torch.compiler.is_compiling():
        return _compute(*arguments)
    result: torch.Tensor = _operator(*arguments)
    return result


def _compute(  # noqa: PLR0917
    activation: torch.Tensor,
    qdata: torch.Tensor,
    scale: torch.Tensor,
    act_scale: torch.Tensor,
    zero_point: torch.Tensor | None,
    act_zero_point: torch.Tensor | None,
    output_scale: torch.Tensor | None,
    output_zero_point: torch.Tensor | None,
    weight_sums: torch.Tensor | None,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    rows, columns = qdata.shape
    lead = activation.shape[:-1]
    flat = activation.reshape(lead.numel(), columns)
    result = product(flat, qdata, scale, act_scale, zero_point, act_zero_point, weight_sums)
    if bias is not None:
        result += bias
    if output_scale is not None:
        result = static_values(result, output_scale, output_zero_point)
    return result.to(activation.dtype).reshape(*lead, rows)


_operator = torch.library.custom_op(_NAME, _compute, mutates_args=())


@_operator.register_fake
def _fake(activation: torch.Tensor, qdata: torch.Tensor, *others: Any) -> torch.Tensor:
    return activation.new_empty((*activation.shape[:-1], qdata.shape[0]))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    _, qdata, scale, _, zero_point = inputs[:5]
    ctx.save_for_backward(qdata, scale, zero_point)
    bias = inputs[-1]
    ctx.bias_dtype = None if bias is None else bias.dtype


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    qdata, scale, zero_point = ctx.saved_tensors
    to_activation = to_bias = None
    if ctx.needs_input_grad[0]:
        zero = None if zero_point is None else zero_point.t()
        to_activation = int8_linear(gradient, qdata.t(), scale.t(), zero)
    if ctx.needs_input_grad[-1]:
        rows = gradient.reshape(-1, gradient.shape[-1])
        to_bias = rows.sum(0).to(ctx.bias_dtype)
    return (to_activation, *[None] * 8, to_bias)


torch.library.register_autograd(_NAME, _backward, setup_context=_setup)
