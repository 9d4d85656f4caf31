"""Expressions of the plain kind are read as Python's parser reads them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qconfig.builders.base import Target
from qconfig.codec.dtypes import DType
from qconfig.configs import FqnToConfig, Int8WeightOnlyConfig, Precedence, Rule
from qconfig.rules import segment_index
from qconfig.rules.matcher import RuleSet
from qconfig.rules.plain_expressions import plain_parts, plain_prefix, plain_texts
from qconfig.rules.requirements import required_texts

_PLAIN = st.lists(
    st.sampled_from(["a", "b1", r"\.", "(a|b)", "(?:a|ab|b)", "[ab]", "-", r"\-", "_"]), max_size=4
).map("".join)
_ANY = st.lists(
    st.sampled_from(
        ["a", r"\.", "(a|b)", "[ab]", ".*", ".", r"\d+", "[^.]*", "[0-9]", "+", "?", "*", "^", "$"]
    ),
    max_size=6,
).map("".join)
_NAMES = st.text("ab1.-_\n", max_size=8)


@given(_PLAIN, _NAMES)
def test_texts_are_what_python_matches(pattern: str, name: str) -> None:
    """A name is among the texts of an expression where `re` matches it as a whole."""
    texts = plain_texts(pattern)
    assert texts is not None
    assert (name in texts) == (re.fullmatch(pattern, name) is not None)
    assert all(re.fullmatch(pattern, text) for text in texts)


@given(_ANY, _NAMES)
def test_what_is_required_is_in_every_match(pattern: str, name: str) -> None:
    """Parts of an expression are never read as more than Python's parser makes of them."""
    try:
        match = re.fullmatch(pattern, name)
    except re.error:
        return
    parts = plain_parts(pattern)
    if parts is None or match is None:
        return
    assert name.startswith(plain_prefix(pattern))
    segments = name.split(".")
    for requirement in required_texts(parts):
        assert any(
            all(any(piece.fits(s) for s in segments) for piece in pieces) for pieces in requirement
        )


@pytest.mark.parametrize(
    "pattern",
    [
        "a+",
        "ab?",
        "a{2}",
        "(a|b)+",
        "(a|)",
        "(?i)a",
        "(?=a)a",
        "[a-c]+",
        "[^a]",
        r"\bq",
        "a|b",
        "é",
    ],
)
def test_what_is_not_plain_is_left_to_the_parser(pattern: str) -> None:
    """A repeat, a flag, an assertion or a range is no plain part."""
    assert plain_parts(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        (r"model\.layers\.7\..*", "model.layers.7."),
        (r"model\.layers\.7", "model.layers."),
        (r"model\.(a|b)\.c", "model."),
        (r".*\.c", ""),
    ],
)
def test_the_start_of_names_is_told_in_whole_segments(pattern: str, prefix: str) -> None:
    """It ends with a dot, before the first part that may be several texts."""
    assert plain_prefix(pattern) == prefix


def test_more_alternatives_than_are_written_out_stay_a_pattern() -> None:
    """129 texts are too many; 128 are not."""
    wide = "(" + "|".join(f"x{i}" for i in range(129)) + ")"
    assert plain_texts(wide) is None
    assert len(plain_texts("[01]" * 7) or ()) == 128
    assert plain_texts("[01]" * 8) is None


@pytest.mark.parametrize("precedence", list(Precedence))
def test_written_out_patterns_keep_their_place_among_others(precedence: Precedence) -> None:
    """The first pattern that matches wins, whether it was written out or has to be matched."""
    config = FqnToConfig(
        {"w8": Int8WeightOnlyConfig()},
        (
            Rule(r"re:a\.(q|k)", None, modules=("Conv",)),
            Rule(r"re:a\.[qk]+", "w8"),
            Rule(r"re:a\.(k|v)", None),
            Rule(r"re:.*v", "w8", optional=True),
        ),
        precedence=precedence,
    )
    targets = [Target(f"a.{m}.weight", (4, 4), DType.FLOAT32, ("Linear",)) for m in "qkv"]
    assert [d.rule for d in RuleSet(config).assign(targets).decisions] == [1, 1, 2]


@pytest.mark.parametrize(
    "form", [r"re:model\.layers\.{}\.e\.{}\.(up|down)", r"re:model\.layers\.{}\.e\.{}\..*"]
)
def test_a_name_meets_few_of_many_patterns(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a pattern for each of n layers, n names take about n looks at patterns, not n * n."""
    looks = 0
    original = segment_index.SegmentIndex.candidates

    def candidates(self: segment_index.SegmentIndex, key: segment_index.Key) -> tuple:
        nonlocal looks
        found = original(self, key)
        looks += len(found)
        return found

    monkeypatch.setattr(segment_index.SegmentIndex, "candidates", candidates)
    pairs = [(i, j) for i in range(20) for j in range(20)]
    rules = tuple(Rule(form.format(*pair), None) for pair in pairs)
    targets = [
        Target(f"model.layers.{i}.e.{j}.up.weight", (4, 4), DType.FLOAT32, ("Linear",))
        for i, j in pairs
    ]
    assert all(RuleSet(FqnToConfig(rules=rules)).assign(targets).hits)
    assert looks <= 4 * len(targets)
