import pytest
import torch

from qconfig.configs import PerRow
from qconfig.configs.choices import MappingType
from qconfig.errors import LayoutError
from qconfig.layouts.activation import QuantizeTensorToInt8Kwargs
from qconfig.tensors import Int8Tensor, check_values
from tests.tensors.samples import FLOATS, GRANULARITIES, double, packed
from tests.tensors.torchao_peer import torchao_int8


@pytest.mark.parametrize("shape", [(32, 64), (3, 32, 64)])
@pytest.mark.parametrize("name", GRANULARITIES)
@pytest.mark.parametrize("zero_point", [False, True])
def test_dequantize_equals_torchao(shape, name, zero_point):
    """Values are torchao's to the bit, for every target type and type of scale."""
    theirs, _ = torchao_int8()
    tensor = packed(*shape, granularity=GRANULARITIES[name], zero_point=zero_point)
    for scale_dtype in FLOATS:
        scale = tensor.scale.to(scale_dtype)
        ours = tensor.with_fields(scale=scale)
        peer = theirs(
            tensor.qdata,
            scale,
            list(tensor.block_size),
            torch.float32,
            zero_point=tensor.zero_point,
        )
        for dtype in FLOATS:
            assert torch.equal(ours.dequantize(dtype), peer.dequantize(dtype))


@pytest.mark.parametrize("name", GRANULARITIES)
@pytest.mark.parametrize("shape", [(24, 64), (2, 24, 64)])
def test_dequantize_by_rows_equals_whole(monkeypatch, name, shape):
    """Large tensors, done a few rows at a time, get the same bits as small ones."""
    tensor = packed(*shape, granularity=GRANULARITIES[name], zero_point=True)
    whole = tensor.dequantize()
    monkeypatch.setattr("qconfig.tensors.blockwise._BUFFER_BYTES", 5 * 64 * 4)
    assert torch.equal(tensor.dequantize(), whole)
    assert torch.equal(tensor.transpose(-1, -2).dequantize(), whole.transpose(-1, -2))


def test_dequantize_equals_the_formula():
    """In float64 a value is exactly (q - zero_point) * scale."""
    tensor = packed(granularity=GRANULARITIES["group"], zero_point=True)
    assert torch.equal(tensor.dequantize(torch.float64), double(tensor))


def test_torch_dequantize_is_the_method():
    """`torch.dequantize` gives what the method gives."""
    tensor = packed()
    assert torch.equal(torch.dequantize(tensor), tensor.dequantize())


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (float("nan"), "is not finite"),
        (float("inf"), "is not finite"),
        (-0.5, "is not positive"),
        (0.0, "is not positive"),
        (1e-40, "is subnormal"),
    ],
)
def test_hostile_scales_are_found(value, what):
    """Scales that are not positive, normal and finite are named with their index (item 35)."""
    tensor = packed()
    tensor.scale[5, 0] = value
    tensor.scale[7, 0] = value
    with pytest.raises(LayoutError) as caught:
        check_values(tensor.to_layout())
    assert caught.value.message == f"scale {what}: 2 of 32 entries, the first at [5, 0]"
    assert caught.value.pointer == "/scale"


def test_construction_can_check_values():
    """`from_layout(check=True)` looks at the elements; without it they are trusted."""
    tensor = packed()
    tensor.scale[0] = 0
    layout = tensor.to_layout()
    Int8Tensor.from_layout(layout)
    with pytest.raises(LayoutError, match="scale is not positive"):
        Int8Tensor.from_layout(layout, check=True)


def test_smallest_scale_of_torchao_is_allowed_in_float16():
    """2**-23 is subnormal in float16 and still what torchao writes for a row of zeros."""
    tensor = packed().with_fields(scale=torch.full((32, 1), 2.0**-23, dtype=torch.float16))
    check_values(tensor.to_layout())


def test_codes_outside_a_reduced_range_are_found():
    """With reduce_range, codes beyond 7 bits are named (items 36 and 37)."""
    tensor = packed()
    tensor.qdata.clamp_(-64, 63)
    reduced = tensor.with_fields(reduce_range=True)
    check_values(reduced.to_layout())
    tensor.qdata[3, 4] = 100
    with pytest.raises(LayoutError, match=r"qdata is out of range: 1 of 2048 .* at \[3, 4\]"):
        check_values(reduced.to_layout())


def test_hostile_activation_scales_are_found():
    """A pre-scale must be finite."""
    factor = torch.ones(64)
    factor[9] = float("nan")
    tensor = packed(act_pre_scale=factor)
    with pytest.raises(LayoutError, match=r"act_pre_scale is not finite: 1 of 64 .* at \[9\]"):
        check_values(tensor.to_layout())


def test_a_static_zero_point_keeps_to_a_reduced_range():
    """An activation whose codes have 7 bits has no zero point of 8."""
    tensor = packed(
        act_quant_scale=torch.ones(1, 1),
        act_quant_zero_point=torch.full((1, 1), 64, dtype=torch.int8),
        act_quant_kwargs=QuantizeTensorToInt8Kwargs(
            PerRow(), MappingType.ASYMMETRIC, reduce_range=True
        ),
    )
    with pytest.raises(LayoutError, match="act_quant_zero_point is out of range"):
        check_values(tensor.to_layout())
