"""Documents in files: JSON, YAML and TOML say the same, and nothing that JSON could not."""

import time

import pytest

from qconfig.codec import strict_json
from qconfig.codec.documents import (
    load_document,
    parse_config_document,
    parse_document,
)
from qconfig.errors import (
    DocumentSyntaxError,
)
from qconfig.limits import use_limits
from tests.codec.document_samples import CONFIG, JSON

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
    too_large = pytest.raises(DocumentSyntaxError, match="the document is too large")
    with use_limits(document_bytes=10), too_large:
        parse_document("a" * 11, name)
