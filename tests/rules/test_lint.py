import json
import re
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qconfig.errors import RuleError
from qconfig.rules.lint import check_pattern, check_rules, lint, skeleton
from qconfig.rules.regex_tree import ALL, DOT, OTHER, Chars, first, parse
from tests.rules.samples import document

NESTED = "an unbounded repeat inside an unbounded repeat can run away"
TWO_WAYS = "a repeat over parts that can read the same text in two ways can run away"
MANY = "more than three unbounded repeats that can read the same text can run away"
BACK = "a backreference inside a repeat can run away"

REFUSED = {
    r"(a+)+$": NESTED,
    r"(.*\.)*weight_scale_2$": NESTED,
    r"(\w+)*": NESTED,
    r"(x+x+)+y": NESTED,
    r"((?:a{2,})b)*": NESTED,
    r"(a{0,99}){0,99}b": NESTED,
    r"(a|a)*b": TWO_WAYS,
    r"(a|aa)*b": TWO_WAYS,
    r"(?:ab|a)*b": TWO_WAYS,
    r"(?:a|b|ab)*c": TWO_WAYS,
    r"(?i)(?:ax|A)*b": TWO_WAYS,
    r"(aa?)*b": TWO_WAYS,
    r"(a{1,3})*b": TWO_WAYS,
    r"(a?b?)*c": TWO_WAYS,
    r"(a?){30}a": TWO_WAYS,
    r".*a.*b.*c.*d": MANY,
    r".*.*.*.*x": MANY,
    r"(.*x){4}y": MANY,
    r"\w*\w*\w*\w*\w*b": MANY,
    r"(.)(x\1)*": BACK,
}
ACCEPTED = [
    r"model\.layers\.\d+\.mlp\..*_proj",
    r"model\.layers\.\d+\.mlp\.experts\.\d+\.\d+\.\d+\.w\d+",
    r"[^.]+\.[^.]+\.[^.]+\.[^.]+\.[^.]+",
    r".*mlp\.(gate|up|gate_up|down)_proj.*",
    r".*\.(layers|blocks)\.(1|10|11|12|2|20)\.(attn|mlp)\.(gate|gate_up|up)_proj\.weight",
    r"^(?!.*visual)(?!.*mtp)(?!.*lm_head)(?!.*embed).*proj.*",
    r"layers\.(\d+)\.block\.\1\.up",
    r".*\.(?:1[0-5])\..*",
    r"(?:ab|cd)*",
    r"(?:\.\d){2}",
    r"(?>a+)b++",
    r"",
]


@pytest.mark.parametrize(("pattern", "message"), REFUSED.items())
def test_runaway_is_refused(pattern, message):
    """A pattern that can run away is refused, and the message says why."""
    with pytest.raises(RuleError, match=message):
        lint(pattern)


@pytest.mark.parametrize("pattern", ACCEPTED)
def test_ordinary_is_accepted(pattern):
    """Patterns as people write them pass."""
    lint(pattern)


PUBLISHED = json.loads(
    (Path(__file__).parents[1] / "data" / "rules" / "published_patterns.json").read_text()
)


@pytest.mark.parametrize("match", PUBLISHED)
def test_published_is_accepted(match):
    """Every pattern of the published configs that we know passes."""
    check_pattern(match)


