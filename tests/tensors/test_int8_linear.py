import pytest
import torch
from torch.nn.functional import bilinear, embedding, linear

from qconfig.errors import UnsupportedOperationError, UsageError
from qconfig.tensors import SupportsActivationScaling
from tests.tensors.samples import FLOATS, GRANULARITIES, activation, double, packed

# Relative to the largest exact value: one rounding of the result, or of each value and the result.
TOLERANCE = {
    torch.float64: 1e-12,
    torch.float32: 1e-5,
    torch.float16: 2.0**-9,
    torch.bfloat16: 2.0**-6,
}


def assert_near(found, expected, dtype):
    """Compare a result with a float64 reference."""
    assert found.dtype == dtype
    assert found.shape == expected.shape
    error = (found.double() - expected).abs().max()
    assert error <= TOLERANCE[dtype] * expected.abs().max()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", GRANULARITIES)
@pytest.mark.parametrize("zero_point", [False, True])
def test_linear_against_float64(dtype, name, zero_point):
    """Every granularity, type and batch size is near the exact product."""
    tensor = packed(granularity=GRANULARITIES[name], zero_point=zero_point, dtype=torch.float32)
    tensor = tensor.to(dtype)
    for rows in (1, 8, 9, 40):
        x = activation(rows, 64, dtype=dtype)
        assert_near(linear(x, tensor), x.double() @ double(tensor).t(), dtype)


@pytest.mark.parametrize("scale_dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_types_of_scale_and_activation_are_free(scale_dtype):
    """The result has the activation's type, whatever that of the scale."""
    tensor = packed().with_fields(scale=packed().scale.to(scale_dtype))
    for dtype in TOLERANCE:
        x = activation(3, 64, dtype=dtype)
        assert_near(linear(x, tensor), x.double() @ double(tensor).t(), dtype)


def test_exact_scales_give_the_kernels_bits():
    """A scale that bfloat16 holds gives exactly what torch's packed kernel gives."""
    tensor = packed(dtype=torch.bfloat16)
    x = activation(4, 64, dtype=torch.bfloat16)
    expected = torch._weight_int8pack_mm(x, tensor.qdata, tensor.scale.flatten().bfloat16())
    assert torch.equal(linear(x, tensor), expected)


def test_inexact_scales_are_no_systematic_error():
    """Averaged over many activations, a row's error is far below the rounding of its scale."""
    scale = torch.full((32, 1), (1 + 2.0**-9) / 128)
    tensor = packed(32, 512).with_fields(scale=scale).to(torch.bfloat16)
    x = activation(512, 512, dtype=torch.bfloat16)
    exact = x.double() @ double(tensor).t()
    found = torch.cat([linear(part, tensor) for part in x.split(8)]).double()
    bias = ((found - exact) * exact).sum(0) / exact.square().sum(0)
    assert bias.square().mean().sqrt() < 2.0**-11


def test_float16_does_not_overflow_on_bare_codes():
    """Large codes with small scales stay finite in float16."""
    tensor = packed(8, 4096).to(torch.float16)
    tensor.qdata.fill_(127)
    x = torch.ones(2, 4096, dtype=torch.float16)
    assert_near(linear(x, tensor), x.double() @ double(tensor).t(), torch.float16)


@pytest.mark.parametrize("name", GRANULARITIES)
def test_products_by_rows_equal_the_whole(monkeypatch, name):
    """A buffer for a few rows gives the same as one for all."""
    tensor, x = packed(granularity=GRANULARITIES[name], zero_point=True), activation(9, 64)
    whole = linear(x, tensor)
    monkeypatch.setattr("qconfig.tensors.blockwise._BUFFER_BYTES", 5 * 64 * 4)
    assert torch.allclose(linear(x, tensor), whole, rtol=1e-5, atol=1e-4)


def test_pre_scale_multiplies_the_activation():
    """`act_pre_scale` is applied to the activation, as (K,) or (1, K), and keeps its type."""
    factor = torch.rand(64) + 0.5
    x = activation(3, 64, dtype=torch.bfloat16)
    for shape in ((64,), (1, 64)):
        tensor = packed(dtype=torch.bfloat16).with_activation_scale(factor.reshape(shape))
        expected = linear((x * factor).bfloat16(), packed(dtype=torch.bfloat16))
        assert torch.equal(linear(x, tensor), expected)
        assert linear(x[0], tensor).shape == (32,)


def test_pre_scale_per_matrix_is_refused():
    """A factor for each of several matrices has no meaning in a linear."""
    tensor = packed().with_activation_scale(torch.ones(2, 64))
    with pytest.raises(UnsupportedOperationError, match="an activation scale for each matrix"):
        linear(activation(3, 64), tensor)


def test_int8_tensor_supports_activation_scaling():
    """Int8Tensor satisfies the protocol."""
    assert isinstance(packed(), SupportsActivationScaling)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.ones(3, 63), "shapes of activation and weight do not fit"),
        (torch.tensor(1.0), "shapes of activation and weight do not fit"),
        (torch.ones(3, 64, dtype=torch.int64), "the activation is not floating point"),
        (torch.ones(3, 64).to(torch.float8_e5m2), "the activation is not floating point"),
    ],
)
def test_wrong_activations_are_refused(x, message):
    """Shapes that do not fit, integer and float8 activations raise."""
    with pytest.raises(UsageError, match=message):
        linear(x, packed())


