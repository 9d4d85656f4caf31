"""Documents in files: JSON, YAML and TOML say the same, and nothing that JSON could not."""

import os
import threading
import time

import pytest

from qconfig.codec import strict_json
from qconfig.codec.documents import (
    load_document,
    parse_config_document,
    parse_document,
    replace_text,
)
from qconfig.codec.limits import Limits
from qconfig.configs import FqnToConfig, Int8WeightOnlyConfig, PerGroup, Rule
from qconfig.errors import (
    ContainerError,
    DocumentSyntaxError,
    FieldError,
    StorageError,
    UsageError,
)

JSON = """{"type": "FqnToConfig", "version": 2,
 "configs": {"w8": {"type": "Int8WeightOnlyConfig", "version": 3,
                    "granularity": {"type": "PerGroup", "group_size": 32}}},
 "rules": [{"match": "*.mlp.*", "use": "w8", "optional": true}],
 "default": "w8"}
"""
YAML = """# a comment
type: FqnToConfig
version: 2
configs:
  w8: {type: Int8WeightOnlyConfig, version: 3, granularity: {type: PerGroup, group_size: 32}}
rules:
  - match: '*.mlp.*'
    use: w8
    optional: true
default: w8
"""
TOML = """type = "FqnToConfig"
version = 2
default = "w8"
[configs.w8]
type = "Int8WeightOnlyConfig"
version = 3
granularity = {type = "PerGroup", group_size = 32}
[[rules]]
match = "*.mlp.*"
use = "w8"
optional = true
"""
CONFIG = FqnToConfig(
    configs={"w8": Int8WeightOnlyConfig(PerGroup(32))},
    rules=(Rule("*.mlp.*", "w8", optional=True),),
    default="w8",
)


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.json", JSON), ("a.yaml", YAML), ("a.yml", YAML), ("A.YAML", YAML), ("a.toml", TOML)],
)
def test_formats_say_the_same(tmp_path, name, text):
    """One config in each format is one object."""
    (tmp_path / name).write_text(text, "utf-8")
    document = load_document(tmp_path / name)
    assert document == strict_json.loads(JSON)
    assert parse_config_document(document) == CONFIG


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1", {"a": 1}),
        ("a: -17", {"a": -17}),
        ("a: 1.5e-3", {"a": 0.0015}),
        ("a: 1e5", {"a": 1e5}),
        ("a: true", {"a": True}),
        ("a: null", {"a": None}),
        ("a: ~", {"a": None}),
        ("a:", {"a": None}),
        ("a: 'on'", {"a": "on"}),
        ('a: "12:30"', {"a": "12:30"}),
        ("a: 1.0.0", {"a": "1.0.0"}),
        (r"a: re:model\.layers\.\d+", {"a": r"re:model\.layers\.\d+"}),
        ("a: |\n  two\n  lines\n", {"a": "two\nlines\n"}),
        ("- 1\n- [x, {y: z}]\n", [1, ["x", {"y": "z"}]]),
        ("'on': 1", {"on": 1}),
        ("--- \na: é\n...\n", {"a": "é"}),
        ('{"a": [1, null], "b": "\\u00e9"}', {"a": [1, None], "b": "é"}),
    ],
)
def test_yaml_value(text, expected):
    """YAML means what JSON would; quotes make text."""
    found = parse_document(text, "yaml")
    assert strict_json.dumps(found) == strict_json.dumps(expected)