@pytest.mark.parametrize("pattern", ACCEPTED)
def test_accepted_comes_back(pattern):
    """What passes gives its answer on hostile names; a runaway would not come back."""
    compiled = re.compile(pattern)
    for name in ("a" * 200, ".".join("a" * 100), "model.layers." + "1" * 180 + "_", "x.proj" * 33):
        assert compiled.fullmatch(name + "!\n") is None


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("[[a]x", "whose meaning will change: Possible nested set"),
        ("[a--b]", "whose meaning will change: Possible set difference"),
        ("a{99999999999}", "too deep or with too large a number"),
        ("(" * 490 + ")" * 490, "too deep"),
        ("(?<=a*)b", "look-behind requires fixed-width pattern"),
        (r"a\.b)", "unbalanced parenthesis"),
    ],
)
def test_uncompilable(pattern, message):
    """What Python cannot compile, or will read otherwise one day, is refused without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuleError, match=message):
            check_pattern("re:" + pattern)


def test_glob_is_linted():
    """A glob with too many double stars is refused like an expression."""
    with pytest.raises(RuleError, match=MANY):
        check_pattern("**.a.**.b.**.c.**.d")
    check_pattern("*.*.*.*.*.*")


def test_rules_are_checked_together():
    """All bad rules of a document are reported, each with its pointer."""
    problems = check_rules(document(("re:*bad(", "w8"), ("fine", None), (r"re:(a+)+", None)))
    first_problem, second_problem = map(str, problems)
    assert first_problem == (
        "/rules/0/match: not a regular expression: nothing to repeat\n"
        "  found: '*bad('\n"
        "  expected: the syntax of Python's re module\n"
        "  hint: look at character 1"
    )
    assert second_problem == (
        f"/rules/2/match: {NESTED}\n"
        "  found: '(a+)+'\n"
        "  hint: one .* says the same as a repeated group of them"
    )


def test_fused_groups_are_checked():
    """A member of two groups and a member with a dot are reported."""
    problems = check_rules(document(fused=(("q", "k"), ("k", "v"), ("a.b", "c"))))
    assert [p.pointer for p in problems] == ["/fused/1", "/fused/2"]
    assert "the last segment of a module's name" in str(problems[0])


ATOMS = st.sampled_from(
    [
        *(
            r"\.",
            ".",
            "a",
            "b1",
            "ab",
            "layers",
            "17",
            r"\d",
            r"\d+",
            r"\d*",
            ".*",
            "[ab]",
            "[a-z]+",
        ),
        *(r"\w*", "(a|ab)", "(?:x|y)*", "(a|a)*", "?", "*", "+", "{2}", "|", "(", ")", "(?:", "^"),
        *("$", r"\1", "(?i)", r"(?i:a)", "x", "(?!b)", r"\x41b", "a{1,3}", "[", "]", "5", r"\d*\."),
    ]
)


@settings(max_examples=1500)
@given(st.lists(ATOMS, max_size=12).map("".join))
def test_skeleton_keeps_the_verdict(pattern):
    """A pattern and its skeleton pass or fail together."""

    def verdict(text):
        try:
            lint(text)
        except RuleError as error:
            return re.sub(r" at position \d+", "", error.message)
        return None

    assert verdict(pattern) == verdict(skeleton(pattern))


def test_skeleton_is_shared():
    """Patterns that differ in names and numbers only have one skeleton."""
    patterns = [rf"m\.layers\.{i}\.experts\.{i * 7}\.(gate|up)_proj" for i in range(50)]
    assert {skeleton(p) for p in patterns} == {r"m\.x\.x\.x\.x\.(gate|up)_proj"}


@settings(max_examples=300)
@given(st.lists(ATOMS, max_size=6).map("".join), st.text("ab1x.A\u212a\u0663", max_size=6))
def test_first_characters_are_a_superset(pattern, text):
    """What a match starts with is among the first characters of the tree."""
    try:
        nodes = parse(pattern)
    except RuleError:
        return
    if (found := re.match(pattern, text)) is not None:
        mask, empty = first(nodes)
        if found.group():
            code = ord(found.group()[0])
            assert mask & (1 << code if code < 256 else OTHER)
        else:
            assert empty


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        (r"\d", "07\u0663", "a."),
        (r"\D", "a.", "07"),
        (r"[^.]", "a\u4e2d", "."),
        (r"[^\w]", ".-", "aZ_"),
        (r"[a-c]", "abc", "dA"),
        (r"(?i:[^a])", "b", ""),
        (r"[^\W]", "a\u00e9", "."),
        (r"\S", "a.", " "),
        (".", "a.\u4e2d", ""),
    ],
)
def test_sets(pattern, inside, outside):
    """A set holds what it matches, and little else."""
    (node,) = parse(pattern)
    assert isinstance(node, Chars)
    bits = {c: 1 << ord(c) if ord(c) < 256 else OTHER for c in inside + outside}
    assert all(node.mask & bits[c] for c in inside)
    assert not any(node.mask & bits[c] for c in outside)
    assert node.mask <= ALL
    assert DOT == 1 << 46
