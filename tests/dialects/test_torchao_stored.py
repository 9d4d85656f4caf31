"""What a pickle says of a tensor becomes names and values, and nothing more."""

import pytest
import torch

from qconfig.codec.dtypes import DType
from qconfig.codec.pickled_values import (
    PickledEnum,
    PickledFunction,
    PickledObject,
    PickledSubclass,
    PickledTensor,
    Role,
)
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.stored import (
    Stored,
    StoredEnum,
    StoredFunction,
    StoredObject,
    stored_from_pickle,
)
from qconfig.dialects.torchao.tensors.enums import ENUMS, member_name
from qconfig.dialects.torchao.tensors.names import NAMES, releases_of
from qconfig.errors import ContainerError

PRIMITIVES = "torchao.quantization.quant_primitives"


def stored(**state):
    """Return what a tensor with this state is read as."""
    path = "torchao.quantization.Int8Tensor"
    return stored_from_pickle(PickledSubclass(path, DType.BFLOAT16, (2, 4), (4, 1), state))


def field(value):
    """Return what a value in a tensor's state is read as."""
    return stored(field=value).fields["field"]


def test_a_tensor_has_the_last_part_of_its_name():
    """The class name decides; the path stays for reports."""
    found = stored()
    assert (found.name, found.path) == ("Int8Tensor", "torchao.quantization.Int8Tensor")
    assert (found.dtype, found.shape) == (DType.BFLOAT16, (2, 4))


def test_a_plain_tensor_is_its_value():
    """Bytes stay where they lie."""
    value = LazyTensor.of(torch.zeros(2))
    assert field(PickledTensor(value, "0", 0, (1,))) is value


def test_a_tensor_in_a_tensor_is_stored_too():
    """Wrappers hold tensors of their own classes."""
    inner = PickledSubclass("torchao.quantization.Int4Tensor", DType.FLOAT32, (1,), (1,), {})
    assert field(inner) == Stored(
        "Int4Tensor", "torchao.quantization.Int4Tensor", DType.FLOAT32, (1,), {}
    )


@pytest.mark.parametrize(
    ("pickled", "member"),
    [
        (PickledEnum(f"{PRIMITIVES}.ZeroPointDomain", value=2), "FLOAT"),
        (PickledEnum(f"{PRIMITIVES}.ZeroPointDomain", member="FLOAT"), "FLOAT"),
        (PickledEnum(f"{PRIMITIVES}.MappingType", value=3), "ASYMMETRIC"),
        (PickledEnum("a.ScaleCalculationMode", value=4), "RCEIL"),
        (PickledEnum("a.ScaleCalculationMode", value="rceil"), "RCEIL"),
        (PickledEnum("a.KernelPreference", value="fbgemm"), "FBGEMM"),
        (PickledEnum("a.KernelPreference", value="mslk"), "MSLK"),
        (PickledEnum("a.Float8PackingFormat", value="sparse_cutlass"), "SPARSE_CUTLASS"),
    ],
)
def test_members_have_names_whether_pickled_by_value_or_name(pickled, member):
    """Python 3.11.2 writes names, 3.11.7 values; both become names."""
    assert field(pickled) == StoredEnum(pickled.path.rpartition(".")[2], member)


@pytest.mark.parametrize(
    "pickled",
    [
        PickledEnum(f"{PRIMITIVES}.ZeroPointDomain", value=4),
        PickledEnum(f"{PRIMITIVES}.ZeroPointDomain", value=True),
        PickledEnum(f"{PRIMITIVES}.ZeroPointDomain", member="__class__"),
        PickledEnum(f"{PRIMITIVES}.ZeroPointDomain", value=[1]),
    ],
)
def test_a_member_that_never_was_is_refused(pickled):
    """Values and names outside the table are no members."""
    with pytest.raises(ContainerError, match="never had that member") as caught:
        field(pickled)
    assert caught.value.pointer == "/field"


