"""What names in a pickle become: real classes, saved by torch, read without being imported."""

import enum
import functools
from typing import NamedTuple

import pytest
import torch
from attrs import asdict, evolve
from torch import nn

from qconfig.codec.dtypes import DType
from qconfig.codec.pickled_values import (
    PickledEnum,
    PickledFunction,
    PickledObject,
    PickledSubclass,
    Role,
)
from qconfig.codec.torch_files import read_torch_file
from qconfig.errors import ContainerError
from qconfig.limits import use_limits
from tests.codec.torch_samples import STORAGE, global_of, root_of, saved

N = "lib.names."
TABLE = {
    f"{N}Tensor": Role.TENSOR,
    f"{N}Object": Role.OBJECT,
    f"{N}Pair": Role.OBJECT,
    f"{N}Member": Role.ENUM,
    f"{N}quantize": Role.FUNCTION,
    f"{N}Object.run": Role.FUNCTION,
}
LINEAR = b"ccollections\nOrderedDict\n)R"


class Wrapper(torch.Tensor):
    """A subclass as torchao's are."""

    @staticmethod
    def __new__(cls, data, scale):
        options = {"dtype": torch.bfloat16, "strides": data.stride()}
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, **options)

    def __init__(self, data, scale):
        self.data_, self.scale = data, scale

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.detach.default:
            return cls(args[0].data_, args[0].scale)
        raise NotImplementedError(function)

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]


class Pair(NamedTuple):
    first: int
    second: bool


class Color(enum.Enum):
    RED = "red"


class Plan:
    def __init__(self, **fields):
        self.__dict__.update(fields)

    def run(self):
        """Never called."""


def quantize(x, bits=None):
    """Never called."""


CLASSES = {Wrapper: Role.TENSOR, Pair: Role.OBJECT, Color: Role.ENUM, Plan: Role.OBJECT}
NAMES = {f"{__name__}.{c.__name__}": role for c, role in CLASSES.items()} | {
    f"{__name__}.quantize": Role.FUNCTION,
    f"{__name__}.Plan.run": Role.FUNCTION,
}


def test_a_subclass_is_its_state(tmp_path):
    """Outer dtype and shape come from the rebuild call, inner tensors from the state."""
    weight = Wrapper(torch.arange(6, dtype=torch.int8).reshape(2, 3), torch.ones(2, 1))
    state = {"a": weight, "b": nn.Parameter(weight, requires_grad=False)}
    root = read_torch_file(saved(state, tmp_path / "m.pt"), NAMES).root
    a = root["a"]
    assert (a.path, a.dtype, a.shape, a.strides, a.is_parameter) == (
        f"{__name__}.Wrapper",
        DType.BFLOAT16,
        (2, 3),
        (3, 1),
        False,
    )
    assert list(a.state) == ["data_", "scale"]
    assert a.state["data_"].value.load().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert root["b"].is_parameter
    assert list(root["b"].state) == ["data_", "scale"]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Plan(), PickledObject("Plan")),
        (Plan(a=1, b=torch.int8), PickledObject("Plan", (), {"a": 1, "b": DType.INT8})),
        (Pair(1, second=True), PickledObject("Pair", (1, True))),
        (Color.RED, PickledEnum("Color", "red")),
        (quantize, PickledFunction("quantize")),
        (functools.partial(quantize, 1, bits=4), PickledFunction("quantize", (1,), {"bits": 4})),
        (Plan(a=1).run, PickledFunction("Plan.run", bound_to=PickledObject("Plan", (), {"a": 1}))),
    ],
)
def test_a_named_value_is_read_without_its_class(value, expected, protocol, tmp_path):
    """As real Python pickles it."""
    root = read_torch_file(saved([value], tmp_path / "m.pt", pickle_protocol=protocol), NAMES).root
    expected = evolve(expected, path=f"{__name__}.{expected.path}")
    if getattr(expected, "bound_to", None):
        owner = evolve(expected.bound_to, path=f"{__name__}.{expected.bound_to.path}")
        expected = evolve(expected, bound_to=owner)
    (found,) = root
    assert type(found) is type(expected)
    assert asdict(found) == asdict(expected)


def test_an_enum_may_be_pickled_by_the_name_of_its_member(tmp_path):
    """As Python 3.11.2 writes it, under either name of the module."""
    for module in ("__builtin__", "builtins"):
        data = f"c{module}\ngetattr\n".encode() + global_of(N + "Member")
        root = root_of(data + b"X\x03\x00\x00\x00RED\x86R.", tmp_path / "m.pt", TABLE)
        assert root == PickledEnum(N + "Member", member="RED")


def test_an_object_that_is_referred_to_before_it_has_a_state_gets_it(tmp_path):
    """Both references are one object with its fields."""
    data = global_of(N + "Object") + b")\x81q\x00h\x00}X\x01\x00\x00\x00aK\x01sb\x86."
    first, second = root_of(data, tmp_path / "m.pt", TABLE)
    assert first is second
    assert first.state == {"a": 1}


