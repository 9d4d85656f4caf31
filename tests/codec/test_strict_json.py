"""Strict JSON: what it refuses, where it says the fault lies, and that it reads all the rest."""

import json
import math
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from qconfig.codec.strict_json import dumps, dumps_compact, loads
from qconfig.errors import DocumentSyntaxError, FieldError
from qconfig.limits import DEFAULT_LIMITS

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_NUMBERS = st.integers(-(10**39), 10**39) | st.floats(allow_nan=False, allow_infinity=False)
_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=20,
)


def _refusal(text: bytes | str, **limits: int) -> DocumentSyntaxError:
    with pytest.raises(DocumentSyntaxError) as caught:
        loads(text, file="c.json", limits=evolve(DEFAULT_LIMITS, **limits))
    return caught.value


@given(_VALUES)
def test_what_is_dumped_is_loaded_as_it_was(value: Any) -> None:
    """Every JSON value survives both forms of text, as str and as bytes."""
    for text in (dumps(value), dumps_compact(value)):
        assert loads(text) == value
        assert loads(text.encode()) == value


@given(st.text(alphabet='[]{}":,\\0e-9 nul', max_size=24))
def test_no_text_is_read_otherwise_than_by_json(text: str) -> None:
    """A text is refused with a typed error, or means what the standard library says."""
    try:
        value = loads(text)
    except DocumentSyntaxError:
        return
    assert value == json.loads(text)


def test_canonical_text_has_two_spaces_and_a_last_newline() -> None:
    """The canonical form is fixed to the byte."""
    assert dumps({"b": [1, "é"], "a": {}}) == '{\n  "b": [\n    1,\n    "é"\n  ],\n  "a": {}\n}\n'


def test_compact_text_has_no_spaces() -> None:
    """The compact form is fixed to the byte."""
    assert dumps_compact({"b": [1, "é"]}) == '{"b":[1,"é"]}'


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_are_not_written(number: float) -> None:
    """Item 34, the other way: NaN and Infinity are refused on writing."""
    with pytest.raises(FieldError, match="a value that JSON cannot hold"):
        dumps([number])


def test_half_a_surrogate_is_not_written() -> None:
    """A str that UTF-8 cannot hold is refused on writing."""
    with pytest.raises(FieldError, match="a string that UTF-8 cannot hold"):
        dumps_compact("\ud800")


def test_a_duplicate_key_is_refused_with_both_places() -> None:
    """Item 10: the error gives the pointer and the lines of both keys."""
    text = '{\n  "rules": [\n    1,\n    {"use": 1,\n     "use": 2}\n  ]\n}'
    assert str(_refusal(text)) == (
        "c.json: /rules/1/use: duplicate key 'use' at line 5, column 6; "
        "it is first at line 4, column 6\n"
        "  expected: every key of an object once\n"
        "  hint: delete one of the two: other readers silently keep only the last"
    )


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ('{"a": 1, "\\u0061": 2}', "/a"),
        ('{"a/b~": 1, "a/b~": 2}', "/a~1b~0"),
        ('{"": {"": 1, "": 2}}', "//"),
        ('[[], {"a": [0, {"k": {}, "k": []}]}]', "/1/a/1/k"),
        ('{"x": {"a": 1}, "y": {"a": 1, "a": 1}}', "/y/a"),
    ],
)
def test_a_duplicate_key_is_found_wherever_it_is(text: str, pointer: str) -> None:
    """Item 10: escapes, empty keys and nesting do not hide a duplicate, nor shift its pointer."""
    assert _refusal(text).pointer == pointer


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity"])
def test_nan_and_infinity_are_refused(literal: str) -> None:
    """Item 34: literals that only Python accepts are refused with their place."""
    error = _refusal(f'{{"a": [1,\n {literal}]}}')
    assert error.message == f"{literal} is not JSON, at line 2, column 2"
    assert error.pointer == "/a/1"


@pytest.mark.parametrize("literal", ["1e999", "-1e400", "9" * 400 + ".5"])
def test_numbers_beyond_float64_are_refused(literal: str) -> None:
    """Item 34: Python would read these as infinity."""
    error = _refusal(f"[{literal}]")
    assert error.message == "a number beyond float64 at line 1, column 2"
    assert error.pointer == "/0"