@pytest.mark.parametrize("shape", [(31,), (32, 1), (3, 32)])
def test_wrong_biases_are_refused(shape):
    """A bias that is no vector of N entries raises, whatever it could be broadcast to."""
    with pytest.raises(UsageError, match="the bias does not fit the weight"):
        linear(torch.ones(3, 64), packed(), torch.ones(shape))


@pytest.mark.parametrize("dtype", FLOATS)
def test_results_have_the_activations_type(dtype):
    """A bias of a wider type takes part in the sum and does not show in the type."""
    tensor, x, bias = packed(dtype=dtype), activation(3, 64, dtype=dtype), torch.full((32,), 2.0)
    result = linear(x, tensor, bias.double())
    assert result.dtype == dtype
    assert torch.equal(result, (linear(x, tensor).double() + 2.0).to(dtype))


def test_packed_activations_are_refused():
    """Only the weight may be packed."""
    with pytest.raises(UnsupportedOperationError, match="only its weight may be packed"):
        linear(packed(), torch.ones(3, 64))
    with pytest.raises(UnsupportedOperationError, match="both operands are packed"):
        torch.mm(packed(), packed().t())


def test_products_on_either_side():
    """`x @ w.t()`, `mm`, `matmul`, `addmm`, `w @ x` and `w @ vector` equal the float products."""
    tensor, x, bias = packed(), activation(3, 64), torch.ones(32)
    values = tensor.dequantize()
    pairs = [
        (x @ tensor.t(), x @ values.t()),
        (torch.mm(x, tensor.T), x @ values.t()),
        (torch.matmul(x.view(1, 3, 64), tensor.mT), (x @ values.t())[None]),
        (torch.addmm(bias, x, tensor.t()), torch.addmm(bias, x, values.t())),
        (
            torch.addmm(bias, x, tensor.t(), beta=2, alpha=3),
            torch.addmm(bias, x, values.t(), beta=2, alpha=3),
        ),
        (activation(3, 32) @ tensor, activation(3, 32) @ values),
        (tensor @ x.t(), values @ x.t()),
        (tensor @ x[0], values @ x[0]),
        (x[0] @ tensor.t(), x[0] @ values.t()),
    ]
    for found, expected in pairs:
        assert torch.allclose(found, expected, rtol=1e-5, atol=1e-4)


def test_experts():
    """`bmm` multiplies by stacked experts; the number of experts must agree."""
    tensor, x = packed(3, 32, 64), activation(3, 5, 64)
    values = tensor.dequantize()
    for product in (torch.bmm, torch.matmul):
        found = product(x, tensor.transpose(1, 2))
        assert torch.allclose(found, x @ values.transpose(1, 2), rtol=1e-5, atol=1e-4)
    assert torch.allclose(linear(x[1], tensor[1]), x[1] @ values[1].t(), rtol=1e-5, atol=1e-4)
    with pytest.raises(UsageError, match="shapes do not fit"):
        torch.bmm(x[:2], tensor.transpose(1, 2))


@pytest.mark.parametrize("name", GRANULARITIES)
def test_gradients_of_activation_and_bias(name):
    """Gradients of activation, bias and pre-scale equal those of the dequantized weight."""
    tensor = packed(granularity=GRANULARITIES[name])
    grads = []
    for weight in (tensor, tensor.dequantize()):
        x, bias = activation(5, 64).requires_grad_(), torch.ones(32, requires_grad=True)
        (linear(x, weight, bias) * activation(5, 32)).sum().backward()
        grads.append((x.grad, bias.grad))
    for found, expected in zip(*grads, strict=True):
        assert torch.allclose(found, expected, rtol=1e-5, atol=1e-4)


