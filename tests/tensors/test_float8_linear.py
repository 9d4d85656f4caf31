import pytest
import torch
from torch.nn.functional import linear

from qconfig.configs import PerGroup, PerTensor
from qconfig.errors import UsageError
from qconfig.layouts.float8 import QuantizeTensorToFloat8Kwargs
from qconfig.tensors import float8_linear
from tests.tensors.float8_samples import (
    ACTIVATIONS,
    E4M3,
    E5M2,
    GRANULARITIES,
    exact,
    packed,
    theirs,
    torchao_float8,
)
from tests.tensors.samples import FLOATS, activation, float_weight

ROUNDING = {
    torch.float16: 2.0**-10,
    torch.bfloat16: 2.0**-7,
    torch.float32: 2.0**-20,
    torch.float64: 2.0**-20,
}
PER_TENSOR = QuantizeTensorToFloat8Kwargs(granularity=PerTensor())
NEEDS_CUDA = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 9),
    reason="needs a GPU of capability 8.9 or later",
)


def error(found, expected):
    """Return the largest difference, in parts of the largest value."""
    difference = (found.double().cpu() - expected.double().cpu()).abs().max()
    return difference / expected.double().abs().max()


def expected_product(weight, x, bias=None):
    """Return the product of what is said to be multiplied, in float64."""
    result = weight.activation_seen(x).double() @ exact(weight).t()
    return result if bias is None else result + bias.double()


@pytest.mark.parametrize("codes", [E4M3, E5M2])
@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64])
@pytest.mark.parametrize("name", GRANULARITIES)
@pytest.mark.parametrize("how", ACTIVATIONS)
def test_products_are_right(codes, dtype, name, how):
    """Against float64, products of one, two and many rows are right to the type's rounding."""
    weight = packed(
        48, 64, granularity=GRANULARITIES[name], codes=codes, dtype=dtype,
        act_quant_kwargs=ACTIVATIONS[how],
    )  # fmt: skip
    bias = float_weight(48, dtype=dtype)
    for rows in (1, 2, 3, 33):
        x = activation(rows, 64, dtype=dtype)
        found = linear(x, weight, bias)
        assert found.dtype == dtype
        assert error(found, expected_product(weight, x, bias)) < ROUNDING[dtype]


@pytest.mark.parametrize("how", ACTIVATIONS)
def test_small_buffers_change_little(monkeypatch, how):
    """However few rows of the weight the buffer holds, products are right."""
    monkeypatch.setattr("qconfig.tensors.blockwise._BUFFER_BYTES", 4 * 64 * 5)
    for name, granularity in GRANULARITIES.items():
        weight = packed(48, 64, granularity=granularity, act_quant_kwargs=ACTIVATIONS[how])
        x = activation(3, 64)
        limit = ROUNDING[torch.float32]
        assert error(linear(x, weight), expected_product(weight, x)) < limit, name


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["row", "tensor", "group"])
def test_weight_only_products_are_torchaos(dtype, name):
    """Torchao's product with the same codes differs by rounding only."""
    weight = packed(48, 64, granularity=GRANULARITIES[name], dtype=dtype)
    peer = theirs(float_weight(48, 64, dtype=dtype), GRANULARITIES[name])
    for rows in (1, 16):
        x = activation(rows, 64, dtype=dtype)
        assert error(linear(x, weight), linear(x, peer)) < 2 * ROUNDING[dtype]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", ["row", "tensor"])
