"""The shard index: which names it may hold and where its shards may lie."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from qconfig.codec.index_file import (
    ShardIndex,
    check_link,
    check_shard_twins,
    index_document,
    read_index,
    shard_path,
)
from qconfig.codec.strict_json import dumps
from qconfig.errors import ContainerError, DocumentSyntaxError, StorageError
from qconfig.limits import use_limits

_SHARD = "model-00001-of-00002.safetensors"


def _index_file(directory: Path, document: Any) -> Path:
    path = directory / "model.safetensors.index.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def _refusal(directory: Path, document: Any, **limits: int) -> ContainerError:
    path = _index_file(directory, document)
    with use_limits(**limits), pytest.raises(ContainerError) as caught:
        read_index(path)
    assert caught.value.file == str(path)
    return caught.value


def test_an_index_is_read(tmp_path: Path) -> None:
    """Metadata, map and what only other programs know are kept apart."""
    document = {"metadata": {"total_size": 8}, "weight_map": {"a": _SHARD}, "format": "x"}
    assert read_index(_index_file(tmp_path, document)) == ShardIndex(
        metadata={"total_size": 8}, weight_map={"a": _SHARD}, extra={"format": "x"}
    )


@pytest.mark.parametrize("name", ["", "weight", "a/b", "../../etc/passwd"])
def test_unusual_tensor_names_are_read(tmp_path: Path, name: str) -> None:
    """Items 22 and 24: a tensor's name is never a path."""
    index = read_index(_index_file(tmp_path, {"weight_map": {name: _SHARD}}))
    assert index.weight_map == {name: _SHARD}


def test_an_index_document_comes_back(tmp_path: Path) -> None:
    """What index_document makes is sorted, and read_index reads it."""
    document = index_document({"b": _SHARD, "a": "model-2.safetensors"}, 12)
    assert list(document["weight_map"]) == ["a", "b"]
    index = read_index(_index_file(tmp_path, dumps(document)))
    assert index == ShardIndex({"total_size": 12}, document["weight_map"])


def test_an_index_document_has_plain_names_only() -> None:
    """What would be refused is not written."""
    with pytest.raises(ContainerError, match="a shard's name has '/'"):
        index_document({"a": "../m.safetensors"}, 1)


def test_a_duplicate_tensor_is_refused(tmp_path: Path) -> None:
    """Item 10: Python's parser would keep the last shard; both lines are given."""
    text = f'{{"weight_map": {{\n"a": "{_SHARD}",\n"a": "other.safetensors"}}}}'
    with pytest.raises(DocumentSyntaxError) as caught:
        read_index(_index_file(tmp_path, text))
    assert caught.value.pointer == "/weight_map/a"
    assert caught.value.message == (
        "duplicate key 'a' at line 3, column 1; it is first at line 2, column 1"
    )


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        pytest.param("../x.safetensors", "has '/', which ends a directory", id="item-15"),
        pytest.param("sub/x.safetensors", "has '/', which ends a directory", id="subfolder"),
        pytest.param("/etc/x.safetensors", "has '/', which ends a directory", id="item-16"),
        pytest.param("x\0.safetensors", "has characters that cannot be seen", id="item-17-nul"),
        pytest.param("x\u202e.safetensors", "has characters that cannot be seen", id="bidi"),
        pytest.param(
            "..\\x.safetensors", "has '\\\\', which ends a directory", id="item-17-backslash"
        ),
        pytest.param("C:x.safetensors", "has ':', which ends a drive", id="item-17-drive"),
        pytest.param("x.safetensors.", "ends in a dot or a space", id="item-17-dot"),
        pytest.param("x.safetensors ", "ends in a dot or a space", id="item-17-space"),
        pytest.param("..", "ends in a dot or a space", id="parent"),
        pytest.param(
            "é" * 122 + ".safetensors", "is too long: 256 bytes of at most 255", id="item-17-300"
        ),
        pytest.param("model.bin", "does not end in .safetensors", id="suffix"),
        pytest.param("", "does not end in .safetensors", id="empty"),
        pytest.param(3, "is no string", id="number"),
        pytest.param(None, "is no string", id="null"),
        pytest.param([], "is no string", id="list"),
    ],
)
def test_a_shard_name_that_is_no_plain_file_name_is_refused(
    tmp_path: Path, name: Any, problem: str
) -> None:
    """Items 15 to 17: the error gives tensor and pointer."""
    error = _refusal(tmp_path, {"weight_map": {"b": _SHARD, "a/w": name}})
    assert error.message.startswith(f"a shard's name {problem}")
    assert (error.fqn, error.pointer) == ("a/w", "/weight_map/a~1w")


