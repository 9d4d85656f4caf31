import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.functional import linear

from qconfig.errors import UnsupportedOperationError
from tests.tensors.intx_static_samples import (
    ASYMMETRIC,
    GROUPS,
    ROWS,
    channel_scales,
    packed,
    reference,
    static_reference,
    zero_points,
)
from tests.tensors.samples import activation

FORMS = {
    "groups": {"granularity": GROUPS},
    "rows": {"granularity": ROWS, "act_zero_point": -7, "weight_mapping_type": ASYMMETRIC},
    "channel": {"act_scale": channel_scales(64), "act_zero_point": zero_points(64)},
    "output": {"granularity": ROWS, "output_scale": 0.4, "output_zero_point": 12},
    "output channel": {"output_scale": channel_scales(32), "output_zero_point": zero_points(32)},
}


@pytest.fixture(params=FORMS)
def tensor(request):
    """Return a quantized weight, (32, 64), of each form."""
    return packed(**FORMS[request.param])


def expected_of(tensor, x, bias=None):
    """Return what linear has to give, from the definition."""
    return tensor.output_seen(reference(tensor, x, bias).to(x.dtype))


def close(found, expected):
    """Return whether results agree up to rounding, or by a step where rounding decides one."""
    return torch.allclose(found, expected, rtol=1e-5, atol=1e-5)


def inner_copies(tensor):
    """Return copies of all inner tensors."""
    return {n: t.clone() for n, t in tensor.inner_tensors.items() if t is not None}


@pytest.mark.parametrize("shape", [(64,), (5, 64), (2, 3, 64), (2, 1, 3, 64), (0, 64), (2, 0, 64)])
def test_activations_of_every_rank(tensor, shape):
    """Vectors, matrices and batches of them, empty ones too, give (..., N)."""
    x = activation(*shape)
    found = linear(x, tensor)
    assert found.shape == (*shape[:-1], 32)
    assert close(found, expected_of(tensor, x.reshape(-1, 64)).reshape(found.shape))


def test_a_forward_never_changes_the_weight(tensor):
    """Ranks (K,), (M, K) and (B, M, K) one after another give equal rows, and all fields stay."""
    before = inner_copies(tensor)
    layer = nn.Linear(64, 32, bias=False)
    layer.weight = nn.Parameter(tensor, requires_grad=False)
    x = activation(2, 3, 64)
    vector, matrix, batch = layer(x[0, 0]), layer(x[0]), layer(x)
    assert close(vector, matrix[0])
    assert close(matrix, batch[0])
    assert torch.equal(layer(x[0, 0]), vector)
    assert torch.equal(layer(x), batch)
    assert all(torch.equal(getattr(layer.weight, n), t) for n, t in before.items())


def test_a_forward_never_changes_the_activation(tensor):
    """The activation is left as it is, contiguous or not."""
    x = activation(64, 6).t()
    before = x.clone()
    linear(x, tensor)
    assert torch.equal(x, before)


def test_the_bias_is_added_before_the_output_is_quantized(tensor):
    """With a bias the result is that of the definition, where the output is quantized last."""
    x, bias = activation(5, 64), activation(32)
    assert close(linear(x, tensor, bias), expected_of(tensor, x, bias))


def test_quantized_outputs_are_codes_times_scales():
    """Each output is a whole number of steps of its channel's scale, at most 255 of them."""
    scale, zero = channel_scales(32), zero_points(32)
    tensor = packed(output_scale=scale, output_zero_point=zero)
    y = linear(activation(50, 64) * 10, tensor)
    codes = y / scale + zero
    assert torch.allclose(codes, codes.round(), atol=1e-3)
    assert codes.min() >= -128.001
    assert codes.max() <= 127.001
    again = static_reference(y, scale, zero)
    assert torch.allclose(y.double(), again)


def test_every_path_quantizes_the_activation(tensor):
    """A linear, matmul, mm, addmm, mv and a 3-D matmul multiply the quantized activation."""
    # It is far out of the static range, so that one that was not quantized would show.
    x = activation(5, 64) * 100
    expected = linear(x, tensor)
    assert not close(expected, x @ tensor.dequantize().T)
    per_channel = tensor.act_quant_scale.numel() > 1 or (
        tensor.output_act_quant_scale is not None and tensor.output_act_quant_scale.numel() > 1
    )
    if not per_channel:
        assert close(x @ tensor.t(), expected)
        assert close(torch.mm(x, tensor.t()), expected)
        assert close(x.view(1, 5, 64) @ tensor.t(), expected[None])
        if tensor.output_act_quant_scale is None:
            assert close(torch.addmm(activation(32), x, tensor.t()), expected + activation(32))
    assert close(torch.mv(tensor, x[0]), expected[0])
    assert close(tensor @ x[0], expected[0])
    with torch.no_grad():
        assert torch.equal(linear(x, tensor), expected)
    with torch.inference_mode():
        assert torch.equal(linear(x, tensor), expected)


def test_experts_quantize_the_activation():
    """Experts in a bmm, and one of them in a linear, multiply the quantized activation."""
    experts = packed(3, 32, 64, granularity=ROWS, act_zero_point=-7)
    x = activation(3, 5, 64) * 100
    each = torch.stack([linear(x[i], experts[i]) for i in range(3)])
    assert experts[1].weight_sums.shape == (32, 1)
    assert close(torch.bmm(x, experts.transpose(1, 2)), each)
    assert close(each[1], reference(experts[1], x[1]).float())


