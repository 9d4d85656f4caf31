"""Copies, conversions, pickles and parameters keep class and metadata."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

from qconfig.errors import LayoutError, UnsupportedOperationError
from qconfig.tensors.quant_tensor import IntQuantTensor
from qconfig.tensors.quant_tensor.packing import to_packed
from tests.tensors.quant_tensor.samples import SAMPLES, int_tensor, same

every_sample = pytest.mark.parametrize("make", SAMPLES.values(), ids=SAMPLES.keys())


@every_sample
@pytest.mark.parametrize(
    "copied",
    [
        torch.Tensor.detach,
        torch.Tensor.clone,
        torch.Tensor.cpu,
        torch.Tensor.contiguous,
        lambda q: q.to("cpu", copy=True),
        copy.copy,
        copy.deepcopy,
        lambda q: pickle.loads(pickle.dumps(q)),
        lambda q: type(q).from_layout(q.to_layout()),
        lambda q: q.set(),
    ],
    ids=[
        "detach",
        "clone",
        "cpu",
        "contiguous",
        "to",
        "copy",
        "deepcopy",
        "pickle",
        "layout",
        "set",
    ],
)
def test_a_copy_has_class_and_every_bit(make, copied):
    """What copies a tensor keeps its class, its metadata and its bits."""
    tensor = make()
    assert same(copied(tensor), tensor)


@every_sample
def test_a_clone_shares_nothing(make):
    """A clone has inner tensors of its own."""
    tensor = make()
    pairs = zip(tensor.inner_tensors.values(), tensor.clone().inner_tensors.values(), strict=True)
    assert all(a.data_ptr() != b.data_ptr() for a, b in pairs)


@every_sample
def test_torch_loads_a_file_with_weights_only(make):
    """torch.load reads a file of quant tensors without running its code."""
    file = io.BytesIO()
    torch.save({"weight": make(), "cached": make().metadata_only()}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    assert same(loaded["weight"], make())
    assert loaded["cached"].is_metadata_only


@every_sample
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_a_conversion_keeps_flags_and_bit_widths(make, dtype):
    """`to(dtype)` converts value, scale and zero point; flags and widths stay."""
    tensor, converted = make(), make().to(dtype)
    assert converted.dtype is dtype
    assert {converted.value.dtype, converted.scale.dtype, converted.zero_point.dtype} == {dtype}
    assert converted.signed is tensor.signed
    assert converted.training is tensor.training
    numbers = tensor.fields.numbers
    assert all(torch.equal(converted.raw(n), tensor.raw(n)) for n in numbers)


def test_short_names_of_types_convert_too():
    """half, bfloat16, float and double are conversions of the whole tensor."""
    tensor = int_tensor()
    assert tensor.half().scale.dtype is torch.float16
    assert tensor.bfloat16().scale.dtype is torch.bfloat16
    assert tensor.double().float().scale.dtype is torch.float32


def test_a_conversion_to_integers_gives_a_plain_tensor():
    """Integers are no values of a quant tensor."""
    assert type(int_tensor().to(torch.int8)) is torch.Tensor


@every_sample
def test_a_parameter_keeps_class_and_metadata(make):
    """nn.Parameter of a quant tensor is both."""
    parameter = nn.Parameter(make())
    assert isinstance(parameter, nn.Parameter)
    assert parameter.requires_grad
    assert same(parameter.detach(), make())


def test_a_deep_copy_of_a_parameter_is_one():
    """copy.deepcopy of a module keeps its parameter one, with its gradient asked for."""
    module = nn.Linear(6, 4, bias=False)
    module.weight = nn.Parameter(int_tensor())
    weight = copy.deepcopy(module).weight
    assert isinstance(weight, nn.Parameter)
    assert weight.requires_grad
    assert same(weight, module.weight)


def test_a_result_cannot_be_copied_deeply():
    """As with any tensor: a copy would lose its graph in silence."""
    value = torch.ones(2, requires_grad=True)
    tensor = IntQuantTensor(value, 0.5, 0, 8, signed=True)
    with pytest.raises(RuntimeError, match="has a graph"):
        copy.deepcopy(tensor)


def test_a_module_moves_its_quant_parameter():
    """module.to(dtype) converts the parameter and keeps it the same object."""
    module = nn.Linear(6, 4, bias=False)
    module.weight = nn.Parameter(int_tensor(), requires_grad=False)
    weight = module.weight
    module.half()
    assert module.weight is weight
    assert module.weight.scale.dtype is torch.float16


def test_a_state_dict_is_copied_into_the_parameter():
    """load_state_dict without assign copies every inner tensor into the one that is there."""
    target, source = nn.Linear(6, 4, bias=False), nn.Linear(6, 4, bias=False)
    target.weight = nn.Parameter(int_tensor(seed=1, scale=0.25), requires_grad=False)
    source.weight = nn.Parameter(int_tensor(seed=2), requires_grad=False)
    weight = target.weight
    target.load_state_dict(source.state_dict())
    assert target.weight is weight
    assert same(target.weight, source.weight)


def test_a_state_dict_of_other_bits_is_refused():
    """Elements are copied between tensors that agree in everything else."""
    tensor = int_tensor(bits=8)
    with pytest.raises(LayoutError, match="differ in more than elements"):
        tensor.copy_(int_tensor(bits=4))


def test_reading_again_after_a_copy_gives_what_was_copied():
    """What a groupwise tensor has expanded before is expanded anew."""
    tensor, other = SAMPLES["groupwise int"](), SAMPLES["groupwise int"]()
    doubled = other.set(scale=other.grouped_scale * 2, value=other.grouped_value * 2)
    before = tensor.scale.clone()
    tensor.copy_(doubled)
    assert torch.equal(tensor.scale, before * 2)


@pytest.mark.parametrize("change", ["add_", "zero_", "mul_", "relu_", "fill_"])
def test_nothing_changes_values_in_place(change):
    """An operation in place would leave the metadata behind, and is refused by name."""
    arguments = (1.0,) if change in {"add_", "mul_", "fill_"} else ()
    with pytest.raises(UnsupportedOperationError, match=f"does not support {change}"):
        getattr(int_tensor(), change)(*arguments)


def test_nothing_is_written_into_a_quant_tensor():
    """out= is refused, and so is setting .data."""
    tensor = int_tensor()
    with pytest.raises(UnsupportedOperationError, match="out="):
        torch.add(torch.ones(4, 6), 1, out=tensor)
    with pytest.raises(UnsupportedOperationError, match="data ="):
        tensor.data = torch.ones(4, 6)


def test_augmented_assignment_is_arithmetic():
    """`a += b` binds the sum, and leaves what `a` was before as it was."""
    tensor = before = int_tensor()
    tensor += int_tensor(seed=1)
    assert tensor.bit_width == 9
    assert before.bit_width == 8


@every_sample
def test_inference_mode_copies_and_reads(make):
    """Tensors from outside can be copied and computed with in inference mode."""
    tensor = make()
    with torch.inference_mode():
        assert same(tensor.detach(), tensor)
        assert same(tensor.clone(), tensor)
        assert torch.equal(tensor * 1.0, tensor.value * 1.0)


@every_sample
def test_a_representation_names_fields_and_shape(make):
    """Repr gives the class and each field in one line."""
    tensor = make()
    shown = repr(tensor)
    assert shown.startswith(type(tensor).__name__)
    assert "\n" not in shown
    assert all(f"{name}=" in shown for name in tensor.fields.all)


@every_sample
@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.complex64], ids=str)
def test_values_of_other_types_have_the_logical_shape(make, dtype):
    """Converted to what is no float, a tensor of groups gives its values without what fills up."""
    tensor = make()
    found = tensor.to(dtype)
    assert type(found) is torch.Tensor
    assert torch.equal(found, tensor.value.to(dtype))


def test_an_empty_tensor_like_it_has_its_class():
    """module.to_empty keeps a parameter what it is."""
    module = nn.Linear(6, 4, bias=False)
    module.weight = nn.Parameter(int_tensor(), requires_grad=False)
    module.to_empty(device="cpu")
    assert isinstance(module.weight, IntQuantTensor)


@pytest.mark.parametrize(
    "write",
    [
        lambda q: torch.relu_(input=q),
        lambda q: torch.ops.aten.mul_(q, 0.3),
        nn.init.uniform_,
        lambda q: torch._foreach_add_([q], 1.0),
        lambda q: torch.nn.functional.embedding_bag(
            torch.tensor([[0, 1]]), q, max_norm=torch.tensor(0.5).item()
        ),
    ],
)
def test_no_other_way_writes_into_values(write):
    """Keywords, aten, initialisers and lists are refused as methods are; nothing has changed."""
    tensor = int_tensor()
    before = tensor.value.clone()
    with pytest.raises(UnsupportedOperationError, match="IntQuantTensor does not support"):
        write(tensor)
    assert torch.equal(tensor.value, before)


def test_a_power_binds_a_new_tensor():
    """`a **= 2` leaves what `a` was before as it was."""
    tensor = before = int_tensor()
    values = tensor.value.clone()
    tensor **= 2
    assert torch.equal(before.value, values)
    assert torch.equal(tensor, values**2)


def test_joining_with_a_packed_tensor_is_refused_by_name():
    """Packed and fake-quantized tensors are not joined in silence."""
    packed = to_packed(int_tensor())
    with pytest.raises(UnsupportedOperationError):
        torch.cat([packed, int_tensor()])