def test_the_longest_shard_name_is_read(tmp_path: Path) -> None:
    """The limit is that of file systems, and inclusive."""
    name = "x" * 243 + ".safetensors"
    assert read_index(_index_file(tmp_path, {"weight_map": {"a": name}})).weight_map["a"] == name


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "the index is not an object"),
        ({}, "weight_map is not an object"),
        ({"weight_map": None}, "weight_map is not an object"),
        ({"weight_map": {}, "metadata": None}, "metadata is not an object"),
        ({"weight_map": {"a\x1b": _SHARD}}, "a tensor name has control or invisible characters"),
        (
            {"weight_map": {"\u00e9": _SHARD, "e\u0301": _SHARD}},
            r"the tensor names '\xe9' and 'e\u0301' differ only in their Unicode normal form",
        ),
    ],
)
def test_a_wrong_index_is_refused(tmp_path: Path, document: Any, message: str) -> None:
    """Types are strict, and tensor names obey the rules of headers (items 23 and 25)."""
    assert _refusal(tmp_path, document).message == message


def test_the_number_of_tensors_is_bounded(tmp_path: Path) -> None:
    """The limit is named."""
    error = _refusal(tmp_path, {"weight_map": {"a": _SHARD, "b": _SHARD}}, tensors=1)
    assert error.expected == "tensors: at most 1 (Limits.tensors)"


def test_the_length_of_shard_names_is_bounded(tmp_path: Path) -> None:
    """The limit that holds is asked for names too."""
    error = _refusal(tmp_path, {"weight_map": {"a": _SHARD}}, file_name_bytes=20)
    assert "Limits.file_name_bytes" in error.message


def test_the_size_of_the_file_is_bounded(tmp_path: Path) -> None:
    """A huge file is refused before it is read."""
    error = _refusal(tmp_path, {"weight_map": {}}, document_bytes=10)
    assert error.message == "the file is too large for a document"


def test_an_index_that_is_a_fifo_is_refused(tmp_path: Path) -> None:
    """Item 19 holds for the index too."""
    os.mkfifo(tmp_path / "index")
    with pytest.raises(ContainerError, match="not a regular file"):
        read_index(tmp_path / "index")


def test_a_missing_index_is_a_storage_error(tmp_path: Path) -> None:
    """A file that is not there has exit code 5."""
    with pytest.raises(StorageError, match="cannot open: No such file or directory"):
        read_index(tmp_path / "index")


# Where shards lie


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model directory beside a file that it has no business with."""
    (tmp_path / "evil.safetensors").write_bytes(b"x")
    directory = tmp_path / "model"
    directory.mkdir()
    return directory


def test_a_plain_shard_is_found(model: Path) -> None:
    """A regular file in the directory is what a shard should be."""
    (model / _SHARD).write_bytes(b"x")
    assert shard_path(model, _SHARD) == model / _SHARD


def test_a_shard_name_is_checked_again(model: Path) -> None:
    """Item 15: shard_path does not trust that somebody read the name with read_index."""
    with pytest.raises(ContainerError, match="a shard's name has '/'"):
        shard_path(model, "../evil.safetensors")


def test_a_missing_shard_is_refused(model: Path) -> None:
    """Item 13: a shard that the index promises is the checkpoint's fault, with exit code 3."""
    with pytest.raises(ContainerError, match="a shard is missing") as caught:
        shard_path(model, _SHARD)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("is_relative", [True, False])
def test_a_link_that_leaves_the_directory_is_refused(model: Path, *, is_relative: bool) -> None:
    """Item 18: the error gives the target, and the flag that would allow it."""
    target = model.parent / "evil.safetensors"
    (model / _SHARD).symlink_to("../evil.safetensors" if is_relative else target)
    with pytest.raises(ContainerError, match="leaves its directory") as caught:
        shard_path(model, _SHARD)
    assert caught.value.found == repr(str(target))
    assert "--follow-symlinks" in (caught.value.hint or "")


def test_a_link_that_leaves_the_directory_can_be_allowed(model: Path) -> None:
    """Item 18: people who make such links say so."""
    (model / _SHARD).symlink_to("../evil.safetensors")
    assert shard_path(model, _SHARD, follow_symlinks=True) == model / _SHARD


def test_a_chain_of_links_is_judged_by_its_end(model: Path) -> None:
    """Item 18: a link inside the directory to a link out of it leaves the directory."""
    (model / "hop").symlink_to("../evil.safetensors")
    (model / _SHARD).symlink_to("hop")
    with pytest.raises(ContainerError, match="leaves its directory"):
        shard_path(model, _SHARD)


def test_a_link_inside_the_directory_is_followed(model: Path) -> None:
    """A link that stays where it is harms nobody; the directory itself may be a link too."""
    (model / "blob").write_bytes(b"x")
    (model / _SHARD).symlink_to("blob")
    (model.parent / "alias").symlink_to("model")
    assert shard_path(model, _SHARD) == model / _SHARD
    assert shard_path(model.parent / "alias", _SHARD) == model.parent / "alias" / _SHARD


