import pytest
import torch
from torch.nn.functional import linear

from qconfig.codec.dtypes import DType
from qconfig.configs.choices import MappingType
from qconfig.tensors import intx_static, intx_static_product
from qconfig.tensors.intx_static import IntxStaticActivationTensor
from tests.tensors.intx_static_samples import (
    ASYMMETRIC,
    GROUPS,
    ROWS,
    channel_scales,
    packed,
    reference,
    zero_points,
)
from tests.tensors.samples import activation

ACTIVATIONS = {
    "tensor": {},
    "tensor, zero point": {"act_zero_point": 57},
    "channel": {"act_scale": channel_scales(512)},
    "channel, zero point": {
        "act_scale": channel_scales(512),
        "act_zero_point": zero_points(512),
    },
}
GRANULARITIES = {"groups": GROUPS, "rows": ROWS}


@pytest.fixture(params=GRANULARITIES)
def granularity(request):
    """Return groups of 16, or a scale a row."""
    return GRANULARITIES[request.param]


@pytest.fixture(params=ACTIVATIONS)
def static(request):
    """Return scales of activations as options of `packed`."""
    return ACTIVATIONS[request.param]


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("mapping", [MappingType.SYMMETRIC, MappingType.ASYMMETRIC])
@pytest.mark.parametrize("scale_dtype", ["float32", "bfloat16", "float16"])
def test_error_stays_at_rounding_level(granularity, static, bits, mapping, scale_dtype):
    """In float32, whatever scales and zero points, the result is a float64 reference's, rounded."""
    options = {"bits": bits, "granularity": granularity, "weight_mapping_type": mapping}
    tensor = packed(24, 512, **static, **options, weight_scale_dtype=DType(scale_dtype))
    x = activation(9, 512) * 2
    expected = reference(tensor, x)
    error = (linear(x, tensor).double() - expected).abs().max()
    assert error <= 1e-6 * expected.abs().max()


def test_float64_activations_are_computed_in_float64(granularity, static):
    """A float64 activation loses nothing to float32."""
    tensor = packed(24, 512, **static, granularity=granularity)
    x = activation(9, 512).double()
    expected = linear(tensor.activation_seen(x), tensor.dequantize(torch.float64))
    assert (linear(x, tensor) - expected).abs().max() < 1e-13 * expected.abs().max()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_half_result_is_rounded_once(granularity, static, dtype):
    """Results in 16 bits are within half a unit in the last place of the reference."""
    tensor = packed(24, 512, **static, granularity=granularity, dtype=dtype)
    x, bias = activation(9, 512, dtype=dtype), activation(24, dtype=dtype)
    expected = reference(tensor, x, bias)
    unit = torch.finfo(dtype).eps / 2
    error = (linear(x, tensor, bias).double() - expected).abs()
    assert (error <= 1.001 * unit * expected.abs() + 1e-6 * expected.abs().max()).all()


@pytest.mark.parametrize("act_zero_point", [-128, -1, 127])
@pytest.mark.parametrize("weight_zero_point", [-128, 127])
def test_no_correction_cancels(act_zero_point, weight_zero_point):
    """Zero points that shift all codes to one side leave each result its relative accuracy."""
    # The terms of the corrections are up to 10**6 times larger than what is left of them.
    columns = 4096
    generator = torch.Generator().manual_seed(0)
    offsets = torch.randint(-1, 2, (16, columns), generator=generator)
    codes = (offsets + weight_zero_point).clamp(-128, 127).to(torch.int8)
    scale = torch.rand(16, 1, generator=generator).bfloat16()
    tensor = IntxStaticActivationTensor(
        codes,
        scale,
        torch.tensor([0.0371], dtype=torch.bfloat16),
        "int8",
        (1, columns),
        "float32",
        zero_point=torch.full((16, 1), weight_zero_point, dtype=torch.int8),
        act_quant_zero_point=torch.tensor([act_zero_point], dtype=torch.int8),
    )
    x = torch.randint(-1, 2, (8, columns), generator=generator) * 0.0371
    expected = reference(tensor, x)
    error = (linear(x, tensor).double() - expected).abs()
    assert (error <= 2.0**-22 * expected.abs()).all()


def test_corrections_are_exact_integers():
    """With scales of 1 the result is that of integers, to the last bit, for all codes."""
    columns = 2000
    codes = torch.full((3, columns), -128, dtype=torch.int8)
    codes[1] = 127
    codes[2, ::2] = 5
    zero = torch.tensor([[127], [-128], [3]], dtype=torch.int8)
    tensor = IntxStaticActivationTensor(
        codes,
        torch.ones(3, 1),
        torch.ones(1),
        "int8",
        (1, columns),
        "float32",
        zero_point=zero,
        act_quant_zero_point=torch.tensor([127], dtype=torch.int8),
    )
    x = torch.tensor([-255.0, 0.0, -1.0]).unsqueeze(1).expand(3, columns)
    expected = x.long() @ (codes.long() - zero.long()).T
    assert torch.equal(linear(x, tensor), expected.float())


