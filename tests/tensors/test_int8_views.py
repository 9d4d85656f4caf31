import sys

import pytest
import torch

from qconfig.configs import PerGroup, PerTensor
from qconfig.errors import LayoutError, UnsupportedOperationError
from tests.tensors.samples import GRANULARITIES, activation, packed

LINEAR = torch.nn.functional.linear


def assert_same(tensor, values):
    """Check shape and values, and that the layout of the result is lawful."""
    tensor.to_layout()
    assert torch.equal(tensor.dequantize(), values)


@pytest.mark.parametrize("name", GRANULARITIES)
@pytest.mark.parametrize(
    ("shape", "dim"),
    [*(((32, 64), d) for d in (-2, -1, 0, 1)), *(((3, 32, 64), d) for d in (-2, -1, 0, 1))],
)
def test_slices_on_block_bounds(name, shape, dim):
    """Slices on multiples of 16 along any dimension have the float tensor's values."""
    tensor = packed(*shape, granularity=GRANULARITIES[name], zero_point=True)
    values = tensor.dequantize()
    size = shape[dim]
    for start, stop in ((0, size), (0, 16), (16, size), (size, size)):
        length = max(min(stop, size) - min(start, size), 0)
        found = tensor.narrow(dim, min(start, size), length)
        assert_same(found, values.narrow(dim, min(start, size), length))


@pytest.mark.parametrize("cut", [slice(None, sys.maxsize), slice(-8, None), slice(4, 2)])
def test_bounds_as_in_python(cut):
    """Open, negative, huge and crossing bounds mean what they mean in Python."""
    assert_same(packed()[cut], packed().dequantize()[cut])


def test_slices_share_memory():
    """A slice is a view of codes and scales."""
    tensor = packed()
    assert tensor[8:].qdata.data_ptr() == tensor.qdata.data_ptr() + 8 * 64


def test_every_second_row():
    """A step goes through rows that have their own scales."""
    assert_same(packed()[::2], packed().dequantize()[::2])


def test_steps_through_groups_are_refused():
    """A step through groups raises."""
    with pytest.raises(UnsupportedOperationError, match="16 elements share a scale along dim"):
        packed(granularity=PerGroup(16))[:, ::2]


@pytest.mark.parametrize(("start", "length"), [(1, 32), (0, 8), (16, 17)])
def test_cuts_within_a_group_are_refused(start, length):
    """A cut that splits a group raises, naming the alignment."""
    with pytest.raises(LayoutError, match="would split a group of 16 elements") as caught:
        packed(granularity=PerGroup(16)).narrow(1, start, length)
    assert caught.value.expected == "bounds aligned to multiples of 16"


def test_pre_scale_follows_columns():
    """A cut of columns cuts act_pre_scale; one of rows leaves it (torchao keeps all columns)."""
    factor = torch.rand(64)
    tensor = packed(act_pre_scale=factor)
    found = tensor[:, 16:48]
    assert torch.equal(found.act_pre_scale, factor[16:48])
    assert LINEAR(activation(2, 32), found).shape == (2, 32)
    assert tensor[:8].act_pre_scale is factor


@pytest.mark.parametrize("name", ["row", "tensor", "group", "column"])
def test_rows_by_index(name):
    """Integer and boolean vectors pick rows; scales that rows share stay (torchao: IndexError)."""
    tensor = packed(granularity=GRANULARITIES[name], act_pre_scale=torch.rand(64))
    for index in (torch.tensor([0, 5, 5]), torch.arange(32) % 3 == 0):
        found = tensor[index]
        assert_same(found, tensor.dequantize()[index])
        assert found.act_pre_scale is tensor.act_pre_scale
    found = tensor.index_select(-2, torch.tensor([3]))
    assert_same(found, tensor.dequantize()[3:4])


def test_columns_by_index_within_groups_are_refused():
    """Picking columns one by one would split groups."""
    with pytest.raises(LayoutError, match="would split a group"):
        packed(granularity=PerGroup(16)).index_select(1, torch.tensor([3]))


def test_experts_by_number():
    """An entry of the leading dimension is a matrix; iteration and unbind give them all."""
    tensor = packed(3, 32, 64, granularity=PerGroup(16))
    values = tensor.dequantize()
    assert_same(tensor[-1], values[2])
    assert_same(tensor.select(1, 4), values.select(1, 4))
    for found, expected in zip(tensor, values, strict=True):
        assert_same(found, expected)
    with pytest.raises(IndexError):
        tensor[3]


def test_rows_of_a_matrix_are_refused():
    """A vector is no packed tensor; the error names the operator."""
    for dim in (0, 1):
        with pytest.raises(UnsupportedOperationError, match=r"does not support aten\.select\.int"):
            packed().select(dim, 0)


@pytest.mark.parametrize("name", GRANULARITIES)
def test_transposition(name):
    """Every transposition exchanges codes, scales and blocks; twice is none."""
    tensor = packed(granularity=GRANULARITIES[name], zero_point=True)
    values = tensor.dequantize().t()
    for found in (tensor.t(), tensor.T, tensor.mT, tensor.transpose(-1, 0), tensor.permute(1, 0)):
        assert_same(found, values)
        assert found.stride() == found.qdata.stride() == (1, 64)
        assert not found.is_contiguous()
    assert torch.equal(tensor.t().t(), tensor)
    assert_same(tensor.t().contiguous(), values)


