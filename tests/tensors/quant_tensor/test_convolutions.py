"""Convolutions: metadata as Brevitas', right for groups, strides, dilation and every bias."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from qconfig.tensors.quant_tensor import IntQuantTensor
from tests.tensors.quant_tensor.product_samples import ENDS, PAIRS, agrees, at_end, holds, plain
from tests.tensors.quant_tensor.samples import int_tensor

every_pair = pytest.mark.parametrize(("first", "second"), PAIRS, ids=str)
KERNELS = {1: (3,), 2: (3, 2), 3: (2, 2, 2)}
CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
TRANSPOSED = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}
FORMS = [
    {},
    {"stride": 2, "padding": 1},
    {"padding": "same", "dilation": 2},
    {"padding": "valid"},
    {"groups": 2, "padding": 1},
]
TRANSPOSED_FORMS = [
    {},
    {"stride": 2},
    {"stride": 3, "padding": 1, "output_padding": 1},
    {"stride": 2, "dilation": 2},
    {"stride": 4, "dilation": 6},
    {"groups": 2},
]
dimensions = pytest.mark.parametrize("dims", [1, 2, 3])


def channels(count, rank, at=0):
    """Return a scale for each channel of a weight."""
    shape = [1] * rank
    shape[at] = count
    return (0.25 * 2.0 ** torch.arange(count)).reshape(shape)


def biases(count=4):
    """Return biases of every kind."""
    return [
        None,
        torch.arange(count) * 0.3,
        int_tensor((count,), bits=16, scale=0.125),
        int_tensor((count,), scale=0.7, signed=False),
    ]


@dimensions
@pytest.mark.parametrize("form", [{}, {"stride": 2, "padding": 1}, {"groups": 2}], ids=str)
@pytest.mark.parametrize("scales", [False, True], ids=["tensor", "channel"])
def test_agrees_with_brevitas(dims, form, scales):
    """Value, scale, zero point, bit width and flags are Brevitas', shapes too."""
    x = int_tensor((2, 2) + (5,) * dims)
    scale = channels(4, dims + 2) if scales else 0.25
    w = int_tensor((4, 2 // form.get("groups", 1), *KERNELS[dims]), bits=4, scale=scale)
    for bias in biases()[:3]:
        assert agrees(lambda a, b, c: CONVOLUTIONS[dims](a, b, c, **form), x, w, bias)


@dimensions
@pytest.mark.parametrize("stride", [1, 2])
def test_transposed_ones_agree_with_brevitas(dims, stride):
    """So do transposed ones, of which Brevitas knows those with a stride given as a tuple."""
    x = int_tensor((2, 2) + (4,) * dims)
    w = int_tensor((2, 4, *KERNELS[dims]), bits=4, scale=0.25)
    form = {"stride": (stride,) * dims}
    for bias in biases()[:3]:
        assert agrees(lambda a, b, c: TRANSPOSED[dims](a, b, bias=c, **form), x, w, bias)


@every_pair
def test_no_convolution_overflows(first, second):
    """Extremes of every pair of formats fit, with scales of channels and every bias."""
    for end in ENDS:
        x = at_end((1, 2, 6, 6), first, end)
        for form in FORMS:
            shape = (4, 2 // form.get("groups", 1), 3, 3)
            w = at_end(shape, second, end, scale=channels(4, 4))
            bias = torch.linspace(-1, 1, 4).double()
            expected = functional.conv2d(x.value, w.value, bias, **form)
            assert holds(functional.conv2d(x, w, bias, **form), expected)


@every_pair
def test_no_transposed_convolution_overflows(first, second):
    """Strides and dilations decide how many products meet; the bits hold all of them."""
    for end in ENDS:
        x = at_end((1, 2, 3, 3), first, end)
        for form in TRANSPOSED_FORMS:
            columns = 4 // form.get("groups", 1)
            w = at_end((2, columns, 3, 2), second, end, scale=channels(columns, 4, 1))
            expected = functional.conv_transpose2d(x.value, w.value, **form)
            assert holds(functional.conv_transpose2d(x, w, **form), expected)


@dimensions
@pytest.mark.parametrize("batch", [(2,), ()], ids=["batch", "single"])
def test_a_bias_is_aligned_with_the_channels(dims, batch):
    """Integers and zero points stand for the values, with and without a batch."""
    x = int_tensor((*batch, 2) + (5,) * dims)
    for scale in (0.25, channels(4, dims + 2)):
        w = int_tensor((4, 2, *KERNELS[dims]), bits=4, scale=scale)
        for bias in biases():
            result = CONVOLUTIONS[dims](x, w, bias)
            assert result.is_valid
            values = bias.value if isinstance(bias, IntQuantTensor) else bias
            assert torch.equal(result.value, CONVOLUTIONS[dims](x.value, w.value, values))
            rebuilt = (result.int(float_datatype=True) - result.zero_point) * result.scale
            assert torch.allclose(rebuilt, result.value, rtol=1e-4, atol=1e-3)


def test_a_scale_for_each_sample_stays():
    """A scale along the batch is left and multiplied by those of the channels."""
    x = int_tensor((2, 2, 5, 5), scale=torch.tensor([0.5, 0.25]).reshape(2, 1, 1, 1))
    w = int_tensor((4, 2, 3, 3), bits=4, scale=channels(4, 4))
    result = functional.conv2d(x, w)
    assert result.scale.shape == (2, 4, 1, 1)
    assert torch.equal(result.int() * result.scale, functional.conv2d(x.value, w.value))


@pytest.mark.parametrize(
    ("x", "w"),
    [
        (int_tensor((1, 2, 5, 5), scale=channels(2, 4, 1)), int_tensor((4, 2, 3, 3))),
        (int_tensor((1, 2, 5, 5), scale=torch.ones(5) * 0.5), int_tensor((4, 2, 3, 3))),
        (int_tensor((1, 2, 5, 5)), int_tensor((4, 2, 3, 3), scale=channels(2, 4, 1))),
        (int_tensor((1, 2, 5, 5), zero_point=2), int_tensor((4, 2, 3, 3))),
        (int_tensor((1, 2, 5, 5)), int_tensor((4, 2, 3, 3), zero_point=2)),
        (int_tensor((1, 2, 5, 5)), int_tensor((4, 2, 3, 3)).value),
        (int_tensor((1, 2, 5, 5)).value, int_tensor((4, 2, 3, 3))),
    ],
    ids=str,
)
def test_what_has_no_common_grid_is_plain(x, w):
    """Scales of what is summed up, zero points and plain operands give plain tensors."""
    values = [getattr(t, "value", t) for t in (x, w)]
    assert plain(functional.conv2d(x, w), functional.conv2d(*values))


def test_scales_along_the_input_channels_of_a_transposed_weight_are_plain():
    """Its output channels lie in dimension 1."""
    x, w = int_tensor((1, 2, 5, 5)), int_tensor((2, 4, 3, 3), scale=channels(2, 4))
    expected = functional.conv_transpose2d(x.value, w.value)
    assert plain(functional.conv_transpose2d(x, w), expected)


def test_all_ways_to_call_give_the_same():
    """By position and by name; the stride of a transposed one may be left out."""
    x, w = int_tensor((1, 2, 5, 5)), int_tensor((2, 2, 3, 3), bits=4)
    for function in (functional.conv2d, functional.conv_transpose2d):
        expected = function(x, w, None, 1, 0)
        for result in (
            function(x, w),
            function(input=x, weight=w),
            function(x, weight=w, bias=None),
            function(x, w, stride=(1, 1), padding=(0, 0)),
            function(x, w, stride=[1], dilation=1),
        ):
            assert torch.equal(result.int(), expected.int())
            assert repr(result) == repr(expected)


def test_a_convolution_module_takes_a_quantized_weight():
    """nn.Conv2d and nn.ConvTranspose2d with quant tensors as parameters."""
    x = int_tensor((1, 2, 5, 5))
    for module in (nn.Conv2d(2, 4, 3, padding=1), nn.ConvTranspose2d(2, 4, 3, stride=2)):
        module.weight = nn.Parameter(int_tensor(tuple(module.weight.shape), bits=4))
        result = module(x)
        assert isinstance(result, IntQuantTensor)
        assert result.is_valid
