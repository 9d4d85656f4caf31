"""Documents in files: duplicate keys, odd files, replacing a text at once."""

import os
import threading

import pytest

from qconfig.codec import strict_json
from qconfig.codec.documents import (
    load_document,
    parse_config_document,
    parse_document,
    replace_text,
)
from qconfig.errors import (
    ContainerError,
    DocumentSyntaxError,
    FieldError,
    StorageError,
    UsageError,
)
from tests.codec.document_samples import CONFIG, JSON


def test_duplicate_key_in_json(tmp_path):
    """A duplicate key of a config file is refused with both places (hostile input 10)."""
    path = tmp_path / "c.json"
    path.write_text('{"type": "FqnToConfig",\n "default": "a",\n "default": "b"}', "utf-8")
    with pytest.raises(DocumentSyntaxError) as caught:
        load_document(path)
    assert "line 3, column 2; it is first at line 2, column 2" in caught.value.message
    assert caught.value.file == str(path)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_json_has_no_nan(tmp_path, word):
    """Literals that Python's parser takes for numbers are refused (hostile input 34)."""
    path = tmp_path / "c.json"
    path.write_text(f'{{"group_size": {word}}}', "utf-8")
    with pytest.raises(DocumentSyntaxError, match=f"{word} is not JSON"):
        load_document(path)


@pytest.mark.parametrize("name", ["c.txt", "c", "c.json5", ".yaml"])
def test_unknown_suffix(tmp_path, name):
    """The suffix says how to read a file; another one is the caller's mistake."""
    (tmp_path / name).write_text("{}", "utf-8")
    with pytest.raises(UsageError) as caught:
        load_document(tmp_path / name)
    assert caught.value.expected == "a file name that ends in .json, .yaml, .yml, .toml"


def test_unknown_format():
    """A format that nobody reads is the caller's mistake."""
    with pytest.raises(UsageError, match="unknown format"):
        parse_document("", "ini")


def test_missing_file(tmp_path):
    """A file that is not there is a storage error with its path."""
    with pytest.raises(StorageError, match="No such file"):
        load_document(tmp_path / "c.json")


def test_fifo_does_not_block(tmp_path):
    """A FIFO is refused at once instead of being waited for."""
    os.mkfifo(tmp_path / "c.yaml")
    with pytest.raises(ContainerError, match="not a regular file"):
        load_document(tmp_path / "c.yaml")


def test_schema_key_is_no_part_of_the_config():
    """`$schema` at the top is for editors."""
    document = {"$schema": "qconfig.json"} | strict_json.loads(JSON)
    assert parse_config_document(document) == CONFIG
    assert "$schema" in document


def test_schema_key_is_an_address():
    """A `$schema` that is no string is refused."""
    with pytest.raises(FieldError) as caught:
        parse_config_document({"$schema": 3, "type": "FqnToConfig", "version": 2})
    assert str(caught.value) == (
        "/$schema: wrong type\n  found: 3\n  expected: the address of a schema"
    )


@pytest.mark.parametrize(
    "group_size", [-32, 0, 10**30, 3.5, "4", True, None, [4], {"value": 4}], ids=str
)
def test_hostile_group_size(group_size):
    """A group size that is no sensible integer is refused with its pointer (31 and 32)."""
    document = strict_json.loads(JSON)
    document["configs"]["w8"]["granularity"]["group_size"] = group_size
    with pytest.raises(FieldError) as caught:
        parse_config_document(document)
    assert caught.value.pointer == "/configs/w8/granularity/group_size"
    assert caught.value.exit_code == 3


def test_text_is_replaced_at_once(tmp_path):
    """A reader sees the old or the new text, however often it looks."""
    path = tmp_path / "c.json"
    texts = {"a" * 100_000, "b" * 100_000}
    replace_text(path, "a" * 100_000)
    done = threading.Event()

    def write():
        for _ in range(20):
            for text in texts:
                replace_text(path, text)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        assert path.read_text("utf-8") in texts
    writer.join()
    assert [p.name for p in tmp_path.iterdir()] == ["c.json"]


def test_link_stays_a_link(tmp_path):
    """Writing through a symbolic link replaces its target."""
    (tmp_path / "real.json").write_text("old", "utf-8")
    (tmp_path / "link.json").symlink_to("real.json")
    replace_text(tmp_path / "link.json", "new")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "real.json").read_text("utf-8") == "new"


def test_mode_is_kept(tmp_path):
    """A file keeps its permissions, and a new one gets those of the umask."""
    path = tmp_path / "c.json"
    replace_text(path, "new")
    plain = tmp_path / "plain"
    plain.write_text("", "utf-8")
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    replace_text(path, "newer")
    assert path.stat().st_mode & 0o777 == 0o640


def test_folder_that_is_not_there(tmp_path):
    """A file in a folder that does not exist is a storage error."""
    with pytest.raises(StorageError, match="cannot write"):
        replace_text(tmp_path / "no" / "c.json", "x")