def test_dynamic_products_are_torchaos(dtype, name):
    """Torchao's product of quantized activations differs by rounding only."""
    tensor_class, module = torchao_float8()
    from torchao.float8.inference import Float8MMConfig
    from torchao.quantization.quantize_.workflows import QuantizeTensorToFloat8Kwargs as Theirs

    granularity = {"row": module.PerRow(), "tensor": module.PerTensor()}[name]
    peer = tensor_class.from_hp(
        float_weight(48, 64, dtype=dtype), E4M3, granularity, Float8MMConfig(),
        act_quant_kwargs=Theirs(E4M3, granularity),
    )  # fmt: skip
    weight = packed(
        48, 64, granularity=GRANULARITIES[name], dtype=dtype, act_quant_kwargs=ACTIVATIONS[name]
    )
    x = activation(16, 64, dtype=dtype)
    assert error(linear(x, weight), linear(x, peer)) < 2 * ROUNDING[dtype]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["row", "tensor", "bounds"])
def test_activation_codes_are_torchaos(dtype, name):
    """What is multiplied are torchao's codes times its scales."""
    tensor_class, module = torchao_float8()
    kwargs = ACTIVATIONS[name]
    granularity = module.PerTensor() if name == "tensor" else module.PerRow()
    x = activation(5, 64, dtype=dtype)
    bounds = (kwargs.hp_value_lb, kwargs.hp_value_ub)
    peer = tensor_class.from_hp(x, E4M3, granularity, None, *bounds)
    seen = packed(act_quant_kwargs=kwargs).activation_seen(x)
    assert torch.equal(seen, peer.dequantize(torch.float32))


@pytest.mark.parametrize("how", ACTIVATIONS)
def test_rows_of_zeros_give_zeros(how):
    """A token of zeros gives zeros, not NaN, and does not disturb the others."""
    weight = packed(act_quant_kwargs=ACTIVATIONS[how])
    x = activation(3, 64)
    x[1] = 0
    found = linear(x, weight)
    assert not found[1].any()
    assert error(found, expected_product(weight, x)) < ROUNDING[torch.float32]


