"""Files of torch.save: the values that torch itself would load, at the bytes where they lie."""

import collections
import cProfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from qconfig.codec.dtypes import FROM_SAFETENSORS, DType
from qconfig.codec.pickled_values import PickledTensor
from qconfig.codec.regular_files import check_unchanged
from qconfig.codec.torch_files import read_torch_file
from qconfig.errors import ContainerError, StorageError
from qconfig.limits import use_limits
from tests.codec.torch_samples import saved, unfolded

PLAIN = [*FROM_SAFETENSORS.values(), DType.COMPLEX32, DType.COMPLEX128]


def raw(tensor: torch.Tensor) -> bytes:
    """Return the bytes of a tensor, row-major."""
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist())


def same(ours: PickledTensor, theirs: torch.Tensor) -> None:
    """Check dtype, shape, elements, strides and the byte range against a tensor of torch."""
    value = ours.value
    assert (value.dtype.to_torch(), value.shape) == (theirs.dtype, tuple(theirs.shape))
    loaded = value.load()
    assert loaded.is_contiguous()
    assert (loaded.dtype, loaded.shape) == (theirs.dtype, theirs.shape)
    assert raw(loaded) == raw(theirs.detach())
    assert (ours.offset, ours.strides) == (theirs.storage_offset(), theirs.stride())
    assert ours.is_parameter == isinstance(theirs, nn.Parameter)
    assert (value.source is not None) == theirs.is_contiguous()
    if value.source is not None:
        with value.source.path.open("rb") as file:
            file.seek(value.source.offset)
            assert file.read(value.source.length) == raw(theirs.detach())


def agree(path: Path) -> None:
    """Check a file of one dict of tensors against torch."""
    ours, theirs = read_torch_file(path, {}).root, torch.load(path, weights_only=False)
    assert list(ours) == list(theirs)
    for name, tensor in theirs.items():
        same(ours[name], tensor)


@pytest.mark.parametrize("protocol", [1, 2, 3, 4, 5])
@pytest.mark.filterwarnings("ignore:ComplexHalf support")
def test_tensors_of_every_dtype_are_as_torch_loads_them(protocol, tmp_path):
    """Old dtypes in typed storages and new ones in untyped storages, under each protocol."""
    codes = torch.arange(48, dtype=torch.uint8) % 2
    tensors = {d.value: codes.clone().view(d.to_torch()) for d in PLAIN}
    agree(saved(tensors, tmp_path / "m.pt", pickle_protocol=protocol))


def test_views_are_as_torch_loads_them(tmp_path):
    """Transposed, sliced, expanded, 0-d and empty tensors, and two views of one storage."""
    base = torch.arange(24.0).reshape(4, 6)
    views = {
        "whole": base,
        "transposed": base.t(),
        "rows": base[1:3],
        "columns": base[:, 2:4],
        "stepped": base[::2, ::3],
        "expanded": base[:, :1].expand(4, 7),
        "scalar": base[2, 3],
        "empty": base[:0],
        "empty of nothing": torch.empty(0, 3),
        "windows": torch.arange(5, dtype=torch.int16).as_strided((3, 3), (1, 1)),
        "float8": torch.arange(6.0).reshape(2, 3).to(torch.float8_e4m3fn).t(),
        "complex": torch.arange(6.0).reshape(2, 3).to(torch.complex128).t(),
        "parameter": nn.Parameter(base),
        "frozen": nn.Parameter(base.to(torch.int8), requires_grad=False),
        "é": base.bool(),
    }
    path = saved(views, tmp_path / "m.pt")
    agree(path)
    root = read_torch_file(path, {}).root
    assert root["whole"].storage == root["rows"].storage
    assert root["whole"].storage != root["windows"].storage


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_view_is_as_torch_loads_it(tmp_path_factory, data):
    """Whatever slices, permutations and expansions make of a tensor."""
    shape = data.draw(st.lists(st.integers(0, 4), max_size=4))
    dtype = data.draw(st.sampled_from([torch.int8, torch.bfloat16, torch.float8_e5m2]))
    tensor = torch.arange(torch.Size(shape).numel()).to(torch.uint8).to(dtype).reshape(shape)
    for dimension, extent in enumerate(shape):
        start = data.draw(st.integers(0, extent))
        tensor = tensor.narrow(dimension, start, data.draw(st.integers(0, extent - start)))
    tensor = tensor.permute(data.draw(st.permutations(range(len(shape)))))
    if data.draw(st.booleans()):
        tensor = tensor.unsqueeze(0).expand(3, *tensor.shape)
    agree(saved({"x": tensor}, tmp_path_factory.mktemp("views") / "m.pt"))


