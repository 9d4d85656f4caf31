"""Products of int8 activations in the arithmetic of older torchao releases."""

from io import BytesIO
from typing import Any

import attrs
import pytest
import torch
from torch.nn.functional import linear

from qconfig.configs import PerGroup, PerRow, PerTensor
from qconfig.configs.choices import MappingType
from qconfig.errors import FieldError, LayoutError, UnsupportedOperationError
from qconfig.layouts.activation import Int8Arithmetic, Int8Product, QuantizeTensorToInt8Kwargs
from qconfig.layouts.intx import ActivationQuantization
from qconfig.tensors import Int8Tensor, int8_matmul
from qconfig.tensors.intx import IntxUnpackedToInt8Tensor
from tests.tensors.samples import FLOATS, activation, packed

ROUNDED_SUM, SCALE_TYPE, VALUES = Int8Product
INT8_TENSOR = Int8Arithmetic(ROUNDED_SUM, least_scale=2.0**-23)
AFFINE = Int8Arithmetic(SCALE_TYPE, least_code=-127, least_scale=1e-5)
WIDE = Int8Arithmetic(VALUES, least_scale=2.0**-23, scale_dtype="float32")
ALL = {"int8_tensor": INT8_TENSOR, "affine": AFFINE, "wide": WIDE}


@pytest.fixture(params=["integers", "floats"], autouse=True)
def processor(request, monkeypatch):
    """Run with this processor's kernels, and with those for one that cannot multiply integers."""
    if request.param == "floats":
        monkeypatch.setattr(int8_matmul, "_fast_integers", lambda: False)


def quantizing(arithmetic: Int8Arithmetic | None, dtype: torch.dtype, **options: Any) -> Int8Tensor:
    """Return a weight that quantizes its activations by an arithmetic."""
    mapping = MappingType.ASYMMETRIC if options.pop("asymmetric", False) else MappingType.SYMMETRIC
    kwargs = QuantizeTensorToInt8Kwargs(options.pop("rows", PerRow()), mapping)
    weight = packed(dtype=dtype, act_quant_kwargs=kwargs, arithmetic=arithmetic, **options)
    layout: Any = weight.to_layout()
    return Int8Tensor.from_layout(attrs.evolve(layout, scale=layout.scale.to(dtype)))


def integers(codes: torch.Tensor, weight: Int8Tensor) -> torch.Tensor:
    """Return the exact sums of products of codes, int64."""
    return codes.long() @ weight.qdata.long().t()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_int8_tensors_round_after_each_scale(dtype, rows):
    """0.16 and 0.17: scales in the activation's type, float32 only for float16's first product."""
    weight, x = quantizing(INT8_TENSOR, dtype), activation(rows, 64, dtype=dtype)
    scale = (x.abs().amax(1, keepdim=True) / 127.5).clamp(min=2.0**-23)
    codes = torch.round(x * (1.0 / scale)).clamp(-128, 127)
    wide = torch.float32 if dtype == torch.float16 else dtype
    first = (integers(codes, weight).to(wide) * scale.to(wide)).to(dtype)
    bias = activation(32, dtype=dtype)
    assert torch.equal(linear(x, weight), first * weight.scale.flatten())
    assert torch.equal(linear(x, weight, bias), first * weight.scale.flatten() + bias)


