"""The public functions, where Python code hands them what no file could hold."""

import pytest

import qconfig
from qconfig import PerRow
from qconfig.errors import DocumentSyntaxError, NewerVersionError, UsageError


@pytest.mark.parametrize("value", [5, None, {"type": "FqnToConfig"}, PerRow(), "row"])
@pytest.mark.parametrize("dialect", ["qconfig", "torchao"])
def test_only_configs_are_written(value, dialect):
    """What is no config does not become a document by accident."""
    with pytest.raises(UsageError, match="not a config"):
        qconfig.config_to_dict(value, dialect=dialect)


def test_nothing_is_dumped_but_configs(tmp_path):
    """A file that could not be read again is not written."""
    target = tmp_path / "config.json"
    with pytest.raises(UsageError, match="not a config"):
        qconfig.dump_config({"a": 1}, target)
    assert not target.exists()


def nested(levels):
    """Return a document inside a document, many times."""
    document = inner = {"type": "FqnToConfig", "version": 2}
    for _ in range(levels):
        inner["configs"] = {"a": {"type": "FqnToConfig", "version": 2}}
        inner = inner["configs"]["a"]
    return document


def nested_envelope(levels):
    """Return the same in torchao's form."""
    document = inner = {"_type": "FqnToConfig", "_version": 1, "_data": {}}
    for _ in range(levels):
        child = {"_type": "FqnToConfig", "_version": 1, "_data": {}}
        inner["_data"]["fqn_to_config"] = {"a": child}
        inner = child
    return document


def endless():
    """Return a document that contains itself."""
    document = {"type": "FqnToConfig", "version": 2}
    document["configs"] = {"a": document}
    return document


@pytest.mark.parametrize("document", [nested(20_000), nested_envelope(20_000), endless()], ids=len)
def test_deep_documents(document):
    """Nesting beyond Python's stack is a problem of the document, not of the process."""
    with pytest.raises(DocumentSyntaxError, match="nested too deeply"):
        qconfig.config_from_dict(document)


@pytest.mark.parametrize(
    "document",
    [
        {"type": "FqnToConfig", "version": 10**5000},
        {"_type": "FqnToConfig", "_version": 10**5000, "_data": {}},
    ],
)
def test_long_version(document):
    """A version of 5000 digits is newer than this release, and said to be long."""
    with pytest.raises(NewerVersionError, match="an int too long to print is newer"):
        qconfig.config_from_dict(document)
