import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.profiler import ProfilerActivity

from qconfig.codec.dtypes import DType
from qconfig.configs.choices import IntxChooseQParamsAlgorithm, MappingType
from qconfig.configs.intx import INTX
from qconfig.errors import BuildError, FieldError, LayoutError
from qconfig.layouts.intx import code_range
from qconfig.tensors.intx_quantize import (
    checked_qparams,
    quantize_intx,
    quantize_with_qparams,
)
from tests.tensors.samples import float_weight
from tests.tensors.torchao_intx import torchao_intx

FLOATS = [torch.float32, torch.bfloat16, torch.float16]
HQQ = IntxChooseQParamsAlgorithm.HQQ_SCALE_ONLY
ASYMMETRIC = MappingType.ASYMMETRIC
SYMMETRIC = MappingType.SYMMETRIC
NO_CLIPPING = MappingType.SYMMETRIC_NO_CLIPPING_ERR
INT4 = DType.INT4
CELLS = [
    (mapping_type, target_dtype)
    for mapping_type in MappingType
    for target_dtype in INTX
    if (mapping_type, target_dtype) != (NO_CLIPPING, DType.INT1)
]
SEARCHES = [*((m, IntxChooseQParamsAlgorithm.AFFINE) for m in MappingType), (SYMMETRIC, HQQ)]


def hard_weight(dtype=torch.float32):
    """Return a weight, (24, 128), of many magnitudes, with positive and negative rows and zeros."""
    weight = float_weight(24, 128) * torch.logspace(-1, 2, 24)[:, None]
    weight[2] = weight[2].abs()
    weight[3] = -weight[3].abs()
    weight[4] = 0
    weight[5, :32] = 0
    return weight.to(dtype)


def assert_equal_to_torchao(weight, group_size, target_dtype, mapping_type, **options):
    """Compare codes, scales and zero points bit for bit."""
    peer = torchao_intx(weight, group_size, target_dtype, mapping_type, **options)
    codes, scale, zero_point = quantize_intx(
        weight, (1, group_size), target_dtype, mapping_type, **options
    )
    assert torch.equal(codes, peer.qdata)
    assert scale.dtype == peer.scale.dtype
    assert torch.equal(scale, peer.scale)
    expected = peer.zero_point if mapping_type is ASYMMETRIC else None
    assert zero_point is expected or torch.equal(zero_point, expected)
    assert expected is not None or not peer.zero_point.any()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("mapping_type", "target_dtype"), CELLS)
@pytest.mark.parametrize("group_size", [32, 128])
def test_codes_scales_and_zero_points_are_torchaos(dtype, mapping_type, target_dtype, group_size):
    """Every type, mapping and group size gives torchao's bits; rows of zeros are among them."""
    assert_equal_to_torchao(hard_weight(dtype), group_size, target_dtype, mapping_type)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("scale_dtype", FLOATS)
@pytest.mark.parametrize("mapping_type", list(MappingType))
@pytest.mark.parametrize("target_dtype", [DType.INT2, INT4, DType.INT8])
def test_scales_of_another_type_are_torchaos(dtype, scale_dtype, mapping_type, target_dtype):
    """Codes follow from the scale in its stored type, as in torchao."""
    weight = hard_weight(dtype)
    weight[4:6] = 1  # torchao's float16 scale of zeros is 0
    options = {"scale_dtype": scale_dtype}
    assert_equal_to_torchao(weight, 32, target_dtype, mapping_type, **options)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("target_dtype", INTX)
@pytest.mark.parametrize("group_size", [32, 128])
def test_hqq_is_torchaos(dtype, target_dtype, group_size):
    """The half-quadratic search ends at torchao's codes and scales."""
    assert_equal_to_torchao(hard_weight(dtype), group_size, target_dtype, SYMMETRIC, algorithm=HQQ)