def _snapshot(root: Path, entry: str) -> Path:
    snapshot = root / entry / "snapshots" / "rev"
    snapshot.mkdir(parents=True)
    (root / entry / "blobs").mkdir()
    (root / entry / "blobs" / "hash").write_bytes(b"x")
    return snapshot


def test_a_link_into_the_same_cache_entry_is_followed(tmp_path: Path) -> None:
    """Item 18: this is how the Hugging Face cache lays out a download."""
    snapshot = _snapshot(tmp_path, "models--org--name")
    (snapshot / _SHARD).symlink_to("../../blobs/hash")
    assert shard_path(snapshot, _SHARD) == snapshot / _SHARD


@pytest.mark.parametrize("target", ["../../../models--b/blobs/hash", "../../refs", "../other/x"])
def test_a_link_elsewhere_in_the_cache_is_refused(tmp_path: Path, target: str) -> None:
    """Item 18: only the blobs of the same entry are allowed."""
    snapshot = _snapshot(tmp_path, "models--a")
    _snapshot(tmp_path, "models--b")
    (tmp_path / "models--a" / "refs").write_bytes(b"x")
    other = tmp_path / "models--a" / "snapshots" / "other"
    other.mkdir()
    (other / "x").write_bytes(b"x")
    (snapshot / _SHARD).symlink_to(target)
    with pytest.raises(ContainerError, match="leaves its directory"):
        shard_path(snapshot, _SHARD)


def test_blobs_beside_no_cache_entry_are_refused(tmp_path: Path) -> None:
    """Item 18: the layout counts only under a directory whose name starts with models--."""
    snapshot = _snapshot(tmp_path, "not-a-cache")
    (snapshot / _SHARD).symlink_to("../../blobs/hash")
    with pytest.raises(ContainerError, match="leaves its directory"):
        shard_path(snapshot, _SHARD)


@pytest.mark.parametrize("target", ["gone", _SHARD])
@pytest.mark.parametrize("follow", [True, False])
def test_a_link_that_leads_nowhere_is_refused(model: Path, target: str, *, follow: bool) -> None:
    """Item 20: dangling links and loops are the checkpoint's fault, whatever is allowed."""
    (model / _SHARD).symlink_to(target)
    with pytest.raises(ContainerError, match="leads nowhere") as caught:
        shard_path(model, _SHARD, follow_symlinks=follow)
    assert caught.value.found == repr(target)


@pytest.mark.parametrize(
    ("make", "kind"), [(os.mkfifo, "a FIFO"), (os.mkdir, "a directory")], ids=["fifo", "directory"]
)
@pytest.mark.parametrize("is_linked", [False, True])
def test_a_shard_that_is_no_regular_file_is_refused(
    model: Path, make: Any, kind: str, *, is_linked: bool
) -> None:
    """Item 19: nothing is opened, so nothing blocks; a link does not hide the kind."""
    make(model / ("hop" if is_linked else _SHARD))
    if is_linked:
        (model / _SHARD).symlink_to("hop")
    with pytest.raises(ContainerError, match="a shard is not a regular file") as caught:
        shard_path(model, _SHARD)
    assert caught.value.found == repr(kind)


def test_a_device_is_refused(model: Path) -> None:
    """Item 19: a link to a device is refused even where links are followed."""
    (model / _SHARD).symlink_to("/dev/zero")
    with pytest.raises(ContainerError, match="not a regular file") as caught:
        shard_path(model, _SHARD, follow_symlinks=True)
    assert caught.value.found == "'a character device'"


@pytest.mark.parametrize(
    ("one", "other"),
    [("a.x", "A.x"), ("\u00e9", "e\u0301"), ("\u00c9", "e\u0301"), ("ss", "\u00df")],
)
def test_names_that_are_one_on_some_system_are_refused(one: str, other: str) -> None:
    """Case and normal form do not tell two files apart everywhere."""
    check_shard_twins([one, f"{other}2"])
    with pytest.raises(ContainerError, match="one on some systems") as caught:
        check_shard_twins([one, other])
    assert caught.value.found == repr(f"{one!a} and {other!a}")


def test_a_link_of_another_file_is_judged_by_the_checkpoint(model: Path) -> None:
    """A file in a folder may be a link to one beside that folder, if the checkpoint is named."""
    (model / "folder").mkdir()
    (model / "file").write_bytes(b"x")
    link = model / "folder" / "link"
    link.symlink_to("../file")
    check_link(link, model)
    check_link(link, follow_symlinks=True)
    with pytest.raises(ContainerError, match="leaves its directory"):
        check_link(link)


def test_a_link_to_itself_is_left_to_whoever_opens_it(model: Path) -> None:
    """A loop leads nowhere, so not out of the directory either."""
    (model / "link").symlink_to("link")
    check_link(model / "link")