@pytest.mark.parametrize("how", ["none", "row", "token_e5m2"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_shows(how, value):
    """NaN or infinity in a token shows in its outputs, and in no other token's."""
    x = activation(3, 64)
    x[1, 5] = value
    found = linear(x, packed(act_quant_kwargs=ACTIVATIONS[how]))
    assert not found[1].isfinite().any()
    assert found[[0, 2]].isfinite().all()


def test_nan_codes_of_a_weight_show():
    """A weight whose codes hold NaN gives NaN in that output, as torch's conversion would."""
    weight = packed()
    weight.qdata.view(torch.uint8)[3, 7] = 0x7F
    found = linear(activation(2, 64), weight)
    assert found[:, 3].isnan().all()
    assert found[:, [0, 1, 2, 4]].isfinite().all()


def test_groups_that_do_not_divide_the_rows_of_a_transposed_weight():
    """`x @ weight` would quantize x in groups along the rows; the error says what is missing."""
    kwargs = QuantizeTensorToFloat8Kwargs(granularity=PerGroup(16))
    weight = packed(24, 64, act_quant_kwargs=kwargs)
    with pytest.raises(UsageError, match="have no whole blocks") as caught:
        torch.ones(2, 24) @ weight
    assert caught.value.expected == "a multiple of 16"


def test_static_scales():
    """Activation and output are quantized with the scales that the tensor holds."""
    weight = packed(
        act_quant_scale=torch.tensor(0.01), act_quant_kwargs=PER_TENSOR,
        output_act_quant_scale=torch.tensor([[0.05]]), output_act_quant_kwargs=PER_TENSOR,
    )  # fmt: skip
    x = activation(7, 64)
    codes = (x / 0.01).clamp(-448, 448).to(E4M3)
    assert torch.equal(weight.activation_seen(x), codes.float() * 0.01)
    found = linear(x, weight)
    assert torch.equal((found / 0.05).to(E4M3).float() * 0.05, found)
    without = linear(
        x, weight.with_fields(output_act_quant_kwargs=None, output_act_quant_scale=None)
    )
    assert torch.equal(found, weight.output_seen(without))


def test_pre_scale_comes_before_quantization():
    """`act_pre_scale` multiplies the activation, then its maximum is taken."""
    factor = torch.rand(64, generator=torch.Generator().manual_seed(0)) + 0.5
    weight = packed(act_quant_kwargs=ACTIVATIONS["row"])
    x = activation(3, 64)
    scaled = weight.with_activation_scale(factor)
    assert torch.equal(linear(x, scaled), linear(x * factor, weight))


@pytest.mark.parametrize("shape", [(64,), (3, 64), (2, 3, 64), (0, 64), (2, 0, 64)])
@pytest.mark.parametrize("how", ACTIVATIONS)
def test_ranks_and_empty_batches(shape, how):
    """Activations of any rank, empty ones too, give outputs of that rank."""
    weight = packed(act_quant_kwargs=ACTIVATIONS[how])
    found = linear(activation(*shape), weight)
    assert found.shape == (*shape[:-1], 32)


@pytest.mark.parametrize("name", GRANULARITIES)
@pytest.mark.parametrize("how", ACTIVATIONS)
def test_gradient_reaches_the_activation(name, how):
    """The gradient is that of the dequantized weight; rounding of the activation is left out."""
    weight = packed(48, 64, granularity=GRANULARITIES[name], act_quant_kwargs=ACTIVATIONS[how])
    x = activation(3, 64).requires_grad_()
    linear(x, weight).backward(torch.ones(3, 48))
    expected = torch.ones(3, 48, dtype=torch.float64) @ exact(weight)
    assert error(x.grad, expected) < ROUNDING[torch.float32]


def test_gradient_passes_quantized_outputs():
    """Quantization of outputs is left out of the gradient as well."""
    weight = packed(output_act_quant_kwargs=PER_TENSOR)
    x = activation(3, 64).requires_grad_()
    linear(x, weight).backward(torch.ones(3, 32))
    expected = torch.ones(3, 32, dtype=torch.float64) @ exact(weight)
    assert error(x.grad, expected) < ROUNDING[torch.float32]


@pytest.mark.parametrize("operator", ["float8_linear", "float8_round_trip"])
def test_operators_keep_torchs_rules(operator):
    """Torch's own check of custom operators finds nothing wrong."""
    x, weight = activation(3, 64), packed()
    arguments = {
        "float8_linear": (x, weight.qdata, weight.scale, None, E4M3, None, None, None),
        "float8_round_trip": (x, None, E4M3, None, None, None),
    }
    tests = ("test_faketensor", "test_autograd_registration")
    torch.library.opcheck(
        getattr(torch.ops.qconfig, operator).default, arguments[operator], test_utils=tests
    )


@pytest.mark.parametrize("how", ACTIVATIONS)
def test_one_graph_for_all_batches(how):
    """Compiled without a break, the product is the eager one for every number of rows."""
    torch.compiler.reset()
    weight = packed(act_quant_kwargs=ACTIVATIONS[how])
    compiled = torch.compile(linear, backend="aot_eager", fullgraph=True, dynamic=True)
    for rows in (1, 4, 9):
        x = activation(rows, 64)
        assert torch.equal(compiled(x, weight), linear(x, weight))


def test_scaled_mm_is_no_choice_on_a_cpu():
    """Torch's own float8 product, which is slow there, does not run on the CPU."""
    codes, scale = packed().qdata, packed().scale
    assert not float8_linear._scaled_mm_serves(codes, codes, scale, scale)


@NEEDS_CUDA
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", GRANULARITIES)
@pytest.mark.parametrize("how", ACTIVATIONS)
def test_products_on_a_gpu(dtype, name, how):
    """On a GPU products are right to the rounding of bfloat16, which its own kernels give."""
    weight = packed(
        48, 64, granularity=GRANULARITIES[name], dtype=dtype, act_quant_kwargs=ACTIVATIONS[how]
    )
    x = activation(16, 64, dtype=dtype)
    found = linear(x.cuda(), weight.cuda())
    assert error(found, expected_product(weight, x)) < 2 * ROUNDING[torch.bfloat16]
