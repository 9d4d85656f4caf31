import pytest

from qconfig.configs import Rule
from qconfig.errors import FieldError, RuleError
from qconfig.limits import DEFAULT_LIMITS
from qconfig.rules.patterns import compile_pattern, expression, is_exact


@pytest.mark.parametrize(
    ("match", "name", "matches"),
    [
        ("lm_head", "lm_head", True),
        ("lm_head", "lm_headx", False),
        ("a.b", "axb", False),
        ("*.lm_head", "model.lm_head", True),
        ("*.lm_head", "a.b.lm_head", False),
        ("**.lm_head", "a.b.lm_head", True),
        ("layers.*.q", "layers.17.q", True),
        ("layers.*.q", "layers.1.7.q", False),
        ("*_proj", "q_proj", True),
        ("*", "", True),
        ("a[0]*", "a[0]b", True),
        (r"re:a\.\d+", "a.17", True),
        (r"re:a\.\d+", "a.17.weight", False),
        ("re:a|ab", "ab", True),
    ],
)
def test_pattern_matches(match, name, matches):
    """Names match exactly, globs by segment, and expressions as a whole."""
    assert bool(compile_pattern(match)(name)) is matches


@pytest.mark.parametrize(("match", "exact"), [("a.b", True), ("a.*", False), ("re:a", False)])
def test_kind(match, exact):
    """Only a name without star and prefix is exact."""
    assert is_exact(match) is exact


def test_glob_of_special_characters():
    """What is special in a regular expression stands for itself in a glob."""
    assert expression("a.(b)*") == r"a\.\(b\)[^.]*"


def test_bad_expression():
    """An expression that does not compile is reported with its bad character."""
    with pytest.raises(RuleError) as caught:
        compile_pattern("re:*bad(")
    assert str(caught.value) == (
        "not a regular expression: nothing to repeat\n"
        "  found: '*bad('\n"
        "  expected: the syntax of Python's re module\n"
        "  hint: look at character 1"
    )


def test_long_pattern():
    """A rule takes as many characters as the limit says, and no more."""
    Rule("a" * DEFAULT_LIMITS.pattern_characters, None)
    with pytest.raises(FieldError, match="match is out of range"):
        Rule("a" * (DEFAULT_LIMITS.pattern_characters + 1), None)
