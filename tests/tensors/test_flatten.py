import pytest
import torch

from qconfig.configs import PerGroup, PerRow
from qconfig.errors import LayoutError
from qconfig.layouts import QuantizeTensorToInt8Kwargs
from qconfig.tensors import Int8Tensor
from qconfig.tensors.flatten import flatten_tensors, unflatten_tensors
from tests.tensors.samples import packed


def test_round_trip_of_a_state_dict():
    """Packed and ordinary tensors come back; inner tensors are not copied."""
    state = {"a.weight": packed(), "a.bias": torch.ones(3), "b": packed(granularity=PerGroup(16))}
    flat, forms = flatten_tensors(state)
    assert set(flat) == {"a.weight.qdata", "a.weight.scale", "a.bias", "b.qdata", "b.scale"}
    assert flat["b.qdata"] is state["b"].qdata
    found = unflatten_tensors(flat, forms)
    assert found.keys() == state.keys()
    assert torch.equal(found["b"], state["b"])


def test_layers_of_a_kind_share_one_form():
    """Equal forms are one object, however many layers."""
    _, forms = flatten_tensors({f"l{i}": packed(seed=i) for i in range(5)})
    assert len({id(form) for form in forms.values()}) == 1


def test_colliding_names_are_refused():
    """An ordinary tensor with the name of an inner one raises."""
    with pytest.raises(LayoutError, match="two tensors have one name"):
        flatten_tensors({"a": packed(), "a.scale": torch.ones(1)})


def test_missing_inner_tensor_is_named():
    """A field that is gone is named (hostile item 39)."""
    flat, forms = flatten_tensors({"a": packed()})
    del flat["a.scale"]
    with pytest.raises(LayoutError, match="an inner tensor is missing") as caught:
        unflatten_tensors(flat, forms)
    assert caught.value.fqn == "a.scale"


def test_context_is_hashable_plain_data():
    """The flatten context hashes, and has neither names nor tensors."""
    kwargs = QuantizeTensorToInt8Kwargs(PerRow())
    names, context = packed(act_quant_kwargs=kwargs).__tensor_flatten__()
    assert names == ["qdata", "scale"]
    other = packed(seed=1, act_quant_kwargs=QuantizeTensorToInt8Kwargs(PerRow()))
    assert hash(context) == hash(other.__tensor_flatten__()[1])


def test_unflatten_honours_outer_size_and_strides():
    """What torch asks for is what the outer tensor shows."""
    tensor = packed()
    _, context = tensor.__tensor_flatten__()
    inner = {"qdata": tensor.qdata.t(), "scale": tensor.scale}
    found = Int8Tensor.__tensor_unflatten__(inner, context, (64, 32), (1, 64))
    assert (found.shape, found.stride()) == ((64, 32), (1, 64))
