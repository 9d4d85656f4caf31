import sys

import pytest
import torch
from torch.nn.functional import embedding, linear
from torchao.quantization.quant_primitives import _dequantize_affine_tinygemm

from qconfig.codec.dtypes import DType
from qconfig.errors import FieldError, LayoutError, UnsupportedOperationError
from qconfig.layouts.int4 import Int4TensorLayout
from qconfig.tensors import SupportsActivationScaling, check_values
from qconfig.tensors.int4 import Int4Tensor
from qconfig.tensors.int4_codes import dequantize_whole, unpack
from tests.tensors.int4_samples import FLOATS, double, packed_int4
from tests.tensors.samples import float_weight


def same_values(tensor, expected):
    """Return whether a tensor shows these values, rounded once, and a consistent layout."""
    layout = tensor.to_layout()
    assert layout.shape == tuple(tensor.shape) == tuple(expected.shape)
    return torch.equal(tensor.dequantize(torch.float64).float(), expected.float())


@pytest.mark.parametrize("dtype", FLOATS)
def test_values_are_rounded_once(dtype):
    """Values are code * scale + zero_point, computed in float32 and rounded to their type."""
    weight = packed_int4(dtype=dtype)
    scale, zero = (
        t.t().float().repeat_interleave(32, 1) for t in (weight.scale, weight.zero_point)
    )
    values = unpack(weight.qdata) * scale + zero
    assert torch.equal(weight.dequantize(torch.float32), values)
    assert torch.equal(weight.dequantize(), values.to(dtype))


