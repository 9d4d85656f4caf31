"""Each form of each tensor class of torchao is read as one version of ours, with every field."""

import attrs
import pytest

from qconfig.checkpoints.writer import Writer
from qconfig.codec.pickled_values import Role
from qconfig.dialects.torchao.stored import Stored
from qconfig.dialects.torchao.tensors.affine import IMPLEMENTATIONS
from qconfig.dialects.torchao.tensors.names import NAMES
from qconfig.dialects.torchao.tensors.refusals import REFUSED
from qconfig.dialects.torchao.tensors.table import READERS, read_tensor
from qconfig.errors import ContainerError, MigrationError, UnknownFieldError, UnknownNameError
from qconfig.versioning import registry
from tests.dialects.stored_arrangements import ARRANGEMENTS
from tests.dialects.stored_forms import FORMS

ALL = {**{k: v[:2] for k, v in FORMS.items()}, **ARRANGEMENTS}
INSIDE = ("tensor_impl", "layout_tensor")


def with_field(tensor: Stored, name: str, value: object) -> Stored:
    """Return the tensor with one more field, in its arrangement if it has one."""
    for key in INSIDE:
        if key in tensor.fields:
            changed = with_field(tensor.fields[key], name, value)
            return attrs.evolve(tensor, fields={**tensor.fields, key: changed})
    return attrs.evolve(tensor, fields={**tensor.fields, name: value})


@pytest.mark.parametrize("name", ALL)
def test_a_form_is_one_version_of_ours(name):
    """Fields decide the version, and its steps lead to a layout of today."""
    tensor, expected = ALL[name]
    read = read_tensor(tensor)
    assert type(read.layout).__name__ == expected
    current = registry.convert(read.layout)
    assert registry.is_current(registry.entry_of(type(current)))
    assert tuple(current.shape) == tensor.shape


@pytest.mark.parametrize("name", FORMS)
def test_the_origin_names_class_and_releases(name):
    """A report says which class it was and who wrote that form."""
    tensor, _, releases = FORMS[name]
    origin = read_tensor(tensor).origin
    assert origin.type.startswith(tensor.name)
    assert origin.releases == releases


@pytest.mark.parametrize("name", FORMS)
def test_a_named_writer_is_the_release(name):
    """Who knows the writer gets it in place of the releases that the fields allow."""
    tensor, _, _ = FORMS[name]
    releases = read_tensor(tensor, Writer.parse("torchao==0.14.1")).origin.releases
    assert (releases or "").partition(" as named")[0] == "0.14"


@pytest.mark.parametrize(
    ("writer", "expected"),
    [
        ("torchao==0.12", "0.12"),
        ("torchao==0.13", "0.13"),
        ("torchao==0.18", "0.18 as named, though only 0.12 and 0.13 is known to have this form"),
        ("torchao==0.4", "0.4 as named, though only 0.12 and 0.13 is known to have this form"),
    ],
)
def test_a_writer_that_contradicts_the_form_is_said_to(writer, expected):
    """A report does not repeat a release that cannot have written the tensor as if it had."""
    read = read_tensor(FORMS["FbgemmFp8Tensor"][0], Writer.parse(writer))
    assert read.origin.releases == expected


@pytest.mark.parametrize("name", ALL)
def test_an_unknown_field_is_refused_by_name(name):
    """A field that no release wrote is no field to drop."""
    with pytest.raises(UnknownFieldError, match="surprise"):
        read_tensor(with_field(ALL[name][0], "surprise", 1))


@pytest.mark.parametrize("name", ALL)
def test_a_form_without_its_first_field_is_refused(name):
    """A tensor without what its class always has is no tensor of that class."""
    tensor, _ = ALL[name]
    first = next(iter(tensor.fields))
    fields = {k: v for k, v in tensor.fields.items() if k != first}
    with pytest.raises((ContainerError, MigrationError)):
        read_tensor(attrs.evolve(tensor, fields=fields))


def test_every_reader_has_a_form():
    """A class that is added to the table is tested by the tests above."""
    assert {name.partition(" ")[0] for name in FORMS} == set(READERS)


def test_every_arrangement_has_a_form():
    """An arrangement that is added to the table is tested by the tests above."""
    assert {name.partition(" ")[0] for name in ARRANGEMENTS} == set(IMPLEMENTATIONS)


def test_every_tensor_class_is_read_or_refused():
    """No class that a pickle may name is without a decision, and none has two."""
    inside = {"UintxTensor"}  # lies in an arrangement only
    named = {path.rpartition(".")[2] for path, role in NAMES.items() if role is Role.TENSOR}
    decided = {*READERS, *IMPLEMENTATIONS, *REFUSED, *inside}
    assert named <= decided
    assert not set(REFUSED) & {*READERS, *IMPLEMENTATIONS}


@pytest.mark.parametrize("name", REFUSED)
def test_a_class_that_cannot_be_read_is_refused_with_its_releases(name):
    """The error names class, releases and reason, and says what to do."""
    with pytest.raises(MigrationError) as caught:
        read_tensor(Stored(name, f"torchao.{name}", None, None, {}))
    known = REFUSED[name]
    assert f"{name} of torchao {known.releases} cannot be read: {known.reason}" in str(caught.value)
    assert caught.value.hint == known.hint


def test_an_unknown_class_is_refused_by_name():
    """A class that torchao never had is no tensor of torchao's."""
    with pytest.raises(UnknownNameError, match="Int9Tensor") as caught:
        read_tensor(Stored("Int9Tensor", None, None, None, {}))
    assert caught.value.found == "'Int9Tensor'"


@pytest.mark.parametrize("name", ["Int8Tensor 0.17", "Float8Tensor", "Int4Tensor 0.14"])
def test_dtype_and_shape_may_be_said_twice(name):
    """Attributes of torchao's safetensors repeat what the tensor shows."""
    tensor = FORMS[name][0]
    said = {"dtype": tensor.dtype, "shape": list(tensor.shape)}
    again = attrs.evolve(tensor, fields={**tensor.fields, **said})
    assert type(read_tensor(again).layout) is type(read_tensor(tensor).layout)


def test_two_element_types_are_refused():
    """Where field and tensor show different types, one of them is wrong."""
    tensor = with_field(FORMS["Int8Tensor 0.17"][0], "dtype", "float32")
    with pytest.raises(ContainerError, match="dtype"):
        read_tensor(tensor)