@pytest.mark.parametrize("dtype", FLOATS)
def test_int8_tensors_take_zero_points_off_rounded(dtype):
    """0.17: what the activation's zero points add is rounded, and so is the difference."""
    weight, x = quantizing(INT8_TENSOR, dtype, asymmetric=True), activation(5, 64, dtype=dtype)
    low, high = x.amin(1, keepdim=True).clamp(max=0), x.amax(1, keepdim=True).clamp(min=0)
    scale = ((high - low) / 255.0).clamp(min=2.0**-23)
    zero = (-128 - torch.round(low / scale)).clamp(-128, 127)
    codes = (torch.round(x * (1.0 / scale)) + zero).clamp(-128, 127)
    wide = torch.float32 if dtype == torch.float16 else dtype
    factor = scale.to(wide)
    first = (integers(codes, weight).to(wide) * factor).to(dtype)
    offset = (zero.to(wide) * factor) * weight.qdata.long().sum(1).to(wide)
    expected = (first - offset.to(dtype)) * weight.scale.flatten()
    assert torch.equal(linear(x, weight), expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_affine_tensors_begin_at_minus_127(dtype):
    """Up to 0.17: codes from -127 to 127 with scales of at least 1e-5."""
    kind = "float32" if dtype == torch.float16 else None
    how = Int8Arithmetic(SCALE_TYPE, least_code=-127, least_scale=1e-5, scale_dtype=kind)
    weight, x = quantizing(how, dtype), activation(5, 64, dtype=dtype)
    x[2] = 1e-6
    scale = (x.abs().amax(1, keepdim=True) / 127.0).clamp(min=1e-5)
    scale = scale.float() if dtype == torch.float16 else scale
    codes = torch.round(x * (1.0 / scale)).clamp(-127, 127)
    first = integers(codes, weight).to(scale.dtype) * scale
    assert torch.equal(linear(x, weight), (first * weight.scale.flatten()).to(dtype))


@pytest.mark.parametrize("scale_dtype", [None, "float32", "float64"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_values_are_rounded_to_the_activations_type(dtype, scale_dtype):
    """Asymmetric activations of AffineQuantizedTensor: values in their type meet the weight's."""
    how = Int8Arithmetic(VALUES, scale_dtype=scale_dtype)
    weight, x = quantizing(how, dtype, asymmetric=True), activation(5, 64, dtype=dtype)
    low, high = x.amin(1, keepdim=True).clamp(max=0), x.amax(1, keepdim=True).clamp(min=0)
    scale = ((high - low) / 255.0).clamp(min=torch.finfo(dtype).eps)
    zero = (-128 - torch.round(low / scale)).clamp(-128, 127)
    scale = scale.to(dtype if scale_dtype is None else getattr(torch, scale_dtype))
    codes = (torch.round(x * (1.0 / scale)) + zero).clamp(-128, 127)
    seen = ((codes - zero).to(dtype) * scale).to(dtype)
    assert torch.equal(weight.activation_seen(x), seen.float())
    expected = seen.double() @ weight.dequantize().double().t()
    error = (linear(x, weight).double() - expected).abs().max() / expected.abs().max()
    assert error <= 8 * torch.finfo(dtype).eps


def test_the_epsilon_of_the_type_is_the_least_scale_of_0_15():
    """Small activations get its scale, 2**-7 for bfloat16, and lose what is below it."""
    how = Int8Arithmetic(ROUNDED_SUM)
    weight, x = quantizing(how, torch.bfloat16), torch.full((1, 64), 0.01, dtype=torch.bfloat16)
    assert weight.activation_seen(x).unique().tolist() == [2.0**-7]


@pytest.mark.parametrize("how", ALL)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("options", [{}, {"asymmetric": True}, {"rows": PerTensor()}])
@pytest.mark.parametrize("zero_point", [False, True])
def test_products_are_those_of_what_is_seen(how, dtype, options, zero_point):
    """`activation_seen` times the values is the product, but for the roundings in between."""
    weight = quantizing(ALL[how], dtype, zero_point=zero_point, **options)
    x = activation(2, 5, 64, dtype=dtype)
    seen, values = weight.activation_seen(x).double(), weight.dequantize(torch.float32).double()
    error = (linear(x, weight).double() - seen @ values.t()).abs()
    # Zero points of activations are taken off after rounding, so that both parts count.
    most = 2 * (x.double().abs().amax(-1, keepdim=True) * values.abs().sum(1))
    assert (error <= 2 * torch.finfo(dtype).eps * most).all()


@pytest.mark.parametrize("how", [INT8_TENSOR, AFFINE])
def test_static_scales_keep_their_type(how):
    """A float32 scale makes the first product a float32 one."""
    scale = torch.tensor([[0.0123]])
    weight = quantizing(how, torch.bfloat16, rows=PerTensor(), act_quant_scale=scale)
    x = activation(5, 64, dtype=torch.bfloat16)
    codes = torch.round(x * (1.0 / scale)).clamp(how.least_code, 127)
    first = integers(codes, weight).float() * scale
    if how.product is ROUNDED_SUM:
        first = first.bfloat16()
    assert torch.equal(linear(x, weight), (first * weight.scale.flatten()).bfloat16())


@pytest.mark.parametrize("how", [None, INT8_TENSOR])
def test_static_scales_of_the_rows_of_a_batch_take_that_batch_only(how):
    """(M, 1) scales: M activations are multiplied, others refused; there are no views."""
    scale = torch.rand(5, 1, generator=torch.Generator().manual_seed(0)) / 20
    weight = quantizing(how, torch.float32, act_quant_scale=scale)
    x = activation(5, 64)
    codes = torch.round(x * (1.0 / scale)).clamp(-128, 127)
    expected = integers(codes, weight).double() * scale * weight.scale.flatten()
    assert torch.allclose(linear(x, weight).double(), expected, rtol=1e-6)
    with pytest.raises(UnsupportedOperationError, match=r"act_quant_scale of shape \(5, 1\)"):
        linear(x[:4], weight)
    with pytest.raises(UnsupportedOperationError, match="each row of one batch"):
        weight[:8]


def test_single_tokens_can_stay_as_they_are():
    """(B, 1, K) is multiplied as it is, (B, 2, K) quantized; torchao's weight_only_decode."""
    how = Int8Arithmetic(SCALE_TYPE, least_code=-127, least_scale=1e-5, skips_single_tokens=True)
    weight, plain = quantizing(how, torch.float32), packed()
    x = activation(3, 2, 64)
    assert torch.equal(linear(x[:, :1], weight), linear(x[:, :1], plain))
    assert torch.equal(weight.activation_seen(x[:, :1]), x[:, :1])
    assert torch.equal(linear(x, weight), linear(x, quantizing(AFFINE, torch.float32)))


@pytest.mark.parametrize("rounds", [False, True])
def test_scaled_activations_are_rounded_first_if_a_wrapper_scaled_them(rounds):
    """A wrapper's quotient has the activation's type, a factor of the weight a wider one."""
    how = Int8Arithmetic(ROUNDED_SUM, least_scale=2.0**-23, rounds_scaled=rounds)
    factor = torch.rand(64, generator=torch.Generator().manual_seed(1)) + 0.5
    weight = quantizing(how, torch.bfloat16, act_pre_scale=factor)
    x = activation(5, 64, dtype=torch.bfloat16)
    scaled = (x * factor).bfloat16() if rounds else x * factor
    scale = scaled.abs().amax(1, keepdim=True) / 127.5
    codes = torch.round(scaled * (1.0 / scale)).clamp(-128, 127)
    first = (integers(codes, weight).to(scale.dtype) * scale).bfloat16()
    assert torch.equal(linear(x, weight), first * weight.scale.flatten())


def test_codes_of_groups_have_no_older_product():
    """There was no such product, and a layout that asks for one is refused."""
    with pytest.raises(LayoutError, match="one scale a row") as caught:
        quantizing(INT8_TENSOR, torch.bfloat16, granularity=PerGroup(16))
    assert caught.value.pointer == "/arithmetic/product"
    assert caught.value.found == "'rounded_sum with scale of shape (32, 4)'"


def test_static_scales_of_channels_have_no_older_product():
    """They meet each product before the sum; a scale for each row of a batch does not."""
    weight = quantizing(INT8_TENSOR, torch.bfloat16)
    refused, taken = torch.ones(1, 64), torch.ones(5, 1)
    assert attrs.evolve(weight.to_layout(), act_quant_scale=taken).arithmetic == INT8_TENSOR
    with pytest.raises(LayoutError, match="no static scales of channels") as caught:
        attrs.evolve(weight.to_layout(), act_quant_scale=refused)
    assert caught.value.found == "'act_quant_scale of shape (1, 64)'"


@pytest.mark.parametrize("how", ALL)
def test_values_that_are_not_finite_reach_their_row_only(how):
    """NaN and infinity make the outputs of their row NaN."""
    weight, x = quantizing(ALL[how], torch.bfloat16), activation(3, 64, dtype=torch.bfloat16)
    x[0, 3], x[1, 4] = torch.nan, torch.inf
    found = linear(x, weight)
    assert found[:2].isnan().all()
    assert found[2].isfinite().all()


@pytest.mark.parametrize("how", ALL)
def test_empty_activations_give_empty_outputs(how):
    """No rows, no columns: shapes and type are right."""
    weight = quantizing(ALL[how], torch.bfloat16)
    found = linear(torch.empty(0, 3, 64, dtype=torch.bfloat16), weight)
    assert found.shape == (0, 3, 32)
    assert found.dtype == torch.bfloat16


@pytest.mark.parametrize("how", ALL)
def test_gradients_pass_straight_through(how):
    """As if the activation had not been rounded."""
    weight, x = quantizing(ALL[how], torch.float32), activation(3, 64).requires_grad_()
    gradient = activation(3, 32)
    linear(x, weight).backward(gradient)
    assert torch.allclose(x.grad, gradient @ weight.dequantize(), atol=1e-5)


@pytest.mark.parametrize("how", ALL)
def test_graphs_have_the_operator_and_its_bits(how):
    """Compiled and exported, the product is the eager one, for batches of any size."""
    torch._dynamo.reset()
    module = torch.nn.Linear(64, 32, dtype=torch.bfloat16)
    module.weight = torch.nn.Parameter(quantizing(ALL[how], torch.bfloat16), requires_grad=False)
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="aot_eager")
    batch = torch.export.Dim("batch", min=2, max=64)
    x = activation(4, 64, dtype=torch.bfloat16)
    exported = torch.export.export(module, (x,), dynamic_shapes=({0: batch},)).module()
    with torch.no_grad():
        for rows in (3, 17):
            x = activation(rows, 64, dtype=torch.bfloat16)
            assert torch.equal(compiled(x), module(x))
            assert torch.equal(exported(x), module(x))


def intx(arithmetic: Int8Arithmetic | None, kind: str = "int8_asym_per_token") -> Any:
    """Return an int4 weight in groups that quantizes its activations."""
    form: Any = packed(granularity=PerGroup(16), dtype=torch.bfloat16)
    return IntxUnpackedToInt8Tensor.from_fields(
        form.qdata // 16,
        form.scale.bfloat16() * 16,
        "int4",
        (1, 16),
        torch.bfloat16,
        activation_quantization=ActivationQuantization(kind),
        arithmetic=arithmetic,
    )


@pytest.mark.parametrize("kind", ["int8_asym_per_token", "int8_sym_per_token"])
def test_int4_weights_meet_values_of_the_same_activations(kind):
    """An intx weight sees what an int8 weight of the same arithmetic sees, and multiplies it."""
    weight, x = intx(WIDE, kind), activation(5, 64, dtype=torch.bfloat16)
    other = quantizing(WIDE, torch.bfloat16, asymmetric=kind == "int8_asym_per_token")
    seen = weight.activation_seen(x)
    assert torch.equal(seen, other.activation_seen(x))
    expected = seen.double() @ weight.dequantize().double().t()
    error = (linear(x, weight).double() - expected).abs().max() / expected.abs().max()
    assert error <= torch.finfo(torch.bfloat16).eps


def test_small_activations_of_intx_weights_get_the_epsilon_of_their_type():
    """Up to 0.17 the least scale was 2**-7 for bfloat16; today there is none."""
    x = torch.linspace(0, 0.1, 64, dtype=torch.bfloat16).view(1, 64)
    coarse = intx(Int8Arithmetic(VALUES)).activation_seen(x)
    assert coarse.unique().numel() < 20 < intx(None).activation_seen(x).unique().numel()


def test_intx_weights_compile_and_pass_gradients():
    """The operator takes the form in graphs, and the gradient passes as if nothing were rounded."""
    torch._dynamo.reset()
    weight, x = intx(WIDE), activation(5, 64, dtype=torch.bfloat16).requires_grad_()
    compiled = torch.compile(linear, fullgraph=True, dynamic=True, backend="aot_eager")
    assert torch.equal(compiled(x.detach(), weight), linear(x.detach(), weight))
    linear(x, weight).sum().backward()
    expected = weight.dequantize().double().sum(0)
    assert torch.allclose(x.grad.double(), expected.expand(5, -1), rtol=0.02, atol=0.02)


def test_an_arithmetic_needs_something_to_be_for():
    """Layouts refuse one where no int8 activation is made, or codes are not multiplied."""
    weight = packed()
    with pytest.raises(LayoutError, match="activations are not quantized"):
        attrs.evolve(weight.to_layout(), arithmetic=AFFINE)
    with pytest.raises(LayoutError, match="no int8 activations of a token"):
        intx(WIDE, "int4_sym_per_token")
    with pytest.raises(LayoutError, match="not multiplied with codes of fewer bits"):
        intx(AFFINE)
    with pytest.raises(FieldError, match="scales do not take this type"):
        Int8Arithmetic(VALUES, scale_dtype="float16")


def test_pickles_say_an_arithmetic_only_where_there_is_one():
    """Readers of the first release of the layout's version take those without."""
    attributes = packed().__reduce_ex__(2)[1][3]
    assert "arithmetic" not in attributes
    weight = quantizing(AFFINE, torch.float32)
    assert weight.__reduce_ex__(2)[1][3]["arithmetic"] == AFFINE
    with BytesIO() as file:
        torch.save(weight, file)
        file.seek(0)
        assert torch.load(file, weights_only=True).arithmetic == AFFINE