def test_a_transposed_pre_scale_goes_with_its_columns():
    """A transposed weight takes act_pre_scale into products and back, and is in no layout."""
    factor = torch.rand(64)
    tensor, x = packed(act_pre_scale=factor), activation(5, 64)
    assert torch.equal(tensor.t().t(), tensor)
    assert torch.equal(torch.mm(x, tensor.t()), LINEAR(x, tensor))
    assert torch.equal(tensor.t()[16:48].t().act_pre_scale, factor[16:48])
    with pytest.raises(LayoutError, match="act_pre_scale"):
        tensor.t().to_layout()


def test_a_pre_scale_of_the_other_dimension_is_refused():
    """A product along the rows has nothing to do with factors of the columns."""
    tensor = packed(act_pre_scale=torch.ones(64))
    with pytest.raises(UnsupportedOperationError, match="it is transposed and has act_pre_scale"):
        torch.mm(activation(5, 32), tensor)


def test_lawful_shapes():
    """Leading dimensions of size 1 come and go; the same shape is always lawful."""
    tensor, values = packed(granularity=PerGroup(16)), packed(granularity=PerGroup(16)).dequantize()
    assert_same(tensor.view(32, 64), values)
    assert_same(tensor.view(1, 32, 64), values[None])
    assert_same(tensor.reshape(1, 1, -1, 64), values[None, None])
    assert_same(tensor[None].squeeze(0), values)
    assert_same(tensor[None].view(32, 64), values)
    assert_same(tensor.unsqueeze(-2), values.unsqueeze(-2))
    assert_same(tensor.squeeze(0), values)


def test_a_flat_view_leads_back_and_nowhere_else():
    """One dimension is a view that can be viewed back, detached and dequantized, for FSDP2."""
    tensor = packed()
    flat = tensor.view(-1)
    assert torch.equal(flat.dequantize(), tensor.dequantize().view(-1))
    assert torch.equal(flat.detach().view(32, 64), tensor)
    assert flat.view(32, 64).qdata.data_ptr() == tensor.qdata.data_ptr()
    with pytest.raises(UnsupportedOperationError, match=r"FlatView does not support aten\.mul"):
        flat * 2


@pytest.mark.parametrize("shape", [(64, 32), (4, 8, 64), (32, 4, 16)])
def test_other_shapes_are_refused(shape):
    """A shape that merges or splits dimensions raises, naming both."""
    with pytest.raises(UnsupportedOperationError, match=r"shape \(32, 64\) and"):
        packed().view(shape)


def test_splitting_and_joining():
    """`split`, `chunk` and `cat` are inverse, along rows and columns."""
    tensor = packed(granularity=PerGroup(16), act_pre_scale=torch.rand(64))
    for dim in (0, 1, -1):
        for parts in (tensor.split(16, dim), tensor.chunk(2, dim)):
            assert torch.equal(torch.cat(parts, dim), tensor)
    assert torch.equal(torch.cat(tensor.split([8, 24], 0)), tensor)


def test_joining_tensors_with_one_scale():
    """Two tensors of one scale each become one with two blocks."""
    first, second = packed(granularity=PerTensor()), packed(granularity=PerTensor(), seed=1)
    found = torch.cat([first, second])
    assert_same(found, torch.cat([first.dequantize(), second.dequantize()]))
    assert found.scale.shape == (2, 1)


def test_stacking_experts():
    """`stack` makes experts of matrices."""
    parts = [packed(seed=i) for i in range(3)]
    assert_same(torch.stack(parts), torch.stack([p.dequantize() for p in parts]))


@pytest.mark.parametrize(
    ("other", "name"),
    [
        (packed(granularity=PerGroup(16)), "block_size"),
        (packed(dtype=torch.bfloat16), "dtype"),
        (packed(zero_point=True), "zero_point"),
        (packed(act_pre_scale=torch.ones(64)), "act_pre_scale"),
        (packed().with_fields(reduce_range=True), "reduce_range"),
    ],
)
def test_joining_unlike_tensors_is_refused(other, name):
    """`cat` of tensors that differ raises, naming the field."""
    with pytest.raises(LayoutError, match=f"differ in {name}: ") as caught:
        torch.cat([packed(), other])
    assert caught.value.pointer == f"/{name}"


def test_joining_with_float_is_refused():
    """`cat` of a packed and a float tensor raises."""
    with pytest.raises(UnsupportedOperationError, match="not all operands are packed"):
        torch.cat([packed(), torch.ones(1, 64)])


def test_views_in_inference_mode():
    """Views of a tensor made outside inference mode work inside."""
    tensor = packed()
    with torch.inference_mode():
        assert_same(tensor.t(), tensor.dequantize().t())
        assert_same(tensor[4:8], tensor.dequantize()[4:8])
        assert type(tensor.detach()) is type(tensor)