@pytest.mark.parametrize("scale_dtype", FLOATS)
def test_hqq_scales_of_another_type_are_torchaos(scale_dtype):
    """Scales that are found in float32 are rounded to the weight's type, then to their own."""
    options = {"algorithm": HQQ, "scale_dtype": scale_dtype}
    assert_equal_to_torchao(hard_weight(torch.bfloat16)[6:], 32, INT4, SYMMETRIC, **options)


@given(
    st.lists(st.floats(-65504, 65504, width=16), min_size=8, max_size=8),
    st.sampled_from([torch.float32, torch.bfloat16]),
    st.sampled_from([SYMMETRIC, ASYMMETRIC, NO_CLIPPING]),
    st.sampled_from(INTX[1:]),
)
def test_any_finite_values(values, dtype, mapping_type, target_dtype):
    """Any finite values, halves and subnormal ones too, give torchao's bits."""
    weight = torch.tensor(values).view(2, 4).to(dtype)
    assert_equal_to_torchao(weight, 4, target_dtype, mapping_type)


@pytest.mark.parametrize(("mapping_type", "algorithm"), SEARCHES)
def test_small_buffers_change_nothing(monkeypatch, mapping_type, algorithm):
    """However few rows the buffer holds, the bits are the same."""
    size_of = "qconfig.tensors.intx_slabs.slab_elements"
    for elements in (1, 128, 700):
        monkeypatch.setattr(size_of, lambda *_, size=elements, **__: size)
        weight = hard_weight(torch.bfloat16)
        assert_equal_to_torchao(weight, 32, INT4, mapping_type, algorithm=algorithm)


@pytest.mark.parametrize("algorithm", list(IntxChooseQParamsAlgorithm))
def test_strided_weights(algorithm):
    """A transposed, sliced or expanded weight gives the bits of its contiguous copy."""
    wide = float_weight(128, 128, dtype=torch.bfloat16)
    for weight in (wide.t(), wide[::2, 32:96], wide[:1].expand(4, 128)):
        found = quantize_intx(weight, (1, 32), INT4, algorithm=algorithm)
        expected = quantize_intx(weight.contiguous(), (1, 32), INT4, algorithm=algorithm)
        assert torch.equal(found[0], expected[0])
        assert torch.equal(found[1], expected[1])


@pytest.mark.parametrize("stride", [1, 2])
def test_stacked_weights(stride):
    """Matrices of a stack get the codes that each gets alone."""
    weight = float_weight(6, 8, 64)[::stride]
    codes, scale, zero_point = quantize_intx(weight, (1, 1, 32), INT4, ASYMMETRIC)
    for i, matrix in enumerate(weight):
        alone = quantize_intx(matrix, (1, 32), INT4, ASYMMETRIC)
        assert torch.equal(codes[i], alone[0])
        assert torch.equal(scale[i], alone[1])
        assert torch.equal(zero_point[i], alone[2])


def test_float16_scales_do_not_vanish():
    """Where torchao's float16 scale of a block of zeros is 0, ours is the smallest there is."""
    weight = torch.zeros(2, 32)
    weight[1] = 1
    assert torchao_intx(weight, 32, INT4, scale_dtype=torch.float16).scale[0] == 0
    codes, scale, _ = quantize_intx(weight, (1, 32), INT4, scale_dtype=torch.float16)
    assert scale[0] == 2.0**-24
    assert not codes[0].any()


def test_float16_scales_have_a_reciprocal():
    """Where the reciprocal of a float16 scale is infinite in torchao, codes are right here."""
    weight = float_weight(4, 64) * 1e-5
    peer = torchao_intx(weight, 64, DType.INT8, scale_dtype=torch.float16)
    assert set(peer.qdata.flatten().tolist()) <= {-128, 0, 127}
    codes, scale, _ = quantize_intx(weight, (1, 64), DType.INT8, scale_dtype=torch.float16)
    exact = (weight.double() / scale.double()).round().clamp(-128, 127)
    assert (codes - exact).abs().max() <= 1