def test_tied_parameters_are_one_value(tmp_path):
    """What was one object is one again, and shared memory has one key."""
    layer = nn.Linear(3, 2)
    tied = {"a": layer.weight, "b": layer.weight, "c": layer.weight.detach()}
    root = read_torch_file(saved(tied, tmp_path / "m.pt"), {}).root
    assert root["a"] is root["b"]
    assert root["a"].storage == root["c"].storage


def test_a_state_dict_keeps_its_metadata_aside(tmp_path):
    """The root is a plain dict; the attribute that torch puts on it stands beside it."""
    state = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).state_dict()
    file = read_torch_file(saved(state, tmp_path / "m.pt"), {})
    assert type(file.root) is dict
    assert list(file.root) == list(state)
    assert file.attributes == {"_metadata": dict(state._metadata)}
    inside = read_torch_file(saved({"model": state, "step": 3}, tmp_path / "m.pt"), {})
    assert list(inside.root["model"]) == list(state)
    assert inside.attributes == {}


def test_attributes_of_tensors_are_kept(tmp_path):
    """Python attributes that somebody set on a tensor or a parameter."""
    tensor, parameter = torch.ones(2), nn.Parameter(torch.ones(2))
    tensor.tag, parameter.tag = "t", [1]
    buffer = nn.Buffer(torch.ones(2))
    path = saved({"t": tensor, "p": parameter, "b": buffer}, tmp_path / "m.pt")
    root = read_torch_file(path, {}).root
    assert root["t"].attributes == {"tag": "t"}
    assert root["p"].attributes == {"tag": [1]}
    assert (root["t"].is_parameter, root["p"].is_parameter) == (False, True)
    assert not root["b"].is_parameter


def test_values_of_torch_become_plain_values(tmp_path):
    """DTypes for dtypes, tuples for sizes, strings for devices and layouts."""
    values = {
        "dtypes": [torch.int4, torch.uint7, torch.bfloat16, torch.float8_e8m0fnu],
        "size": torch.Size([2, 3]),
        "devices": [torch.device("cpu"), torch.device("cuda:1")],
        "layout": torch.strided,
    }
    root = read_torch_file(saved(values, tmp_path / "m.pt"), {}).root
    assert root == {
        "dtypes": [DType.INT4, DType.UINT7, DType.BFLOAT16, DType.FLOAT8_E8M0FNU],
        "size": (2, 3),
        "devices": ["cpu", "cuda:1"],
        "layout": "torch.strided",
    }