@pytest.mark.parametrize(
    "scalar",
    [
        *("on", "off", "yes", "No", "YES", "True", "NULL"),
        *("0o17", "017", "0x1F", "0b11", "1_000", "+1", "1.", ".5", "12:30:45", "190:20:30"),
        *("2024-01-01", "2024-01-01T10:00:00Z", ".nan", ".inf", "-.INF", "<<", "="),
    ],
)
def test_yaml_scalar_with_two_meanings(scalar):
    """A scalar that YAML readers disagree about is refused, with place and cure."""
    with pytest.raises(DocumentSyntaxError) as caught:
        parse_document(f"a:\n  - x\n  - {scalar}\n", "yaml", file="c.yaml")
    assert str(caught.value) == (
        f"c.yaml: /a/1: {scalar} is not text to every YAML reader, at line 3, column 5\n"
        "  expected: null, true, false, a decimal number as in JSON, or text\n"
        "  hint: put it in quotes if it is text; write true or false for a switch"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a: 1\nb: 2\na: 3\n",
            (
                "duplicate key 'a', which is first on line 1, at line 3, column 1\n"
                "  expected: each key once"
            ),
        ),
        (
            "x:\n  a: 1\n  'a': 3\n",
            (
                "/x: duplicate key 'a', which is first on line 2, at line 3, column 3\n"
                "  expected: each key once"
            ),
        ),
        (
            "a: &x [1]\nb: *x\n",
            (
                "/a: an anchor or alias, at line 1, column 4\n  expected: every value written out\n"
                "  hint: name a config once under configs, and use its name in rules"
            ),
        ),
        (
            "a: !!python/object/apply:os.system ['true']\n",
            (
                "/a: the tag tag:yaml.org,2002:python/object/apply:os.system, at line 1, column 4\n"
                "  expected: no tags"
            ),
        ),
        (
            "a: !!int '3'\n",
            ("/a: the tag tag:yaml.org,2002:int, at line 1, column 4\n  expected: no tags"),
        ),
        (
            "1: a\n",
            ("the key 1, at line 1, column 1\n  expected: a string\n  hint: put it in quotes"),
        ),
        (
            "? [a]\n: 1\n",
            ("an array or object as a key, at line 1, column 3\n  expected: a string"),
        ),
        (
            "a: 1\n---\nb: 1\n",
            ("a second document, at line 2, column 1\n  expected: one document a file"),
        ),
        ("", "the document is empty"),
        ("# nothing\n", "the document is empty"),
        (
            "a: " + "9" * 41,
            (
                "/a: an integer of 41 digits, at line 1, column 4\n"
                "  expected: digits: at most 40 (Limits.number_digits)"
            ),
        ),
        (
            "a: 1e999",
            ("/a: a number beyond float64, at line 1, column 4\n  expected: a finite number"),
        ),
        (
            "match: *.lm_head\n",
            (
                "not YAML at line 1, column 9: did not find expected alphabetic or numeric "
                "character\n"
                "  hint: check the indentation; put text that starts with *, &, !, % or @ in quotes"
            ),
        ),
    ],
    ids=lambda v: v[:20],
)
def test_yaml_error_text(text, message):
    """Each thing that YAML could say and JSON could not is refused with its line."""
    with pytest.raises(DocumentSyntaxError) as caught:
        parse_document(text, "yaml")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "text",
    ["a: [1,\n", "a: b: c\n", "\ta: 1\n", "a: 'x\n", "a: \x00\n", '"\\ud800"', "- a\nb: 1\n"],
)
def test_yaml_syntax_error(text):
    """What is no YAML is an error of ours."""
    with pytest.raises(DocumentSyntaxError, match=r"not YAML|surrogate"):
        parse_document(text, "yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = nan\n", "/a: not a finite number\n  found: nan\n  expected: a finite number"),
        (
            "[a]\nb = [1, -inf]\n",
            ("/a/b/1: not a finite number\n  found: -inf\n  expected: a finite number"),
        ),
        (
            "a = 2024-01-01\n",
            (
                "/a: dates and times have no place in a document\n  found: '2024-01-01'\n"
                "  hint: put it in quotes if it is text"
            ),
        ),
        (
            "a = 12:30:00\n",
            (
                "/a: dates and times have no place in a document\n"
                "  found: '12:30:00'\n  hint: put it in quotes if it is text"
            ),
        ),
        (
            "a = " + "9" * 41,
            ("/a: an integer is too long\n  expected: digits: at most 40 (Limits.number_digits)"),
        ),
        ("a = 1\na = 2\n", "not TOML: Cannot overwrite a value (at line 2, column 6)"),
        ("a =\n", "not TOML: Invalid value (at line 1, column 4)"),
    ],
    ids=lambda v: v[:20],
)
def test_toml_error_text(text, message):
    """What TOML could say and JSON could not is refused with its place."""
    with pytest.raises(DocumentSyntaxError) as caught:
        parse_document(text, "toml")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("json", '{"a":' * 100_000),
        ("yaml", "[" * 100_000),
        ("yaml", "{a: " * 100_000),
        ("yaml", "".join("  " * i + "a:\n" for i in range(100))),
        ("yaml", "- " * 1_000 + "a"),
        ("toml", "a = " + "[" * 100_000),
        ("toml", ".".join("a" * 1_000) + " = 1"),
        ("toml", "a = " + "{a = " * 500 + "1" + "}" * 500),
    ],
    ids=lambda v: v[:12],
)
def test_nesting_is_bounded(name, text):
    """A hundred thousand levels end in an error of ours, not of Python's stack."""
    start = time.process_time()
    with pytest.raises(DocumentSyntaxError, match=r"nested too deeply|nesting depth|not TOML"):
        parse_document(text, name)
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("name", "text"),
    [("json", '{"a": %s}'), ("yaml", "a: %s"), ("toml", "a = %s")],
)
def test_long_integer(name, text):
    """An integer with 5,000 digits is refused before Python tries to convert it."""
    with pytest.raises(DocumentSyntaxError):
        parse_document(text % ("9" * 5_000), name)


@pytest.mark.parametrize("name", ["json", "yaml", "toml"])
@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"\xff\xfe", "not UTF-8 at line 1"),
        (b"\xef\xbb\xbf1", "a byte order mark at line 1, column 1"),
    ],
)
def test_encoding(name, raw, message):
    """A document is UTF-8 without a byte order mark, in every format."""
    with pytest.raises(DocumentSyntaxError) as caught:
        parse_document(raw, name, file="x")
    assert caught.value.message.startswith(message)
    assert caught.value.file == "x"


@pytest.mark.parametrize("name", ["json", "yaml", "toml"])
def test_size_is_bounded(name):
    """A document larger than the limit is not parsed."""
    with pytest.raises(DocumentSyntaxError, match="the document is too large"):
        parse_document("a" * 11, name, limits=Limits(document_bytes=10))


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
