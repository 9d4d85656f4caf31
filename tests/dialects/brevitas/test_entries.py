"""What stands in a pickle: fields by name and by position, odd and hostile values."""

import pickle
import zipfile
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
import torch

from qconfig import load_checkpoint, upgrade_checkpoint
from qconfig.errors import CheckpointError, ContainerError, LayoutError, QconfigError
from tests.dialects.brevitas.samples import FILES, RELEASES

_YES = torch.tensor(data=True)


def _saved(
    path: Path,
    arguments: tuple[Any, ...],
    module: str = "brevitas.quant_tensor.int_quant_tensor",
    name: str = "IntQuantTensor",
) -> Path:
    """Save a NamedTuple of any class path with any fields; no module of that name is needed."""
    made: Any = namedtuple(name, [f"f{i}" for i in range(len(arguments))])  # type: ignore[misc]  # noqa: PYI024
    made.__module__, made.__qualname__ = __name__, name
    globals()[name] = made
    torch.save({"q": made(*arguments)}, path)
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    (pickled,) = [n for n in members if n.endswith("data.pkl")]
    old, new = f"c{__name__}\n{name}\n".encode(), f"c{module}\n{name}\n".encode()
    assert old in members[pickled]
    members[pickled] = members[pickled].replace(old, new)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for filename, data in members.items():
            archive.writestr(filename, data)
    return path


def _fields(**changed: Any) -> tuple[Any, ...]:
    fields = {
        "value": torch.ones(2, 3),
        "scale": torch.tensor(0.5),
        "zero_point": torch.tensor(0.0),
        "bit_width": torch.tensor(8.0),
        "signed_t": _YES,
        "training_t": ~_YES,
    }
    return tuple((fields | changed).values())


@pytest.mark.parametrize("release", RELEASES)
def test_fields_without_a_class_are_read(release: str, tmp_path: Path) -> None:
    """A dict of fields by name and a tuple by position are read, and it is said what was taken."""
    report = upgrade_checkpoint(FILES / release / "fields.pt", tmp_path / "new")
    found, nested = (load_checkpoint(f) for f in (tmp_path / "new", FILES / release / "nested.pt"))
    assert torch.equal(found["positional"].value, nested["layers.1.0"].value)
    assert {t.fqn for t in report.tensors} == {"named", "positional"}
    assert all("no class is named" in t.origin.ambiguities[0] for t in report.tensors if t.origin)


@pytest.mark.parametrize("count", [0, 5, 7, 11])
def test_a_wrong_number_of_fields_is_refused(count: int, tmp_path: Path) -> None:
    """The class has six fields; the error says how many there are."""
    path = _saved(tmp_path / "q.pt", (*_fields(), *_fields())[:count])
    with pytest.raises(CheckpointError, match="wrong number of fields") as caught:
        upgrade_checkpoint(path, None, dry_run=True, dialect="brevitas")
    assert caught.value.found == repr(f"{count} fields")


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("signed_t", torch.tensor(0.5), "signed_t is of a wrong kind"),
        ("signed_t", torch.tensor([1.0, 0.0]), "signed_t is of a wrong kind"),
        ("signed_t", "yes", "signed_t is of a wrong kind"),
        ("scale", torch.ones(5), "scale is not aligned with the values"),
        ("scale", torch.tensor(2**53 + 1), "scale is of a wrong kind"),
        ("scale", torch.ones(2, 3, dtype=torch.bool), "scale is of a wrong kind"),
        ("value", torch.ones(2, 3, dtype=torch.int64), "value is of a wrong kind"),
        ("scale", None, "scale is of a wrong kind"),
        ("value", None, "value is of a wrong kind"),
        ("bit_width", torch.ones(2), "bit_width is of a wrong kind"),
        ("zero_point", "0", "zero_point is of a wrong kind"),
    ],
)
def test_wrong_fields_are_named(field: str, value: Any, expected: str, tmp_path: Path) -> None:
    """A field of a wrong kind is refused by its name, with the name of the tensor."""
    path = _saved(tmp_path / "q.pt", _fields(**{field: value}))
    with pytest.raises(LayoutError, match=expected) as caught:
        upgrade_checkpoint(path, None, dry_run=True)
    assert caught.value.fqn == "q"


