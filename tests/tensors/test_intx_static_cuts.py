import sys

import pytest
import torch
from torch.nn.functional import linear

from qconfig.errors import LayoutError
from tests.tensors.intx_static_samples import (
    ASYMMETRIC,
    ROWS,
    channel_scales,
    packed,
    zero_points,
)
from tests.tensors.samples import activation

SCALES = {
    "act_scale": channel_scales(64),
    "act_zero_point": zero_points(64),
    "output_scale": channel_scales(32),
    "output_zero_point": zero_points(32, seed=7),
}


def whole():
    """Return a weight, (32, 64), with scales for each input and output channel."""
    return packed(**SCALES)


def rows():
    """Return a weight, (32, 64), with a scale a row and sums of rows."""
    return packed(granularity=ROWS, act_zero_point=9, weight_mapping_type=ASYMMETRIC)


def test_a_cut_of_rows_cuts_the_scales_of_outputs():
    """Along dimension 0 scales and zero points per output channel go with their rows."""
    tensor = whole()
    part = tensor[8:20]
    assert torch.equal(part.output_act_quant_scale, tensor.output_act_quant_scale[8:20])
    assert torch.equal(part.output_act_quant_zero_point, tensor.output_act_quant_zero_point[8:20])
    assert torch.equal(part.act_quant_scale, tensor.act_quant_scale)
    x = activation(5, 64)
    assert torch.allclose(linear(x, part), linear(x, tensor)[:, 8:20], atol=1e-5)


def test_a_cut_of_columns_cuts_the_scales_of_activations():
    """Along dimension 1 scales and zero points per input channel go with their columns."""
    tensor = packed(act_scale=SCALES["act_scale"], act_zero_point=SCALES["act_zero_point"])
    part = tensor[:, 16:48]
    assert torch.equal(part.act_quant_scale, tensor.act_quant_scale[16:48])
    assert torch.equal(part.act_quant_zero_point, tensor.act_quant_zero_point[16:48])
    x = activation(5, 64)
    total = sum(linear(x[:, i : i + 16], tensor[:, i : i + 16]) for i in range(0, 64, 16))
    assert torch.allclose(total, linear(x, tensor), atol=1e-4)


def test_a_cut_leaves_scales_of_the_whole_tensor():
    """Scales per tensor serve every part."""
    tensor = packed(act_zero_point=3, output_scale=0.2)
    for part in (tensor[4:8], tensor[:, 16:32]):
        assert torch.equal(part.act_quant_scale, tensor.act_quant_scale)
        assert torch.equal(part.act_quant_zero_point, tensor.act_quant_zero_point)
        assert torch.equal(part.output_act_quant_scale, tensor.output_act_quant_scale)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("end", [None, sys.maxsize, 2**62])
def test_open_ends(dim, end):
    """No end and ends beyond the last element stand for the last."""
    tensor = whole()
    part = torch.ops.aten.slice.Tensor(tensor, dim, 16, end)
    expected = tensor.dequantize().narrow(dim, 16, tensor.shape[dim] - 16)
    assert torch.equal(part.dequantize(), expected)
    assert part.to_layout().qdata.shape == expected.shape


@pytest.mark.parametrize("bounds", [slice(8, 32), slice(0, 24), slice(1, None)])
def test_a_cut_inside_a_group_is_refused(bounds):
    """A bound within a group of 16 columns is an error that names the group."""
    with pytest.raises(LayoutError, match="would split a group of 16 elements"):
        whole()[:, bounds]


def test_sums_of_rows_follow_their_rows():
    """Rows that are cut, picked, joined or stacked keep their sums."""
    tensor = rows()
    parts = (tensor[3:9], tensor[::4], tensor[torch.tensor([5, 5, 1])], torch.cat([tensor] * 2))
    for part in parts:
        assert torch.equal(part.weight_sums, part.qdata.sum(1, keepdim=True, dtype=torch.int32))


@pytest.mark.parametrize(
    "cut",
    [
        lambda w: w[:, :32],
        lambda w: w[:, 5:6],
        lambda w: w[:, ::2],
        lambda w: w[:, torch.zeros(64, dtype=torch.long)],
        lambda w: torch.cat([w, w], 1),
        lambda w: w.split(16, 1)[1],
    ],
)
def test_sums_of_rows_are_dropped_where_columns_change(cut):
    """A weight with other columns has other sums: they are computed anew, never kept."""
    tensor = cut(rows())
    assert tensor.weight_sums is None
    x = activation(5, tensor.shape[1])
    expected = linear(tensor.activation_seen(x), tensor.dequantize())
    assert torch.allclose(linear(x, tensor), expected, atol=1e-5)
    tensor.to_layout()


def test_sums_of_rows_survive_transposition():
    """Twice transposed, a weight has its sums; in between they are a row."""
    tensor = rows()
    assert tensor.t().weight_sums.shape == (1, 32)
    assert tensor.t().t().weight_sums.shape == (32, 1)
    tensor.check_layout_values(tensor.t().to_layout())
    x = activation(5, 32)
    expected = linear(tensor.activation_seen(x), tensor.dequantize().T)
    assert torch.allclose(linear(x, tensor.t()), expected, atol=1e-5)


def test_parts_join_to_the_whole():
    """Rows cut apart and joined give the tensor back, scales of outputs included."""
    tensor = whole()
    joined = torch.cat([tensor[:8], tensor[8:]])
    assert torch.equal(joined.output_act_quant_scale, tensor.output_act_quant_scale)
    assert torch.equal(linear(activation(2, 64), joined), linear(activation(2, 64), tensor))


def test_parts_with_other_scales_of_activations_do_not_join():
    """Two weights whose activations have other scales make no common product."""
    with pytest.raises(LayoutError, match="differ in act_quant_scale"):
        torch.cat([packed(act_scale=0.03), packed(act_scale=0.04)])