@pytest.mark.parametrize("shown", FLOATS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_products_are_rounded_as_by_torchao(dtype, shown):
    """Products of code and scale take the result's type first, if the layout says so."""
    weight = packed_int4(64, 128, dtype=dtype, rounds_products=True)
    scale, zero = weight.scale.t().contiguous(), weight.zero_point.t().contiguous()
    codes = unpack(weight.qdata).to(torch.int32) + 8
    expected = _dequantize_affine_tinygemm(
        codes, (1, 32), scale, zero, torch.int32, 0, 15, output_dtype=shown
    )
    assert torch.equal(weight.dequantize(shown), expected)
    assert torch.equal(weight.t().dequantize(shown), expected.t())
    whole = dequantize_whole(weight.qdata, scale, zero, shown, rounds_products=True)
    assert torch.equal(whole, expected)


def test_rounded_products_leave_the_product_of_linear_alone():
    """As in torchao, whose kernel multiplied with values that are rounded once."""
    plain = packed_int4(dtype=torch.bfloat16)
    rounded = plain.with_fields(rounds_products=True)
    x = float_weight(3, 64, seed=1).bfloat16()
    assert not torch.equal(rounded.dequantize(), plain.dequantize())
    assert torch.equal(linear(x, rounded), linear(x, plain))
    indices = torch.tensor([[3, 0], [31, 3]])
    assert torch.equal(embedding(indices, rounded), rounded.dequantize()[indices])
    assert torch.equal(torch.cat([rounded[:8], rounded[8:]]).dequantize(), rounded.dequantize())


@pytest.mark.parametrize(
    "cut",
    [
        lambda w: w[8:20],
        lambda w: w[::3],
        lambda w: w[:, 32:],
        lambda w: w[:, :32],
        lambda w: w[5:6, 32:96],
        lambda w: w.narrow(-1, 64, 64),
        lambda w: w.chunk(2, dim=0)[1],
        lambda w: w.chunk(2, dim=1)[1],
        lambda w: w.t()[32:64],
        lambda w: w.t()[:, 3:5],
        lambda w: w[torch.tensor([3, 1])],
        lambda w: w.view(32, 128),
        lambda w: w.view(1, 32, 128),
        lambda w: w.unsqueeze(0).squeeze(0).t().t(),
        lambda w: w[:, sys.maxsize - 1 :],
        lambda w: w[:, 32 : sys.maxsize],
    ],
)
def test_views_show_the_values_of_views(cut):
    """Cuts on whole groups, transpositions and reshapes show what the values would."""
    weight = packed_int4(32, 128)
    assert same_values(cut(weight), cut(double(weight)))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_joined_parts_are_the_whole(dim):
    """Cat puts rows or columns together again, transposed ones too."""
    weight = packed_int4(32, 128)
    for tensor in (weight, weight.t()):
        joined = torch.cat(tensor.chunk(2, dim=dim), dim=dim)
        assert torch.equal(joined.dequantize(), tensor.dequantize())
        assert joined.shape == tensor.shape


def test_experts_are_selected_and_multiplied():
    """An expert is a matrix; bmm multiplies with each."""
    weight = packed_int4(3, 32, 64)
    assert same_values(weight[1], double(weight)[1])
    x = float_weight(3, 5, 64, seed=1)
    found = torch.bmm(x, weight.transpose(1, 2))
    exact = torch.bmm(x.double(), double(weight).transpose(1, 2))
    assert (found - exact).abs().max() < 1e-4
    assert same_values(torch.stack([weight[0], weight[1]]), double(weight)[:2])


def test_embedding_looks_rows_up():
    """Rows of the values, in the shape of the indices."""
    weight, indices = packed_int4(), torch.tensor([[3, 0], [31, 3]])
    assert torch.equal(embedding(indices, weight), weight.dequantize()[indices])


@pytest.mark.parametrize(
    ("cut", "what"),
    [
        (lambda w: w[:, 1:33], "a byte of 2 codes"),
        (lambda w: w[:, :31], "a byte of 2 codes"),
        (lambda w: w.t()[1:33], "a byte of 2 codes"),
        (lambda w: w[:, 2:34], "a group of 32 elements that share a scale"),
        (lambda w: w[:, :48], "a group of 32 elements that share a scale"),
        (lambda w: w[:, torch.tensor([0, 1])], "a byte of 2 codes"),
    ],
)
def test_cuts_through_bytes_and_groups_are_refused(cut, what):
    """Where torchao 0.18 returns other columns in silence, the error says what would be split."""
    with pytest.raises(LayoutError, match=f"a cut along dimension [01] would split {what}"):
        cut(packed_int4(32, 128))


def test_columns_cannot_be_selected():
    """A single column is half of its byte."""
    with pytest.raises(UnsupportedOperationError, match="2 elements of dimension 2 stay together"):
        packed_int4(2, 32, 64).select(2, 0)


def test_activation_scale_follows_the_columns():
    """A cut of columns cuts the factor, a cut of rows does not."""
    weight = packed_int4(32, 128).with_activation_scale(torch.arange(128.0))
    assert isinstance(weight, SupportsActivationScaling)
    assert torch.equal(weight[:, 32:64].act_pre_scale, torch.arange(32.0, 64.0))
    assert torch.equal(weight[:8].act_pre_scale, torch.arange(128.0))
    x = float_weight(3, 128, seed=1)
    assert torch.equal(x @ weight.t(), linear(x, weight))


def test_blocks_longer_than_a_row_are_cut_to_it():
    """What torchao stores for rows shorter than a group is one group of the row's length."""
    weight = packed_int4(32, 64, group=64)
    stored = weight.with_fields(block_size=(1, 128))
    assert stored.block_size == (1, 64)
    assert torch.equal(stored.dequantize(), weight.dequantize())
    assert torch.cat([stored, stored], dim=1).to_layout().shape == (32, 128)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": (32, 128)}, "qdata has a wrong size for shape, two codes a byte"),
        ({"shape": (32, 64, 1)}, "qdata has a wrong size for shape, two codes a byte"),
        ({"block_size": (1, 16)}, "scale has a wrong shape for its blocks"),
        ({"block_size": (1, 24)}, "block_size does not tile the tensor"),
        ({"block_size": (32,)}, "block_size is out of range"),
        ({"scale": torch.ones(32, 2)}, "scale has a wrong shape for its blocks"),
        ({"zero_point": torch.ones(1, 32)}, "zero_point has a wrong shape for its blocks"),
        ({"zero_point": torch.ones(2, 32, dtype=torch.int8)}, "zero_point has a wrong dtype"),
        ({"qdata": torch.zeros(32, 32, dtype=torch.uint8)}, "qdata has a wrong dtype"),
        ({"act_pre_scale": torch.ones(63)}, "act_pre_scale has a wrong size for K"),
        ({"activation_dtype": "int8"}, "activation_dtype is not supported"),
        ({"dtype": "int8"}, "dtype is not a floating-point type"),
    ],
)
def test_inconsistent_fields_are_refused(changes, message):
    """The constructor names the field that contradicts the others."""
    with pytest.raises((LayoutError, FieldError), match=message) as caught:
        packed_int4().with_fields(**changes)
    assert caught.value.pointer == "/" + message.split()[0]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("scale", float("nan"), "scale is not finite"),
        ("scale", 0.0, "scale is not positive"),
        ("zero_point", float("inf"), "zero_point is not finite"),
        ("act_pre_scale", float("inf"), "act_pre_scale is not finite"),
    ],
)
def test_bad_values_are_found(field, value, message):
    """check_values reads scales, zero points and factors."""
    weight = packed_int4(act_pre_scale=torch.ones(64))
    layout = weight.to_layout()
    getattr(layout, field)[..., 0] = value
    with pytest.raises(LayoutError, match=message):
        check_values(layout)


def test_activation_dtype_is_bfloat16_by_default():
    """What torchao restores as None has a value here."""
    assert packed_int4().activation_dtype is DType.BFLOAT16
    assert Int4Tensor.layout_class is Int4TensorLayout
