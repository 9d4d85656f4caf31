"""Padding, interpolation and shuffled pixels keep metadata where it still fits."""

import pytest
import torch
from torch.nn import functional

from qconfig.tensors.quant_tensor import FloatQuantTensor, IntQuantTensor
from tests.tensors.quant_tensor.product_samples import agrees, plain
from tests.tensors.quant_tensor.samples import float_tensor, groupwise_int_tensor, int_tensor

CHANNELS = torch.tensor([0.5, 0.25]).reshape(1, 2, 1, 1)
KEPT = {
    "zeros": lambda a: functional.pad(a, (1, 0, 0, 2)),
    "zeros by name": lambda a: functional.pad(input=a, pad=(1, 0), mode="constant", value=0.0),
    "fewer": lambda a: functional.pad(a, (-1, 0)),
    "reflection": lambda a: functional.pad(a, (1, 1, 1, 1), mode="reflect"),
    "edges": lambda a: functional.pad(a, (1, 1, 1, 1), mode="replicate"),
    "nearest": lambda a: functional.interpolate(a, scale_factor=2),
    "nearest to a size": lambda a: functional.interpolate(a, (3, 5), mode="nearest"),
    "nearest exactly": lambda a: functional.interpolate(a, size=3, mode="nearest-exact"),
}
SHUFFLED = {
    "pixels": lambda a: functional.pixel_unshuffle(a, 2),
    "channels": lambda a: functional.channel_shuffle(a, 2),
}
WITHOUT_BREVITAS = ("by name", "exactly", "reflection", "edges")


@pytest.mark.parametrize("name", [n for n in KEPT if not n.endswith(WITHOUT_BREVITAS)])
def test_agrees_with_brevitas(name):
    """All fields are Brevitas', with scales of channels."""
    assert agrees(KEPT[name], int_tensor((1, 2, 4, 4), scale=CHANNELS))


@pytest.mark.parametrize("operation", [*KEPT.values(), *SHUFFLED.values()])
def test_metadata_of_one_entry_stays(operation):
    """Integers with zero points and small floats stay what they are."""
    for x in (int_tensor((1, 2, 4, 4), signed=False, zero_point=3), float_tensor((1, 2, 4, 4))):
        result = operation(x)
        assert type(result) is type(x)
        assert result.is_valid
        assert torch.equal(result.value, operation(x.value))


@pytest.mark.parametrize("operation", KEPT.values(), ids=KEPT.keys())
def test_scales_of_channels_stay(operation):
    """What happens within channels leaves their scales."""
    x = int_tensor((1, 2, 4, 4), scale=CHANNELS)
    result = operation(x)
    assert torch.equal(result.scale, CHANNELS)
    assert result.is_valid
    assert torch.equal(result.value, operation(x.value))


@pytest.mark.parametrize(
    "operation",
    [
        *SHUFFLED.values(),
        lambda a: functional.pad(a, (0, 0, 0, 0, 0, 1)),
        lambda a: functional.pad(a, (0, 0, 0, 0, -1, 0)),
    ],
    ids=["pixels", "channels", "one more", "one less"],
)
def test_scales_of_channels_that_change_are_plain(operation):
    """Other channels than the scales are for: no scale is kept."""
    x = int_tensor((1, 2, 4, 4), scale=CHANNELS)
    assert plain(operation(x), operation(x.value))


def test_a_constant_has_to_be_on_the_grid():
    """1 is an integer of 0.5 and none of 0.7; 0 is none where the zero point is out of range."""
    on, off = int_tensor(scale=0.5), int_tensor(scale=0.7)
    assert isinstance(functional.pad(on, (1, 1), value=1.0), IntQuantTensor)
    expected = functional.pad(off.value, (1, 1), value=1.0)
    assert plain(functional.pad(off, (1, 1), value=1.0), expected)
    far = int_tensor(zero_point=200)
    assert plain(functional.pad(far, (1, 1)), functional.pad(far.value, (1, 1)))
    assert isinstance(functional.pad(float_tensor(), (1, 1), value=1.0), FloatQuantTensor)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "area"])
def test_other_interpolations_are_plain(mode):
    """They compute new values."""
    x = int_tensor((1, 2, 4, 4))
    expected = functional.interpolate(x.value, scale_factor=2.0, mode=mode)
    assert plain(functional.interpolate(x, scale_factor=2.0, mode=mode), expected)


def test_groups_are_plain():
    """Padded values in groups are plain."""
    x = groupwise_int_tensor()
    assert plain(functional.pad(x, (1, 1)), functional.pad(x.value, (1, 1)))
