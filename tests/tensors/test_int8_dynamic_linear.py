import pytest
import torch
from torch.nn.functional import linear

from qconfig.configs import PerAxis, PerGroup, PerRow, PerTensor
from qconfig.configs.choices import MappingType
from qconfig.errors import UnsupportedOperationError
from qconfig.layouts.activation import QuantizeTensorToInt8Kwargs
from qconfig.tensors import Int8Tensor, int8_matmul
from tests.tensors.samples import FLOATS, activation, double, float_weight, packed
from tests.tensors.torchao_dynamic import weight_with_activation

ROUNDING = {torch.float32: 2.0**-19, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-10}
WEIGHTS = {"row": PerRow(), "tensor": PerTensor(), "group": PerGroup(16)}


@pytest.fixture(params=["integers", "floats"], autouse=True)
def processor(request, monkeypatch):
    """Run with this processor's kernels, and with those for one that cannot multiply integers."""
    if request.param == "floats":
        monkeypatch.setattr(int8_matmul, "_fast_integers", lambda: False)


def dynamic(*, per_token=True, asymmetric=False, reduce_range=False, **form):
    """Return a weight that quantizes its activations as they come."""
    kwargs = QuantizeTensorToInt8Kwargs(
        PerRow() if per_token else PerTensor(),
        MappingType.ASYMMETRIC if asymmetric else MappingType.SYMMETRIC,
        reduce_range,
    )
    return packed(act_quant_kwargs=kwargs, **form)


def static(scale, zero_point=None, *, granularity=None, **form):
    """Return a weight with a static scale of activations."""
    asymmetric = zero_point is not None
    mapping = MappingType.ASYMMETRIC if asymmetric else MappingType.SYMMETRIC
    kwargs = QuantizeTensorToInt8Kwargs(granularity or PerTensor(), mapping)
    return packed(
        act_quant_kwargs=kwargs,
        act_quant_scale=scale,
        act_quant_zero_point=zero_point,
        **form,
    )