@pytest.mark.parametrize("digits", [41, 400, 5000])
@pytest.mark.parametrize("sign", ["", "-"])
def test_integers_without_end_are_refused(digits: int, sign: str) -> None:
    """Item 32: the digits are counted before Python converts them, and the limit is named."""
    error = _refusal(f'{{"bits": {sign}{"7" * digits}}}')
    assert error.message == f"an integer of {digits} digits at line 1, column 10"
    assert error.expected == "digits: at most 40 (Limits.number_digits)"
    assert error.pointer == "/bits"


def test_forty_digits_and_long_fractions_are_read() -> None:
    """The limit on digits is for integers and inclusive; digits inside a string do not count."""
    text = f'[{"9" * 40}, 0.{"1" * 60}, "{"9" * 100}"]'
    assert loads(text) == json.loads(text)


@pytest.mark.parametrize("depth", [65, 100_000, 3_000_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_deep_nesting_is_refused(depth: int, opening: str, closing: str) -> None:
    """Item 33: no depth reaches the recursive parser, closed or not."""
    for text in (opening * depth, opening * depth + "1" + closing * depth):
        error = _refusal(text)
        assert error.message.startswith("nested too deeply at line 1, column ")
        assert error.expected == "at most 64 (Limits.json_depth)"


@pytest.mark.parametrize(
    "value", ["[" * 100, '"[' * 100, '\\"[' * 100, "\\[" * 100, "[" * 100 + "\\", ["[", "{", "]"]]
)
def test_brackets_in_strings_do_not_count_as_nesting(value: Any) -> None:
    """The scan for depth knows strings and escapes."""
    deepest: Any = value
    for _ in range(62):
        deepest = [deepest, value]
    assert loads(json.dumps(deepest)) == deepest


def test_the_deepest_allowed_nesting_is_read() -> None:
    """The limit on depth is inclusive."""
    text = "[" * 64 + "]" * 64
    assert loads(text) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'\xef\xbb\xbf{"a": 1}', "a byte order mark at line 1, column 1"),
        ("\ufeff[]", "a byte order mark at line 1, column 1"),
        (b'{\n"\xc3\xa9": "\xff"}', "not UTF-8 at line 2, column 7"),
        ('["\ud800"]', "half of a surrogate pair at line 1, column 3"),
        ('{"a":\n"\\ud800"}', "half of a surrogate pair at line 2, column 1"),
        ('{"\\udc00": 1}', "half of a surrogate pair at line 1, column 2"),
        ("[1,]", "not JSON at line 1, column 3: a comma without a value after it"),
        ('{"a": 1 ,\n}', "not JSON at line 1, column 9: a comma without a value after it"),
        ("[1] x", "not JSON at line 1, column 5: Extra data"),
        ("", "not JSON at line 1, column 1: Expecting value"),
        ('"a\nb"', "not JSON at line 1, column 3: Invalid control character at"),
        ("}" * 100 + "[" * 100, "not JSON at line 1, column 1: Expecting value"),
    ],
)
def test_other_faults_name_line_and_column(text: bytes | str, message: str) -> None:
    """Encoding and syntax errors give the place in characters, counted from 1."""
    error = _refusal(text)
    assert (error.message, error.file) == (message, "c.json")
    assert error.hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('{"a": 1,}', "delete the comma before the closing bracket"),
        ("{'a': 1}", "JSON has double quotes only, and no comments"),
        ("[1, // one\n2]", "JSON has double quotes only, and no comments"),
        ('{"a": [1', "the text ends too early"),
        ("[1 2]", "check brackets, quotes and commas"),
    ],
)
def test_common_slips_get_their_own_hint(text: str, hint: str) -> None:
    """What people write by hand is answered with what to change."""
    assert _refusal(text).hint == hint


def test_whole_surrogate_pairs_are_read() -> None:
    """An escaped pair is one character."""
    assert loads('"\\ud83d\\ude00"') == "😀"


@pytest.mark.parametrize("text", [b'["aaaaaa"]', '["aaaaaa"]', '["ééé"]'])
def test_the_size_is_bounded_in_bytes(text: bytes | str) -> None:
    """A document beyond the limit is refused before it is parsed, and the limit is named."""
    error = _refusal(text, document_bytes=9)
    assert error.message == "the document is too large"
    assert error.found == "'10 bytes'"
    assert error.expected == "bytes: at most 9 (Limits.document_bytes)"