def test_flags_as_numbers_are_read(tmp_path: Path) -> None:
    """1.0 and 0.0 are flags."""
    path = _saved(tmp_path / "q.pt", _fields(signed_t=torch.tensor(0.0)))
    upgrade_checkpoint(path, tmp_path / "new")
    assert load_checkpoint(tmp_path / "new")["q"].signed is False


def test_unknown_classes_are_refused(tmp_path: Path) -> None:
    """A class of Brevitas that is in no table is neither imported nor called."""
    path = _saved(tmp_path / "q.pt", _fields(), "brevitas.quant_tensor.new_tensor", "NewTensor")
    with pytest.raises(ContainerError, match="names something that is not read"):
        upgrade_checkpoint(path, None, dry_run=True, dialect="brevitas")


def test_code_in_a_file_does_not_run(tmp_path: Path) -> None:
    """A pickle that calls a function of Python is refused."""
    torch.save({"a": torch.ones(2)}, tmp_path / "q.pt")
    with zipfile.ZipFile(tmp_path / "q.pt") as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    (pickled,) = [n for n in members if n.endswith("data.pkl")]
    members[pickled] = pickle.dumps(print, 2)[:-1] + b"(X\x02\x00\x00\x00hitR."
    with zipfile.ZipFile(tmp_path / "q.pt", "w", zipfile.ZIP_STORED) as archive:
        for filename, data in members.items():
            archive.writestr(filename, data)
    with pytest.raises(ContainerError):
        upgrade_checkpoint(tmp_path / "q.pt", None, dry_run=True, dialect="brevitas")


@pytest.mark.parametrize("size", [0, -4, 2**40, "4", 2.0])
def test_group_sizes_that_do_not_fit_are_refused(size: Any, tmp_path: Path) -> None:
    """A group size that is none, or not that of the stored groups, is an error by name."""
    fields = (
        torch.ones(2, 3, 4),
        torch.ones(2, 3, 1),
        torch.tensor(0.0),
        size,
        1,
        torch.tensor(8.0),
        _YES,
        ~_YES,
        torch.Size([2, 12]),
    )
    module = "brevitas.quant_tensor.groupwise_int_quant_tensor"
    path = _saved(tmp_path / "q.pt", fields, module, "GroupwiseIntQuantTensor")
    with pytest.raises(QconfigError) as caught:
        upgrade_checkpoint(path, None, dry_run=True)
    assert caught.value.fqn == "q"


@pytest.mark.parametrize("shape", [(2, 2**47), (-1, 12), (2, 12, 1), ("2", 12), (3, 12)])
def test_logical_shapes_that_do_not_fit_are_refused(shape: Any, tmp_path: Path) -> None:
    """A logical shape that is none, or not that of the groups, is an error by name."""
    fields = (
        torch.ones(2, 3, 4),
        torch.ones(2, 3, 1),
        torch.tensor(0.0),
        4,
        1,
        torch.tensor(8.0),
        _YES,
        ~_YES,
        shape,
    )
    module = "brevitas.quant_tensor.groupwise_int_quant_tensor"
    path = _saved(tmp_path / "q.pt", fields, module, "GroupwiseIntQuantTensor")
    with pytest.raises(QconfigError) as caught:
        upgrade_checkpoint(path, None, dry_run=True)
    assert caught.value.fqn == "q"


def test_other_values_are_refused_or_dropped(tmp_path: Path) -> None:
    """A number beside tensors is an error, unless it is said that it may be left out."""
    path = _saved(tmp_path / "q.pt", _fields())
    loaded = torch.load(FILES / "0.13.4" / "activations.state_dict.pt", weights_only=True)
    torch.save({"model": {"w": loaded["body.fc.bias"]}, "epoch": 3}, path)
    with pytest.raises(CheckpointError, match="an entry of the file is no tensor"):
        upgrade_checkpoint(path, None, dry_run=True, dialect="brevitas")
    report = upgrade_checkpoint(path, None, dry_run=True, dialect="brevitas", dropped=["epoch"])
    assert "epoch is left out, as was asked for" in report.notes


def test_two_values_of_one_name_are_refused(tmp_path: Path) -> None:
    """`a.b` and `a` with `b` in it would become one name."""
    torch.save({"a.b": torch.ones(2), "a": {"b": torch.zeros(2)}}, tmp_path / "q.pt")
    with pytest.raises(CheckpointError, match="the same name"):
        upgrade_checkpoint(tmp_path / "q.pt", None, dry_run=True, dialect="brevitas")