def error(found, expected):
    """Return the largest error, relative to the largest value."""
    return float((found.double() - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("granularity", WEIGHTS)
@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("zero_point", [False, True])
def test_products_agree_with_float64(dtype, granularity, asymmetric, zero_point):
    """Activation and weight with zero points or without: off by one rounding of the type."""
    for per_token in (True, False):
        tensor = dynamic(
            per_token=per_token,
            asymmetric=asymmetric,
            zero_point=zero_point,
            granularity=WEIGHTS[granularity],
        )
        for rows in (1, 5, 20):
            x = activation(rows, 64, dtype=dtype) + 1
            expected = tensor.activation_seen(x).double() @ double(tensor).t()
            found = linear(x, tensor)
            assert found.dtype == dtype
            assert error(found, expected) <= ROUNDING[dtype]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("weight_per_tensor", [False, True])
@pytest.mark.parametrize("per_token", [False, True])
@pytest.mark.parametrize("asymmetric", [False, True])
def test_products_are_torchaos(dtype, weight_per_tensor, per_token, asymmetric):
    """With torchao's codes, the result is torchao's up to the roundings that torchao adds."""
    weight = float_weight(dtype=dtype)
    for reduce_range in (False, True):
        theirs = weight_with_activation(
            weight, weight_per_tensor, per_token, asymmetric, reduce_range
        )
        granularity = PerTensor() if weight_per_tensor else PerRow()
        ours = dynamic(
            per_token=per_token,
            asymmetric=asymmetric,
            reduce_range=reduce_range,
            granularity=granularity,
            dtype=dtype,
        )
        ours = ours.with_fields(qdata=theirs.qdata, scale=theirs.scale)
        for rows in (1, 20):
            x = activation(rows, 64, dtype=dtype) + 1
            assert error(linear(x, ours), linear(x, theirs).double()) <= 4 * ROUNDING[dtype]


@pytest.mark.parametrize("zero_point", [None, 100])
def test_static_products_are_torchaos(zero_point):
    """A static scale gives torchao's result too, within its rounding."""
    weight, scale = float_weight(), torch.tensor([[0.02]])
    zero = None if zero_point is None else torch.tensor([[zero_point]], dtype=torch.int8)
    theirs = weight_with_activation(
        weight,
        False,
        False,
        zero is not None,
        act_quant_scale=scale,
        act_quant_zero_point=zero,
    )
    x = activation(12, 64)
    found = linear(x, static(scale, zero))
    assert error(found, linear(x, theirs).double()) <= ROUNDING[torch.float32]


def test_zero_points_do_not_cancel_what_is_wanted():
    """Activations far from 0 with small differences keep the precision of the result."""
    tensor = dynamic(asymmetric=True, zero_point=True)
    x = (100 + 1e-3 * activation(6, 64)).bfloat16()
    expected = tensor.activation_seen(x).double() @ double(tensor).t()
    assert error(linear(x, tensor), expected) <= ROUNDING[torch.bfloat16]


def test_long_rows_with_zero_points_do_not_overflow():
    """K of 40000 with the most extreme zero points passes int32, and is exact all the same."""
    x = torch.full((9, 40_000), 2.0)
    x[:, 0] = 0.0
    large = Int8Tensor(
        torch.full((3, 40_000), 127, dtype=torch.int8),
        torch.full((3, 1), 0.01),
        (1, 40_000),
        torch.float32,
        zero_point=torch.full((3, 1), -128, dtype=torch.int8),
        act_quant_kwargs=QuantizeTensorToInt8Kwargs(PerRow(), MappingType.ASYMMETRIC),
    )
    expected = large.activation_seen(x).double() @ double(large).t()
    assert error(linear(x, large), expected) <= ROUNDING[torch.float32]


@pytest.mark.parametrize("leading", [(), (5,), (2, 3), (2, 1, 3), (0,), (2, 0)])
def test_ranks_and_empty_batches(leading):
    """Activations of rank 1 to 4 and without elements give results of their shape."""
    for asymmetric in (False, True):
        tensor = dynamic(asymmetric=asymmetric)
        x = activation(*leading, 64)
        found = linear(x, tensor)
        assert found.shape == (*leading, 32)
        rows = linear(x.reshape(-1, 64), tensor)
        assert torch.equal(found.reshape(-1, 32), rows)
        assert tensor.activation_seen(x).shape == x.shape


def test_pre_scale_comes_before_quantization():
    """The factor is multiplied first, in the wider type, as torchao does."""
    factor = torch.linspace(0.5, 20, 64)
    x = activation(10, 64, dtype=torch.bfloat16)
    found = linear(x, dynamic().with_activation_scale(factor))
    expected = linear(x * factor, dynamic()).bfloat16()
    assert torch.equal(found, expected)


def test_a_scale_for_each_channel_is_used():
    """Static scales along K quantize each input channel with its own."""
    scale = torch.linspace(0.01, 0.05, 64).view(1, 64)
    zero = torch.arange(-32, 32, dtype=torch.int8).view(1, 64)
    tensor = static(scale, zero, granularity=PerAxis(-1))
    x = activation(7, 64)
    codes = ((x * (1 / scale)).round() + zero).clamp(-128, 127).double()
    seen = (codes - zero) * scale.double()
    assert error(linear(x, tensor), seen @ double(tensor).t()) <= ROUNDING[torch.float32]


def test_nan_stays_nan():
    """A token with NaN has a NaN result, others are as without it; static scales too."""
    x = activation(6, 64)
    broken = x.clone()
    broken[2, 5] = float("nan")
    for tensor in (dynamic(), dynamic(asymmetric=True), static(torch.tensor([[0.02]]))):
        found, expected = linear(broken, tensor), linear(x, tensor)
        assert found[2].isnan().all()
        expected[2], found[2] = 0, 0
        assert torch.equal(found, expected)


@pytest.mark.parametrize("granularity", WEIGHTS)
def test_gradient_is_that_of_the_unquantized_activation(granularity):
    """The gradient passes the rounding of activations as if it were not there."""
    tensor = dynamic(granularity=WEIGHTS[granularity], asymmetric=True, zero_point=True)
    x = activation(4, 64).requires_grad_()
    linear(x, tensor).square().sum().backward()
    upstream = 2 * linear(x.detach(), tensor).double()
    assert x.grad is not None
    assert error(x.grad, upstream @ double(tensor)) <= ROUNDING[torch.float32]


def test_one_graph_serves_all_batches():
    """A compiled linear is traced once for batches of any size and gives the eager result."""
    tensor = dynamic(asymmetric=True)
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    fast = torch.compile(linear, backend=backend, fullgraph=True, dynamic=True)
    for rows in (2, 9, 40):
        x = activation(rows, 64)
        assert torch.equal(fast(x, tensor), linear(x, tensor))
    assert len(graphs) == 1


def test_experts_quantize_their_own_activations():
    """A bmm with stacked matrices gives what each expert gives alone."""
    stacked = dynamic()
    experts = torch.stack([stacked, dynamic(seed=1)])
    x = activation(2, 5, 64)
    found = torch.bmm(x, experts.transpose(1, 2))
    assert torch.equal(found[1], linear(x[1], dynamic(seed=1)))


@pytest.mark.parametrize(
    ("kwargs", "fields", "message"),
    [
        (QuantizeTensorToInt8Kwargs(PerGroup(16)), {}, "granularity PerGroup"),
        (QuantizeTensorToInt8Kwargs(PerRow(0)), {}, "granularity PerRow"),
        (QuantizeTensorToInt8Kwargs(PerAxis(-1)), {}, "granularity PerAxis"),
        (
            QuantizeTensorToInt8Kwargs(PerRow(), MappingType.SYMMETRIC_NO_CLIPPING_ERR),
            {},
            "mapping_type SYMMETRIC_NO_CLIPPING_ERR; SYMMETRIC and ASYMMETRIC are served",
        ),
        (
            QuantizeTensorToInt8Kwargs(PerRow()),
            {"act_quant_scale": torch.ones(1, 5)},
            r"act_quant_scale of shape \(1, 5\); 1 element, K or \(M, 1\) are served",
        ),
    ],
)
def test_other_activation_scales_are_refused(kwargs, fields, message):
    """What a file may say and the product does not have is refused with what it has."""
    with pytest.raises(UnsupportedOperationError, match=message):
        linear(activation(3, 64), packed(act_quant_kwargs=kwargs, **fields))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_huge_activations_do_not_overflow_on_the_way(dtype):
    """Integer sums times a large activation scale may pass float32, the result does not."""
    tensor = packed(act_quant_kwargs=QuantizeTensorToInt8Kwargs(PerRow()))
    x = (activation(3, 64) * 1e36).to(dtype)
    expected = tensor.activation_seen(x).double() @ tensor.dequantize(torch.float64).T
    found = linear(x, tensor).double()
    assert (found - expected).abs().max() <= 0.01 * expected.abs().max()