def test_an_unknown_enum_is_refused():
    """An enum of another library has no table."""
    with pytest.raises(ContainerError, match=r"no enum of torchao's") as caught:
        member_name("other.Color", 1, None)
    assert "MappingType" in caught.value.expected


def test_a_named_tuple_gets_the_names_of_its_fields():
    """Float8MMConfig is pickled by position."""
    pickled = PickledObject("torchao.float8.inference.Float8MMConfig", (False, True, False))
    expected = {"emulate": False, "use_fast_accum": True, "pad_inner_dim": False}
    assert field(pickled) == StoredObject("Float8MMConfig", expected)


def test_an_object_has_its_fields():
    """A granularity without fields is one, too; inner values are read."""
    row = PickledObject("torchao.quantization.granularity.PerRow")
    kwargs = PickledObject("a.QuantizeTensorToFloat8Kwargs", (), {"granularity": row})
    assert field(kwargs) == StoredObject(
        "QuantizeTensorToFloat8Kwargs", {"granularity": StoredObject("PerRow")}
    )


def test_positions_without_names_are_refused():
    """Arguments of a class that is made without any mean nothing that is known."""
    with pytest.raises(ContainerError, match="too many arguments"):
        field(PickledObject("torchao.quantization.granularity.PerRow", (1,)))


def test_a_state_without_names_is_refused():
    """A state is a dict from names to values."""
    with pytest.raises(ContainerError, match="has no names"):
        field(PickledObject("torchao.quantization.granularity.PerRow", (), [1]))


def test_a_function_is_its_name_and_what_is_bound_to_it():
    """functools.partial of 0.6 keeps its arguments by name."""
    path = "torchao.quantization.quant_api._input_activation_quant_func_fp8"
    pickled = PickledFunction(path, kwargs={"activation_dtype": DType.FLOAT8_E4M3FN})
    assert field(pickled) == StoredFunction(
        "_input_activation_quant_func_fp8", {"activation_dtype": DType.FLOAT8_E4M3FN}
    )


def test_a_method_has_its_class_in_its_name():
    """SmoothQuant's quantizer was pickled with the object that it is bound to."""
    owner = "torchao.prototype.smoothquant.api._ActQuantizer"
    pickled = PickledFunction(
        f"{owner}.dynamic_quantize",
        bound_to=PickledObject(owner, (), {"target_dtype": DType.INT8, "quant_min": -127}),
    )
    found = field(pickled)
    assert found.name == "_ActQuantizer.dynamic_quantize"
    assert found.bound_to == StoredObject(
        "_ActQuantizer", {"target_dtype": DType.INT8, "quant_min": -127}
    )


def test_arguments_without_names_are_refused():
    """What a position meant depends on the release."""
    with pytest.raises(ContainerError, match="without names"):
        field(PickledFunction("torchao.quantization.quant_api._int8_symm_per_token_quant", (1,)))


def test_lists_keep_their_kind():
    """Lists, tuples and dicts hold read values."""
    member = PickledEnum(f"{PRIMITIVES}.ZeroPointDomain", value=1)
    expected = StoredEnum("ZeroPointDomain", "INT")
    assert field([member, (member,)]) == [expected, (expected,)]
    assert field({"key": member}) == {"key": expected}


def test_every_enum_that_a_pickle_may_name_has_a_table():
    """A name in the table of names is of use only with the enum's members."""
    named = {path.rpartition(".")[2] for path, role in NAMES.items() if role is Role.ENUM}
    assert named <= set(ENUMS)


def test_names_say_who_wrote_them():
    """A path that moved from release to release tells the releases."""
    assert releases_of("torchao.dtypes.uintx.uintx.UintxTensor") == "0.5 and 0.6"
    assert releases_of("torchao.prototype.dtypes.uintx.uintx_utils.UintxTensor") == "0.17"
    assert releases_of("builtins.eval") is None
    assert releases_of(None) is None