def test_wide_float16_blocks_have_a_scale():
    """A float16 block whose width overflows, infinite in torchao, keeps its values here."""
    weight = torch.tensor([[-60000.0, 60000.0, 0.0, 1000.0]], dtype=torch.float16)
    assert torchao_intx(weight, 4, DType.INT8, ASYMMETRIC).scale.isinf().all()
    codes, scale, zero_point = quantize_intx(weight, (1, 4), DType.INT8, ASYMMETRIC)
    values = (codes.double() - zero_point.double()) * scale.double()
    assert (values - weight.double()).abs().max() <= scale.double().max()


def test_float64_follows_the_formula():
    """float64, which torchao refuses, is rounded from the product in float64."""
    weight = float_weight(dtype=torch.float64)
    codes, scale, _ = quantize_intx(weight, (1, 64), INT4)
    assert torch.equal(scale, weight.abs().amax(1, keepdim=True) / 7.5)
    expected = (weight * (1.0 / scale)).round().clamp(-8, 7).to(torch.int8)
    assert torch.equal(codes, expected)


@pytest.mark.parametrize("target_dtype", INTX)
@pytest.mark.parametrize("mapping_type", [SYMMETRIC, ASYMMETRIC])
def test_codes_keep_to_their_range(target_dtype, mapping_type):
    """No code and no zero point is outside of its integer type."""
    low, high = code_range(target_dtype)
    codes, _, zero_point = quantize_intx(hard_weight(), (1, 32), target_dtype, mapping_type)
    assert low <= codes.min() <= codes.max() <= high
    assert zero_point is None or low <= zero_point.min() <= zero_point.max() <= high


def test_no_clipping_keeps_the_larger_side():
    """The largest value of either sign is within half a step of its code."""
    weight = float_weight()
    codes, scale, _ = quantize_intx(weight, (1, 32), INT4, NO_CLIPPING)
    values = codes.float() * scale.repeat_interleave(32, 1)
    assert ((values - weight).abs() / scale.repeat_interleave(32, 1)).max() <= 0.5 + 1e-5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mapping_type": NO_CLIPPING, "target_dtype": DType.INT1}, "int1 has no positive code"),
        ({"mapping_type": ASYMMETRIC, "algorithm": HQQ}, "HQQ_SCALE_ONLY finds scales of the"),
        ({"mapping_type": NO_CLIPPING, "algorithm": HQQ}, "HQQ_SCALE_ONLY finds scales of the"),
    ],
)
def test_mappings_that_do_not_exist(options, message):
    """A mapping without codes, or one that the algorithm would ignore, is refused."""
    with pytest.raises(FieldError, match=message) as caught:
        quantize_intx(float_weight(), (1, 32), **{"target_dtype": INT4, **options})
    assert caught.value.pointer == "/mapping_type"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("mapping_type", list(MappingType))