def test_a_product_with_a_scale_for_each_channel_names_the_field():
    """A product along the other dimension than a scale's is refused, not ignored."""
    tensor = packed(act_scale=channel_scales(64))
    with pytest.raises(UnsupportedOperationError, match="act_quant_scale, which belongs to"):
        torch.mm(activation(5, tensor.shape[0]), tensor)


def test_shapes_that_fast_kernels_do_not_take(tensor):
    """Odd sizes, strided codes and an odd batch give the same as the definition."""
    odd = packed(7, 33, granularity=ROWS, act_zero_point=11)
    x = activation(3, 33)
    assert close(linear(x, odd), reference(odd, x).float())
    x = activation(5, 64)
    assert close(linear(x, tensor[::3]), expected_of(tensor[::3], x))


def test_gradients_go_straight_through(tensor):
    """The activation's gradient is that of the dequantized weight, the bias's that of a sum."""
    x = activation(2, 3, 64).requires_grad_()
    bias = activation(32).requires_grad_()
    factor = activation(2, 3, 32)
    (linear(x, tensor, bias) * factor).sum().backward()
    assert torch.allclose(x.grad, factor @ tensor.dequantize(), atol=1e-4)
    assert torch.allclose(bias.grad, factor.sum((0, 1)), atol=1e-5)


def test_a_bias_alone_gets_its_gradient(tensor):
    """Without a gradient for the activation the bias trains on."""
    bias = activation(32).requires_grad_()
    linear(activation(5, 64), tensor, bias).sum().backward()
    assert torch.equal(bias.grad, torch.full((32,), 5.0))


def test_autocast_gives_its_type(tensor):
    """Under autocast the result is bfloat16, and the activation quantized."""
    x = activation(5, 64)
    with torch.autocast("cpu", torch.bfloat16):
        found = linear(x, tensor)
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, linear(x.bfloat16(), tensor))


@pytest.mark.parametrize("dynamic", [True, False])
def test_full_graphs(tensor, dynamic):
    """A compiled linear without breaks gives the eager bits, and the eager gradient."""
    torch._dynamo.reset()
    layer = nn.Linear(64, 32)
    layer.weight = nn.Parameter(tensor, requires_grad=False)
    compiled = torch.compile(layer, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for rows in (3, 9):
        x, y = activation(rows, 64).requires_grad_(), activation(rows, 64).requires_grad_()
        found, expected = compiled(x), layer(y)
        assert torch.equal(found, expected)
        found.sum().backward()
        expected.sum().backward()
        assert torch.equal(x.grad, y.grad)


def test_the_operator_keeps_the_rules_of_torch():
    """The checks of torch of schema, fake shapes and gradients of a custom operator pass."""
    tensor = packed(granularity=ROWS, act_zero_point=3, output_scale=0.2)
    arguments = (
        activation(3, 64).requires_grad_(),
        tensor.qdata,
        tensor.scale,
        tensor.act_quant_scale,
        tensor.zero_point,
        tensor.act_quant_zero_point,
        tensor.output_act_quant_scale,
        tensor.output_act_quant_zero_point,
        tensor.weight_sums,
        activation(32).requires_grad_(),
    )
    operator = torch.ops.qconfig.intx_static_linear.default
    torch.library.opcheck(operator, arguments)
    whole = (activation(3, 64), *arguments[1:-1], None)
    torch.library.opcheck(operator, whole)


def test_one_compilation_for_layers_with_other_calibrations():
    """Scales are tensors: a stack of layers, each calibrated on its own, compiles once."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    blocks = []
    for i in range(10):
        tensor = packed(64, 64, seed=i, act_scale=0.02 + 0.003 * i, act_zero_point=i)
        blocks.append(nn.Sequential(nn.Linear(64, 64, bias=False), nn.Tanh()))
        blocks[-1][0].weight = nn.Parameter(tensor, requires_grad=False)
    model = nn.Sequential(*blocks)
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=counter)
    with torch.no_grad():
        for rows in (3, 9, 200):
            x = activation(rows, 64)
            assert torch.equal(compiled(x), model(x))
    assert counter.frame_count == 1


@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
def test_inductor_gives_the_eager_result():
    """Generated code calls the same operator: the bits are those of the eager path."""
    torch._dynamo.reset()
    layer = nn.Linear(64, 32).bfloat16()
    tensor = packed(granularity=ROWS, act_zero_point=3, output_scale=0.1, dtype=torch.bfloat16)
    layer.weight = nn.Parameter(tensor, requires_grad=False)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True)
    with torch.no_grad():
        for rows in (2, 30):
            x = activation(rows, 64, dtype=torch.bfloat16)
            assert torch.equal(compiled(x), layer(x))


def test_exported_programs_carry_the_calibration():
    """An exported linear quantizes its activation with the scales of the tensor."""
    layer = nn.Linear(64, 32)
    layer.weight = nn.Parameter(packed(act_zero_point=3), requires_grad=False)
    x = activation(4, 64) * 100
    exported = torch.export.export(layer, (x,)).module()
    assert torch.equal(exported(x), layer(x))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_cuda_agrees_with_the_cpu(tensor, dtype):
    """On a CUDA device integers and floats give what they give on the CPU, for all batch sizes."""
    moved = tensor.cuda()
    for rows in (1, 7, 16, 17, 64):
        x = activation(rows, 64, dtype=dtype)
        found, expected = linear(x.cuda(), moved).cpu(), linear(x, tensor)
        step = 0 if tensor.output_act_quant_scale is None else tensor.output_act_quant_scale.max()
        allowed = 1e-2 if dtype != torch.float32 else 1e-5
        assert found.dtype == dtype
        assert (found - expected).abs().max() <= allowed * expected.abs().max() + step
