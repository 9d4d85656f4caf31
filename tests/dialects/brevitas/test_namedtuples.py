"""Fields of NamedTuples, both ways, with the classes of the real library."""

from typing import Any

import brevitas.nn as qnn
import brevitas.quant as bq
import brevitas.quant_tensor as bt
import pytest
import torch

from qconfig.dialects.brevitas.namedtuples import from_fields, to_fields
from qconfig.errors import InexactWarning, LayoutError, UsageError

_QUANTIZERS = {
    "IntQuantTensor": bq.ShiftedUint8WeightPerChannelFloat,
    "FloatQuantTensor": bq.Fp8e5m2OCPWeightPerChannelFloat,
    "GroupwiseIntQuantTensor": bq.MXInt8Weight,
    "GroupwiseFloatQuantTensor": bq.MXFloat8e4m3Weight,
}


def theirs(name: str, dtype: torch.dtype = torch.float32) -> Any:
    """Return a weight that Brevitas quantized, whose last group is not full."""
    torch.manual_seed(3)
    layer = qnn.QuantLinear(70, 4, bias=False, weight_quant=_QUANTIZERS[name]).to(dtype)
    return layer.quant_weight().detach()


def same(left: Any, right: Any) -> bool:
    """Return whether two fields are equal, tensors bit for bit and in their type."""
    if not isinstance(left, torch.Tensor):
        return bool(left == right)
    return left.dtype is right.dtype and torch.equal(left, right)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", _QUANTIZERS)
def test_there_and_back_is_equal(name: str, dtype: torch.dtype) -> None:
    """A NamedTuple becomes our tensor and a NamedTuple again, with the same fields."""
    before = theirs(name, dtype)
    after = getattr(bt, name)(*to_fields(from_fields(name, before)).values())
    assert type(after) is type(before)
    assert all(map(same, after, before))


@pytest.mark.parametrize("name", _QUANTIZERS)
def test_ours_has_their_properties(name: str) -> None:
    """Values and scales, expanded, are what Brevitas computes of its fields."""
    before = theirs(name)
    found: Any = from_fields(name, before)
    for field in ("value", "scale", "zero_point"):
        assert same(getattr(found, field), getattr(before, field))


@pytest.mark.parametrize("name", _QUANTIZERS)
def test_fields_by_name_are_the_same(name: str) -> None:
    """A dict of stored names, and one of public names, give what the tuple gives."""
    before = theirs(name)
    stored = before._asdict()
    public = {field.removesuffix("_t").removesuffix("_"): value for field, value in stored.items()}
    expected: Any = from_fields(name, before)
    for fields in (stored, public):
        found: Any = from_fields(name, fields)
        assert torch.equal(found.value, expected.value)
        assert found.signed == expected.signed


@pytest.mark.parametrize("name", _QUANTIZERS)
def test_names_and_order_are_those_of_the_namedtuple(name: str) -> None:
    """`to_fields` has the names of the NamedTuple in its order."""
    before = theirs(name)
    assert tuple(to_fields(from_fields(name, before))) == before._fields


def test_what_is_put_right_is_warned_of() -> None:
    """A tensor whose widths Brevitas exchanged comes with a warning."""
    torch.manual_seed(0)
    quantizer = bq.Fp8e4m3OCPActPerTensorFloat
    layer = qnn.QuantIdentity(act_quant=quantizer, return_quant_tensor=True)
    values = torch.randn(4, 50)
    layer(values)
    layer.eval()
    quantized = layer(values)
    passed = layer.act_quant.create_quant_tensor(torch.relu(quantized.value), quantized)
    assert float(passed.exponent_bit_width) == 3
    with pytest.warns(InexactWarning, match="exchanged"):
        found: Any = from_fields("FloatQuantTensor", passed)
    assert float(found.exponent_bit_width) == 4


def test_unknown_classes_are_refused() -> None:
    """There are four classes."""
    with pytest.raises(UsageError, match="no such class") as caught:
        from_fields("IntQuantTensors", ())
    assert caught.value.hint == "did you mean 'IntQuantTensor'?"


def test_other_fields_are_refused() -> None:
    """Fields of another class, and too few of them, are errors."""
    fields = theirs("IntQuantTensor")
    with pytest.raises(LayoutError, match="wrong number of fields"):
        from_fields("FloatQuantTensor", fields)
    with pytest.raises(LayoutError, match="not the fields"):
        from_fields("FloatQuantTensor", fields._asdict())


def test_other_tensors_have_no_fields() -> None:
    """A plain tensor is none of the four classes."""
    with pytest.raises(UsageError, match="has no class"):
        to_fields(torch.ones(2))