@pytest.mark.parametrize("dtype", FLOATS)
def test_values_that_are_not_finite_are_named(value, mapping_type, dtype):
    """NaN and infinity are refused with count and first index."""
    weight = float_weight(dtype=dtype)
    weight[3, 17] = value
    weight[9, 0] = value
    with pytest.raises(BuildError) as caught:
        quantize_intx(weight, (1, 32), INT4, mapping_type)
    assert caught.value.message == (
        "the weight holds 2 values that are NaN or infinite, the first at [3, 17]"
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_hqq_names_values_that_are_not_finite(value):
    """The search refuses NaN and infinity as well."""
    weight = float_weight()
    weight[3, 17] = value
    with pytest.raises(BuildError, match=r"the first at \[3, 17\]"):
        quantize_intx(weight, (1, 32), INT4, algorithm=HQQ)


def test_scales_beyond_their_type_are_refused():
    """A weight whose scale float16 cannot hold is refused as such."""
    with pytest.raises(BuildError, match="too large for scales in float16"):
        quantize_intx(torch.full((2, 4), 1e7), (1, 4), INT4, scale_dtype=torch.float16)


def test_blocks_of_several_rows_are_refused():
    """Scales are those of parts of rows."""
    with pytest.raises(LayoutError, match="blocks of several rows have no intx codes"):
        quantize_intx(float_weight(), (2, 32), INT4)


@pytest.mark.parametrize("shape", [(0, 64), (0, 8, 64), (3, 0, 64)])
@pytest.mark.parametrize("algorithm", list(IntxChooseQParamsAlgorithm))
def test_empty_weights(shape, algorithm):
    """A weight without rows has no scales."""
    block = (*(1 for _ in shape[:-1]), 64)
    codes, scale, _ = quantize_intx(torch.empty(shape), block, INT4, algorithm=algorithm)
    assert codes.shape == shape
    assert scale.numel() == 0


def test_the_weight_is_left_alone():
    """Neither values nor a pending gradient of the weight are touched."""
    weight = float_weight().requires_grad_()
    before = weight.detach().clone()
    codes, scale, _ = quantize_intx(weight, (1, 32), INT4)
    assert torch.equal(weight, before)
    assert not codes.requires_grad
    assert not scale.requires_grad


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mapping_type", [SYMMETRIC, ASYMMETRIC])
def test_given_scales_give_the_same_codes(dtype, mapping_type):
    """With the scales and zero points that were chosen, codes are those that were chosen."""
    weight = hard_weight(dtype)
    codes, scale, zero_point = quantize_intx(weight, (1, 32), INT4, mapping_type)
    assert torch.equal(quantize_with_qparams(weight, scale, zero_point, INT4), codes)


def test_given_scales_refuse_values_that_are_not_finite():
    """NaN is refused with given scales too."""
    weight = float_weight()
    weight[3, 17] = float("nan")
    with pytest.raises(BuildError, match=r"NaN or infinite, the first at \[3, 17\]"):
        quantize_with_qparams(weight, torch.ones(32, 2), None, INT4)


@pytest.mark.parametrize(
    ("scale", "zero_point", "message"),
    [
        ([[1.0, 0.0]], None, r"scale is wrong in 1 of 2 blocks, the first at \[0, 1\]"),
        ([[float("nan"), 1.0]], None, r"scale is wrong in 1 of 2 blocks, the first at \[0, 0\]"),
        ([[1.0, 1.0]], [[8, 0]], r"zero_point is wrong in 1 of 2 blocks"),
        ([[1.0, 1.0]], [[0.5, 0]], r"zero_point is wrong in 1 of 2 blocks"),
    ],
)
def test_given_values_are_checked(scale, zero_point, message):
    """Scales that are none and zero points that are no codes are refused."""
    zeros = None if zero_point is None else torch.tensor(zero_point)
    with pytest.raises(BuildError, match=message):
        checked_qparams(torch.tensor(scale), zeros, INT4)


def test_given_zero_points_become_codes():
    """Zero points of any type become int8; those that are all 0 are left out."""
    scale = torch.ones(1, 2)
    assert checked_qparams(scale, torch.zeros(1, 2), INT4)[1] is None
    found = checked_qparams(scale, torch.tensor([[3, -8]], dtype=torch.int32), INT4)[1]
    assert found.dtype == torch.int8
    assert found.tolist() == [[3, -8]]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("algorithm", list(IntxChooseQParamsAlgorithm))
def test_temporaries_are_small(dtype, algorithm):
    """No temporary is larger than an eighth of the weight."""
    weight = float_weight(1024, 1024, dtype=dtype)
    with torch.profiler.profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profile:
        codes, _, _ = quantize_intx(weight, (1, 64), INT4, algorithm=algorithm)
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    sizes = sorted((e.nbytes() for e in events if e.nbytes() > 0), reverse=True)
    assert sizes[0] == codes.nbytes
    assert sizes[1] <= weight.nbytes / 8