def rebuilt(rest: bytes, call: str = "torch._utils._rebuild_tensor_v2") -> bytes:
    """Return a pickle that rebuilds a tensor of the storage "0" with these arguments."""
    return global_of(call) + STORAGE + rest + b"tR."


SIZE = b"K\x04\x85K\x01\x85"
HOOKS = b"\x89" + LINEAR
UNTYPED = b"ctorch.storage\nUntypedStorage\n"
QUANTIZED = global_of("torch._utils._rebuild_tensor_v3") + STORAGE.replace(
    b"ctorch\nFloatStorage\n", UNTYPED
).replace(b"K\x04", b"K\x10")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (rebuilt(b"K\x01" + SIZE + HOOKS), "leaves its storage"),
        (rebuilt(b"J\xff\xff\xff\xff" + SIZE + HOOKS), "an offset that is no place"),
        (rebuilt(b"\x88" + SIZE + HOOKS), "an offset that is no place"),
        (rebuilt(b"K\x00K\x04\x85J\xff\xff\xff\xff\x85" + HOOKS), "stride out of bounds"),
        (rebuilt(b"K\x00J\xff\xff\xff\xff\x85K\x01\x85" + HOOKS), "stride out of bounds"),
        (rebuilt(b"K\x00\x88\x85K\x01\x85" + HOOKS), "stride out of bounds"),
        (rebuilt(b"K\x00K\x04\x85)" + HOOKS), "another number of strides"),
        (rebuilt(b"K\x00]K\x01\x85" + HOOKS), "a shape that is no tuple"),
        (rebuilt(b"K\x00" + SIZE + b"\x89]"), "a tensor with hooks"),
        (rebuilt(b"K\x00" + SIZE + b"\x89}K\x01Ns"), "a tensor with hooks"),
        (rebuilt(b"K\x00" + SIZE + HOOKS + b"}NN"), "unknown arguments"),
        (rebuilt(b"K\x00" + SIZE + HOOKS + b"}X\x03\x00\x00\x00neg\x88s"), "negated"),
        (rebuilt(b"K\x00" + SIZE), "with arguments that it does not take"),
        (rebuilt(b"K\x00" + SIZE + HOOKS + b"ctorch\nint8\n", "torch._utils._rebuild_tensor_v3"),
         "with arguments that it does not take"),
        (QUANTIZED + b"K\x00" + SIZE + HOOKS + b"ctorch\nqint8\ntR.", "torch's own quantized"),
        (b"(NtQ.", "a persistent id that is none of torch.save"),
        (b"NQ.", "a persistent id that is none of torch.save"),
        (STORAGE.replace(b"X\x01\x00\x00\x000", b"X\x01\x00\x00\x001") + b"t.", "not hold"),
        (STORAGE.replace(b"K\x04", b"K\x05") + b"t.", "another size than the pickle says"),
        (STORAGE.replace(b"K\x04", b"J\xfc\xff\xff\xff") + b"t.", "another size"),
        (STORAGE.replace(b"\x03\x00\x00\x00cpu", b"\x04\x00\x00\x00meta") + b"t.", "meta device"),
        (STORAGE + b"t.", "a storage where a value belongs"),
        (b"ctorch\nFloatStorage\n.", "a storage where a value belongs"),
        (b"ctorch\nQInt8Storage\n.", "found: 'torch.QInt8Storage'"),
        (global_of(N + "Tensor") + b".", "a class, a function or a storage where a value"),
        (global_of("collections.OrderedDict") + b".", "where a value belongs"),
        (global_of(N + "Tensor") + b")\x81.", "not read as a call"),
        (global_of(N + "Tensor") + b")R.", "not read as a call"),
        (global_of(N + "quantize") + b")R.", "not read as a call"),
        (global_of(N + "Member") + b")R.", "not read as a call"),
        (global_of(N + "Member") + b")\x81.", "not read as a call"),
        (b"ctorch\nint8\n)R.", "not read as a call"),
        (b"N)R.", "not read as a call"),
        (b"X\x02\x00\x00\x00os)R.", "not read as a call"),
        (global_of("torch.Tensor") + b")R.", "not read as a call"),
        (global_of("torch._utils._rebuild_wrapper_subclass") + b")R.", "not read as a call"),
        (global_of(N + "Object") + b")\x81}b}b.", "or has it already"),
        (global_of(N + "quantize") + b"}b.", "sets the state of what has none"),
        (b"}}b.", "sets the state of what has none"),
        (LINEAR + b"Nb]b.", "or has it already"),
        (LINEAR + b"]b.", "a state that is no attributes by name"),
        (LINEAR + b"}K\x01Nsb.", "a state with a wrong name"),
        (global_of("collections.OrderedDict") + b"]\x85R.", "arguments that it does not take"),
        (global_of("functools.partial") + b")R.", "arguments that it does not take"),
        (global_of("functools.partial") + global_of(N + "Object") + b"\x85R.", "does not take"),
        (global_of("functools.partial") + global_of(N + "quantize") + b"\x85RNb.", "partial with"),
        (global_of("torch.device") + b"N\x85R.", "arguments that it does not take"),
        (global_of("torch.Size") + b"X\x01\x00\x00\x00a\x85R.", "arguments that it does not take"),
        (global_of("torch.Size") + b"]J\xff\xff\xff\xffa\x85R.", "out of bounds"),
        (global_of("torch.serialization._get_layout") + b"X\x01\x00\x00\x00a\x85R.", "not take"),
    ],
)  # fmt: skip
def test_a_call_that_torch_never_writes_is_refused(data, words, tmp_path):
    """Each argument is checked, and what is not in the table is not guessed."""
    with pytest.raises(ContainerError) as caught:
        root_of(data, tmp_path / "m.pt", TABLE, storages={"0": bytes(16)})
    assert words in str(caught.value)
    assert caught.value.expected or "does not hold" in words