@pytest.mark.parametrize("value", [[torch.ones(2), 1], 5, None, "text", (), {"a": {"b": [{}]}}])
def test_any_root_is_given(value, tmp_path):
    """A file need not hold a dict; what it holds is for the caller to judge."""
    root = read_torch_file(saved(value, tmp_path / "m.pt"), {}).root
    assert str(unfolded(root)) == str(value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: torch.eye(2).to_sparse(), "sparse tensors are not read"),
        (lambda: torch.quantize_per_tensor(torch.ones(2), 1, 0, torch.qint8), "quantized types"),
        (lambda: torch.empty(2, device="meta"), "the meta device have no elements"),
        (lambda: torch.ones(2, dtype=torch.complex64).conj(), "to be conjugated or negated"),
        (lambda: nn.Linear(2, 2), "a whole model; load it where it was made"),
        (lambda: collections.Counter("ab"), "collections.Counter"),
        (lambda: {"b": b"\x80\x02N."}, "_codecs.encode"),
        (lambda: {1, 2}, "__builtin__.set"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_what_is_no_plain_tensor_is_refused_by_name(make, words, tmp_path):
    """Each refusal says what it met."""
    path = saved({"x": make()}, tmp_path / "m.pt")
    with pytest.raises(ContainerError) as caught:
        read_torch_file(path, {})
    assert words in str(caught.value)
    assert caught.value.file == str(path)


def test_a_file_that_changes_is_noticed(tmp_path):
    """As with safetensors: before bytes are copied, the stamp is compared; a short file fails."""
    path = saved({"x": torch.arange(100)}, tmp_path / "m.pt")
    file = read_torch_file(path, {})
    check_unchanged(file)
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(ContainerError, match="has changed"):
        check_unchanged(file)
    with pytest.raises(ContainerError, match="cut short"):
        file.root["x"].value.load()
    path.unlink()
    with pytest.raises(StorageError):
        file.root["x"].value.load()


def test_an_expanded_tensor_is_bounded(tmp_path):
    """A few bytes can stand for a tensor that no memory holds."""
    path = saved({"x": torch.zeros(1).expand(2**40)}, tmp_path / "m.pt")
    with pytest.raises(ContainerError) as caught:
        read_torch_file(path, {})
    assert "expands its storage too far" in str(caught.value)
    assert "Limits.expanded_bytes" in str(caught.value)


def test_sharing_is_bounded(tmp_path):
    """So can many tensors of one storage; a few are what tied weights need."""
    base = torch.zeros(1000)
    path = saved([base.view(10, 100) for _ in range(9)], tmp_path / "m.pt")
    with use_limits(shared_bytes=40_000):
        assert len(read_torch_file(path, {}).root) == 9
    with use_limits(shared_bytes=10_000), pytest.raises(ContainerError) as caught:
        read_torch_file(path, {})
    assert "share storages too often" in str(caught.value)
    assert "Limits.shared_bytes" in str(caught.value)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"tensors": 1}, "too many tensors"),
        ({"rank": 1}, "too many dimensions"),
        ({"dimension": 2}, "dimension or stride out of bounds"),
        ({"pickle_operations": 9}, "too many instructions"),
        ({"pickle_bytes": 9}, "the pickle is too long"),
        ({"pickle_depth": 1}, "nests values too deep"),
        ({"archive_records": 5}, "too many records"),
        ({"header_bytes": 100}, "too long a directory"),
    ],
)
def test_every_limit_is_kept(limits, words, tmp_path):
    """Bounds can be set, and the error names the one that was met."""
    path = saved({"x": torch.zeros(2, 3), "y": torch.ones(3)}, tmp_path / "m.pt")
    with use_limits(**limits), pytest.raises(ContainerError) as caught:
        read_torch_file(path, {})
    assert words in str(caught.value)
    assert f"Limits.{next(iter(limits))}" in str(caught.value)


def test_work_grows_with_the_number_of_tensors(tmp_path):
    """Ten times the tensors take about ten times as many calls, not a hundred times."""
    calls = []
    for count in (100, 1_000):
        path = saved({f"layers.{i}": torch.zeros(2) for i in range(count)}, tmp_path / f"{count}")
        profile = cProfile.Profile()
        profile.runcall(read_torch_file, path, {})
        calls.append(sum(entry.callcount for entry in profile.getstats()))
    assert calls[1] < 10.5 * calls[0]


def test_rows_of_a_tensor_are_read_without_the_rest(tmp_path):
    """A tensor in one piece is read part by part: its other bytes need not even be there."""
    tensor = torch.arange(24, dtype=torch.int16).reshape(4, 6)
    path = saved({"w": tensor, "t": tensor.t()}, tmp_path / "m.pt")
    root = read_torch_file(path, {}).root
    value = root["w"].value
    end = value.source.offset + value.source.length
    with path.open("r+b") as file:
        file.truncate(end - 12)
    assert torch.equal(value.narrow(0, 1, 2).load(), tensor[1:3])
    with pytest.raises(ContainerError):
        value.load()
    assert root["t"].value.read is None