def test_a_long_row_does_not_overflow():
    """Where 255 * 255 * K passes int32, the sums are taken in int64."""
    columns = 40_000
    tensor = IntxStaticActivationTensor(
        torch.full((2, columns), -128, dtype=torch.int8),
        torch.ones(2, 1),
        torch.ones(1),
        "int8",
        (1, columns),
        "float64",
        zero_point=torch.full((2, 1), 127, dtype=torch.int8),
        act_quant_zero_point=torch.tensor([127], dtype=torch.int8),
    )
    x = torch.full((1, columns), -255.0, dtype=torch.float64)
    assert linear(x, tensor).tolist() == [[255.0 * 255 * columns] * 2]


def test_row_sums_are_computed_once(monkeypatch):
    """The builder sums the rows of the weight; forwards, eager and compiled, do not."""
    tensor = packed(granularity=ROWS, act_zero_point=3)
    assert torch.equal(tensor.weight_sums, tensor.qdata.sum(1, keepdim=True, dtype=torch.int32))
    monkeypatch.setattr(intx_static_product, "row_sums", None)
    x = activation(4, 64)
    compiled = torch.compile(linear, fullgraph=True, backend="aot_eager")
    first = linear(x, tensor)
    assert torch.equal(linear(x, tensor), first)
    assert torch.equal(compiled(x, tensor), first)


def test_without_row_sums_they_are_computed_when_needed():
    """A tensor made without sums gives the same results."""
    tensor = packed(granularity=ROWS, act_zero_point=3, weight_mapping_type=ASYMMETRIC)
    bare = tensor.with_fields(weight_sums=None)
    x = activation(4, 64)
    assert torch.equal(linear(x, bare), linear(x, tensor))


def test_corrections_are_skipped_when_all_zero_points_are_0(monkeypatch):
    """Zero points that are there and 0 cost nothing: no sum of weight or activation is taken."""
    tensor = packed(granularity=ROWS).with_fields(
        zero_point=torch.zeros(32, 1, dtype=torch.int8),
        act_quant_zero_point=torch.zeros(1, dtype=torch.int8),
    )
    seen = []
    original = intx_static_product.integer_product

    def spy(codes, qdata, zero_point, act_zero_point, sums):
        seen.append((zero_point, act_zero_point))
        return original(codes, qdata, zero_point, act_zero_point, sums)

    monkeypatch.setattr(intx_static_product, "integer_product", spy)
    monkeypatch.setattr(intx_static_product, "row_sums", None)
    x = activation(4, 64)
    assert torch.equal(linear(x, tensor), linear(x, packed(granularity=ROWS)))
    assert seen == [(None, None), (None, None)]


def test_loading_leaves_out_zero_points_that_are_0():
    """What a file stores as zeros is simplified, and missing sums are added where they serve."""
    tensor = packed(granularity=ROWS, act_zero_point=3).with_fields(
        zero_point=torch.zeros(32, 1, dtype=torch.int8), weight_sums=None
    )
    simple = IntxStaticActivationTensor.simplify(tensor.to_layout())
    assert simple.zero_point is None
    assert torch.equal(simple.weight_sums, intx_static.row_sums(tensor.qdata))
    nothing = tensor.with_fields(act_quant_zero_point=torch.zeros(1, dtype=torch.int8))
    simple = IntxStaticActivationTensor.simplify(nothing.to_layout())
    assert simple.act_quant_zero_point is None
    assert simple.weight_sums is None


def test_nan_stays_nan(granularity):
    """A NaN in an activation makes its row NaN and no other; infinity is clamped to a code."""
    tensor = packed(granularity=granularity)
    x = activation(3, 64)
    x[1, 7] = torch.nan
    x[2, 7] = torch.inf
    y = linear(x, tensor)
    assert y[1].isnan().all()
    assert y[[0, 2]].isfinite().all()


def test_codes_are_chosen_in_float32():
    """A bfloat16 activation gets the codes of its exact values, not of a product in bfloat16."""
    tensor = packed(64, 64, act_scale=torch.tensor(0.01, dtype=torch.bfloat16))
    x = activation(64, 64, dtype=torch.bfloat16)
    seen = tensor.activation_seen(x)
    scale = tensor.act_quant_scale.float()
    assert seen.dtype == torch.float32
    assert torch.equal(seen, (x.float() * (1 / scale)).round().clamp(-128, 127) * scale)