@pytest.mark.parametrize(
    ("owner", "member"),
    [
        (global_of(N + "Member"), "__class__"),
        (global_of(N + "Member"), "_value2member_map_"),
        (global_of(N + "Member"), "RED.name"),
        (global_of(N + "Object"), "run"),
        (global_of(N + "Object") + b")\x81", "__init__"),
        (global_of(N + "Object") + b")\x81", "other"),
        (global_of(N + "quantize"), "run"),
        (b"ctorch\nint8\n", "name"),
        (b"X\x01\x00\x00\x00a", "join"),
        (global_of("torch.Tensor"), "numpy"),
    ],
)
def test_getattr_reaches_members_and_known_methods_only(owner, member, tmp_path):
    """Neither attributes of classes nor of plain values, nor any dunder."""
    text = b"X" + len(member).to_bytes(4, "little") + member.encode()
    data = b"cbuiltins\ngetattr\n" + owner + text + b"\x86R."
    with pytest.raises(ContainerError) as caught:
        root_of(data, tmp_path / "m.pt", TABLE)
    words = ("builtins.getattr with arguments", "names something that is not read")
    assert any(w in str(caught.value) for w in words)


def wrapper(cls: str, own: str, layout: str = "torch.strided") -> bytes:
    """Return a pickle that rebuilds a subclass."""
    name = layout.encode()
    return b"".join(
        [
            global_of("torch._tensor._rebuild_from_type_v2") + b"(",
            global_of("torch._utils._rebuild_wrapper_subclass"),
            global_of(cls) + b"(" + global_of(own),
            b"ctorch\nint8\nK\x04\x85K\x01\x85K\x00",
            b"ctorch.serialization\n_get_layout\nX" + len(name).to_bytes(4, "little") + name,
            b"\x85RX\x03\x00\x00\x00cpu\x89t}tR.",
        ]
    )


def test_a_subclass_is_of_the_class_that_is_rebuilt(tmp_path):
    """The two names of its class must be one, and it must be a tensor's."""
    root = root_of(wrapper(N + "Tensor", N + "Tensor"), tmp_path / "m.pt", TABLE)
    assert root == PickledSubclass(N + "Tensor", DType.INT8, (4,), (1,), {})
    names = TABLE | {f"{N}Other": Role.TENSOR}
    for cls, own in ((N + "Tensor", N + "Other"), (N + "Object", N + "Object")):
        with pytest.raises(ContainerError, match="arguments that it does not take"):
            root_of(wrapper(cls, own), tmp_path / "m.pt", names)
    with pytest.raises(ContainerError, match="another memory layout than strided"):
        data = wrapper(N + "Tensor", N + "Tensor", "torch.sparse_csr")
        root_of(data, tmp_path / "m.pt", TABLE)


def test_a_misspelt_or_newer_name_has_a_hint(tmp_path):
    """The nearest name of the table, else what such names do elsewhere."""
    with pytest.raises(ContainerError, match=r"did you mean 'lib\.names\.Tensor'"):
        root_of(global_of(N + "Tensors") + b".", tmp_path / "m.pt", TABLE)
    with pytest.raises(ContainerError, match="nothing in the file has run"):
        root_of(global_of("evil.Code") + b".", tmp_path / "m.pt", TABLE)


def test_copies_of_one_state_are_bounded(tmp_path):
    """A large dict, given to thousands of tensors, would be copied for each."""
    fields = b"".join(b"X\x04\x00\x00\x00%04dN" % i for i in range(2000))
    head = wrapper(N + "Tensor", N + "Tensor")[:-4]
    data = b"}(" + fields + b"uq\x00(" + (head + b"h\x00tR") * 2000 + b"t\x86."
    with use_limits(pickle_operations=1_000_000), pytest.raises(ContainerError) as caught:
        root_of(data, tmp_path / "m.pt", TABLE)
    assert "copies its values too often" in str(caught.value)
