"""Checks of copies, conversions and everything a state dict goes through."""

import copy
import io
import pickle

import torch
from torch import nn

from qconfig.testing.subject import Subject, equal_packed, require, require_refusal


def same_type_copies(subject: Subject) -> None:
    """`detach`, `clone`, `contiguous`, `deepcopy` and `nn.Parameter` keep class and bits."""
    tensor = subject.build()
    copies = {
        "detach": tensor.detach(),
        "clone": tensor.clone(),
        "contiguous": tensor.contiguous(),
        "deepcopy": copy.deepcopy(tensor),
        "Parameter": nn.Parameter(tensor, requires_grad=False),
    }
    for name, found in copies.items():
        require(equal_packed(found, tensor), f"{name} changes the tensor")
    require(isinstance(copies["Parameter"], nn.Parameter), "nn.Parameter gives no parameter")


def deepcopy_of_parameter(subject: Subject) -> None:
    """`deepcopy` of a parameter is a parameter."""
    found = copy.deepcopy(nn.Parameter(subject.build(), requires_grad=False))
    require(isinstance(found, nn.Parameter), "the copy is no parameter")


def pickle_round_trip(subject: Subject) -> None:
    """`pickle` gives the tensor back."""
    tensor = subject.build()
    found = pickle.loads(pickle.dumps(tensor))  # noqa: S301
    require(equal_packed(found, tensor), "pickle changes the tensor")


def weights_only_round_trip(subject: Subject) -> None:
    """`torch.save` and `torch.load(weights_only=True)` give a parameter back."""
    tensor = nn.Parameter(subject.build(), requires_grad=False)
    buffer = io.BytesIO()
    torch.save({"weight": tensor}, buffer)
    buffer.seek(0)
    found = torch.load(buffer, weights_only=True)["weight"]
    require(equal_packed(found, tensor), "torch.save changes the tensor")
    require(isinstance(found, nn.Parameter), "torch.load gives no parameter")


def dtype_conversion(subject: Subject) -> None:
    """`to(dtype)` is honoured and keeps every inner bit."""
    tensor = subject.build()
    for dtype in (torch.float32, torch.bfloat16):
        found = tensor.to(dtype)
        require(found.dtype == dtype, f"to({dtype}) shows {found.dtype}")
        require(found.dequantize().dtype == dtype, f"to({dtype}) dequantizes to another type")
        require(equal_packed(found.to(tensor.dtype), tensor), f"to({dtype}) changes inner tensors")
    require_refusal(lambda: tensor.to(torch.int64), "to(int64)")


def module_conversion(subject: Subject) -> None:
    """`module.to(dtype)` converts a quantized parameter like the others."""
    module = subject.quantized_linear()
    module.to(torch.bfloat16)
    require(module.weight.dtype == torch.bfloat16, f"weight shows {module.weight.dtype}")
    require(isinstance(module.weight, nn.Parameter), "the weight is no parameter any more")


def half_conversion(subject: Subject) -> None:
    """`half()` shows float16 on the tensor and on a module alike, inner bits kept."""
    tensor, module = subject.build(), subject.quantized_linear()
    require(tensor.half().dtype == torch.float16, "half() shows another type")
    require(equal_packed(tensor.half().to(tensor.dtype), tensor), "half() changes inner tensors")
    module.half()
    require(module.weight.dtype == torch.float16, "module.half() leaves the weight's type")
    x = subject.activation(2).half()
    require(module(x).dtype == torch.float16, "linear of a half module gives another type")


def module_saved_whole(subject: Subject) -> None:
    """`torch.save` of a module and `torch.load` of trusted data give the module back."""
    module = subject.quantized_linear()
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    found = torch.load(buffer, weights_only=False)
    require(equal_packed(found.weight.detach(), module.weight.detach()), "the weight changes")
    x = subject.activation(2)
    with torch.no_grad():
        require(torch.equal(found(x), module(x)), "the loaded module computes something else")


def strict_keys(subject: Subject) -> None:
    """A quantized module has the keys of the float one, and strict loading names strangers."""
    module, plain = subject.quantized_linear(), subject.linear()
    keys, expected = list(module.state_dict()), list(plain.state_dict())
    require(keys == expected, f"the state dict has the keys {keys}, not {expected}")
    try:
        module.load_state_dict({**module.state_dict(), "stranger": torch.ones(1)})
    except RuntimeError as error:
        require("stranger" in str(error), f"the error does not name the key: {error}")
        return
    require(condition=False, message="strict loading takes a key that nobody has")


def pinned_memory(subject: Subject) -> None:
    """`is_pinned` answers, and `pin_memory` pins every inner tensor where there is a device."""
    tensor = subject.build()
    require(not tensor.is_pinned(), "a new tensor says that it is pinned")
    if torch.cuda.is_available():
        found = tensor.pin_memory()
        require(found.is_pinned(), "pin_memory() gives a tensor that is not pinned")
        require(equal_packed(found, tensor), "pin_memory() changes the tensor")


def state_dict_assigned(subject: Subject) -> None:
    """`load_state_dict(assign=True)` puts the tensor into a float module."""
    tensor, module = subject.build(), subject.linear()
    module.load_state_dict({"weight": tensor}, assign=True)
    require(equal_packed(module.weight.detach(), tensor), "assign=True changes the tensor")


def state_dict_copied(subject: Subject) -> None:
    """`load_state_dict(assign=False)` copies between alike and refuses float against packed."""
    quantized, plain, second = subject.quantized_linear(), subject.linear(), subject.build(1)
    quantized.load_state_dict({"weight": second})
    require(equal_packed(quantized.weight.detach(), second), "assign=False copies wrongly")
    for module, state in ((plain, second), (quantized, subject.weight())):
        try:
            module.load_state_dict({"weight": state})
        except RuntimeError:
            continue
        require(condition=False, message="assign=False mixes float and packed tensors")


def flatten_round_trip(subject: Subject) -> None:
    """`__tensor_flatten__` gives hashable data equal for all layers, and unflattens to the same."""
    tensor, other = subject.build(0), subject.build(1)
    names, context = tensor.__tensor_flatten__()
    other_names, other_context = other.__tensor_flatten__()
    require(names == other_names, "two layers flatten to other fields")
    require(hash(context) == hash(other_context), "the contexts of two layers hash differently")
    require(context == other_context, "the contexts of two layers differ")
    inner = {name: getattr(tensor, name) for name in names}
    found = type(tensor).__tensor_unflatten__(inner, context, tensor.shape, tensor.stride())
    require(equal_packed(found, tensor), "unflatten gives another tensor")
    require(found.stride() == tensor.stride(), "unflatten ignores the outer strides")


CHECKS = (
    same_type_copies,
    deepcopy_of_parameter,
    pickle_round_trip,
    weights_only_round_trip,
    dtype_conversion,
    module_conversion,
    half_conversion,
    module_saved_whole,
    strict_keys,
    pinned_memory,
    state_dict_assigned,
    state_dict_copied,
    flatten_round_trip,
)