def test_gradient_through_transposed_products():
    """`x @ w.t()` is differentiable in x too."""
    x = activation(5, 64).requires_grad_()
    (x @ packed().t()).sum().backward()
    assert torch.allclose(x.grad, packed().dequantize().sum(0).expand(5, 64), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", GRANULARITIES)
@pytest.mark.parametrize("zero_point", [False, True])
def test_embedding(name, zero_point):
    """Rows are gathered, then dequantized: the bits of the float embedding, of any index shape."""
    tensor = packed(granularity=GRANULARITIES[name], zero_point=zero_point, dtype=torch.bfloat16)
    for indices in (torch.tensor(3), torch.tensor([[0, 31], [7, 7]]), torch.empty(0).long()):
        found = embedding(indices, tensor, padding_idx=0)
        assert torch.equal(found, embedding(indices, tensor.dequantize()))


def test_embedding_module():
    """nn.Embedding takes the tensor as its weight."""
    module = torch.nn.Embedding(32, 64)
    module.weight = torch.nn.Parameter(packed())
    indices = torch.tensor([1, 2])
    assert torch.equal(module(indices), packed().dequantize()[indices])


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0])
def test_embedding_with_max_norm(norm_type):
    """Rows longer than max_norm come shortened, as from torch; the weight stays as it is."""
    tensor, indices = packed(), torch.tensor([1, 2, 1])
    options = {"max_norm": 5.0, "norm_type": norm_type}
    expected = embedding(indices, tensor.dequantize(), **options)
    found = embedding(indices, tensor, **options)
    assert torch.allclose(found, expected, rtol=1e-6)
    assert torch.equal(tensor.dequantize(), packed().dequantize())


@pytest.mark.parametrize("padding_idx", [32, -33])
def test_embedding_refuses_a_padding_index_beyond_the_rows(padding_idx):
    """A padding index that is no row raises, as in torch."""
    with pytest.raises(UsageError, match="padding_idx is not a row of the weight"):
        embedding(torch.tensor([1]), packed(), padding_idx=padding_idx)


def test_embedding_refuses_a_wrong_index():
    """An index beyond the rows raises, as in torch."""
    with pytest.raises((IndexError, RuntimeError), match="out of range"):
        embedding(torch.tensor([32]), packed())


@pytest.mark.parametrize("shape", [(0, 64), (32, 0), (0, 0)])
def test_empty_weights(shape):
    """Weights without rows or columns give empty or zero results."""
    tensor = packed(*shape)
    found = linear(activation(3, shape[1]), tensor)
    assert found.shape == (3, shape[0])
    assert not found.any()


def test_functions_without_a_rule_are_refused():
    """A function of torch that needs another operator raises, naming it."""
    with pytest.raises(UnsupportedOperationError, match="Int8Tensor does not support aten"):
        bilinear(torch.ones(2, 3), torch.ones(2, 64), packed(4, 3, 64))


def test_autocast_sets_the_type():
    """Under autocast a linear with its bias runs and answers in autocast's type, as in torch."""
    module = torch.nn.Linear(64, 32)
    module.weight = torch.nn.Parameter(packed())
    x = activation(3, 64).requires_grad_()
    for function in (module, torch.compile(module, fullgraph=True, backend="aot_eager")):
        with torch.autocast("cpu", torch.bfloat16):
            found = function(x)
        assert found.dtype == torch.bfloat16
    expected = linear(x.bfloat16(), packed(), module.bias.bfloat16())
    assert torch.equal(found, expected)


@pytest.mark.parametrize("rows", [1, 3, 31, 33])
@pytest.mark.parametrize("columns", [1, 2, 15, 16, 17, 31, 48, 63, 80])
def test_odd_sizes(rows, columns):
    """Sizes that torch's packed kernel reads beyond, and crashes on, never reach it."""
    tensor = packed(rows, columns, dtype=torch.bfloat16)
    for batch in (1, 2, 5, 8):
        x = activation(batch, columns, dtype=torch.bfloat16)
        assert_near(linear(x, tensor), x.double() @ double(tensor).t(), torch.bfloat16)


@pytest.mark.parametrize("offset", [1, 2, 8, 16, 31, 33])
def test_odd_addresses(offset):
    """Codes and activations may lie at any address, as they do in mapped files and slices."""
    tensor = packed(32, 64, dtype=torch.bfloat16)
    bytes_ = torch.empty(offset + 32 * 64, dtype=torch.int8)
    codes = bytes_[offset:].view(32, 64).copy_(tensor.qdata)
    moved = tensor.with_fields(qdata=codes)
    room = torch.empty(offset + 4 * 64, dtype=torch.bfloat16)
    x = room[offset:].view(4, 64).copy_(activation(4, 64, dtype=torch.bfloat16))
    assert_near(linear(x, moved), x.double() @ double(tensor).t(), torch.bfloat16)
    assert_near(linear(x, moved[1:]), x.double() @ double(tensor)[1:].t(), torch.bfloat16)
