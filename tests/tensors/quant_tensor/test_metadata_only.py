"""Metadata alone is a state of its own: it has a shape and no value, and computes nothing."""

import copy

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from qconfig.errors import LayoutError, MetadataOnlyError, QuantTensorError
from tests.tensors.quant_tensor.samples import SAMPLES, int_tensor, same

every_sample = pytest.mark.parametrize("make", SAMPLES.values(), ids=SAMPLES.keys())


@every_sample
def test_it_keeps_shape_type_and_metadata(make):
    """Everything but the value is there."""
    tensor, cached = make(), make().metadata_only()
    assert cached.is_metadata_only
    assert not tensor.is_metadata_only
    assert (cached.shape, cached.dtype, cached.device) == (
        tensor.shape,
        tensor.dtype,
        tensor.device,
    )
    assert torch.equal(cached.scale, tensor.scale)
    assert torch.equal(cached.zero_point, tensor.zero_point)
    assert cached.signed is tensor.signed


@every_sample
@pytest.mark.parametrize(
    "use",
    [
        lambda q: q.value,
        lambda q: q + 1.0,
        lambda q: q * 2.0,
        lambda q: q.is_valid,
        lambda q: q.int(),
        lambda q: q.sum(),
        lambda q: q.view(-1),
        lambda q: q.numpy(),
        lambda q: torch.cat([q, torch.ones(4, 6)]),
        torch.mean,
        lambda q: q.to_layout(),
        lambda q: q.inner_tensors,
    ],
)
def test_whatever_needs_the_value_is_refused_by_name(make, use):
    """No operation takes an absent value for an empty one."""
    with pytest.raises(MetadataOnlyError, match="keeps metadata alone: it has no value"):
        use(make().metadata_only())


@every_sample
def test_it_is_copied_like_others(make):
    """Copies of metadata are metadata."""
    cached = make().metadata_only()
    for copied in (
        cached.detach(),
        cached.clone(),
        copy.deepcopy(cached),
        cached.to(torch.float64),
    ):
        assert copied.is_metadata_only
        assert copied.shape == cached.shape


@every_sample
def test_a_value_given_back_makes_the_tensor_again(make):
    """with_value puts a value of the shape back."""
    tensor = make()
    stored = tensor.grouped_value if tensor.fields.grouped else tensor.value
    assert same(tensor.metadata_only().set(value=stored), tensor)


def test_a_value_of_another_shape_is_refused():
    """Metadata is for one shape."""
    with pytest.raises(QuantTensorError, match="another shape"):
        int_tensor().metadata_only().with_value(torch.ones(2, 2))


def test_an_empty_batch_is_no_metadata():
    """A tensor without elements has a value."""
    empty = int_tensor((0, 6))
    assert not empty.is_metadata_only
    assert (empty + empty).shape == (0, 6)


@every_sample
def test_fake_tensors_have_the_state_too(make):
    """Tracers see the same state, with nothing in place of the value."""
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(make().metadata_only())
        assert fake.is_metadata_only
        with pytest.raises(MetadataOnlyError):
            fake + 1.0


@every_sample
def test_metadata_alone_is_checked_when_it_is_set(make):
    """A scale that does not fit the shape is refused, with or without a value."""
    with pytest.raises(LayoutError, match="scale is not aligned"):
        make().metadata_only().set(scale=torch.ones(7, 7))
