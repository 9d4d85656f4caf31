import re

import pytest
from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st

from qconfig.configs import FqnToConfig, Precedence, Rule
from qconfig.errors import RuleError, RuleErrors
from qconfig.limits import DEFAULT_LIMITS
from qconfig.rules.assignment import Assignment, Decision, How
from qconfig.rules.matcher import RuleSet
from qconfig.rules.patterns import glob_to_regex, is_exact
from tests.rules.samples import INT8, assign, document, given, target

FIRST = Precedence.PARAMETERS_FIRST


def hows(config, *targets):
    """Return by what each target was reached."""
    return [d.how for d in assign(config, *targets).decisions]


def test_exact_parameter_beats_exact_module():
    """The exact name of a parameter wins over that of its module, whatever the order."""
    config = document(("a", "w8"), ("a.weight", "w4"))
    assert given(config, "a.weight", "a.bias") == ["w4", "w8"]
    assert hows(config, "a.weight", "a.bias") == [How.EXACT_PARAMETER, How.EXACT_MODULE]


def test_exact_beats_pattern():
    """An exact name wins over a pattern that was declared before it."""
    assert given(document(("**", "w8"), ("a", "w4")), "a.weight") == ["w4"]


def test_module_rule_reaches_all_its_parameters():
    """A rule that matches a module reaches each of its own parameters, and none below."""
    config = document(("re:a", "w8"))
    assert given(config, "a.weight", "a.bias", "a.b.weight") == ["w8", "w8", None]


def test_declared_order():
    """Of several patterns the first declared wins, be its match the module or the parameter."""
    config = document((r"re:a\.b", "w4"), (r"re:a\.b\.weight", "w8"))
    assert given(config, "a.b.weight") == ["w4"]


def test_parameters_first():
    """With torchao's precedence a pattern for the parameter wins over one for the module."""
    config = document((r"re:a\.b", "w4"), (r"re:a\.b\.weight", "w8"), precedence=FIRST)
    assert given(config, "a.b.weight", "a.b.bias") == ["w8", "w4"]
    assert hows(config, "a.b.weight", "a.b.bias") == [How.PARAMETER_PATTERN, How.MODULE_PATTERN]


def test_skip_wins_over_default():
    """What a rule skips does not fall through to a later rule or to the default."""
    config = document(("re:.*emb.*", None), ("**", "w4"), default="w8")
    assert given(config, "emb.weight") == [None]


def test_default_reaches_its_classes():
    """The default reaches Linear, or the classes that the document lists, and subclasses."""
    mine = target("c.weight", "MyLinear", "Linear", "Module")
    targets = ["a.weight", target("b.weight", "Embedding", "Module"), mine]
    assert given(document(default="w8"), *targets) == ["w8", None, "w8"]
    both = document(default="w8", default_modules=("Embedding",))
    assert given(both, *targets) == [None, "w8", None]


def test_module_filter():
    """A rule for a module class leaves other modules to the rules after it."""
    config = document(Rule("**", "w4", modules=("Embedding",)), ("**", "w8"))
    assert given(config, target("e.weight", "Embedding"), "a.weight") == ["w4", "w8"]


def test_module_filter_of_exact_rules():
    """An exact rule for another class leaves the name to the next exact rule."""
    config = document(Rule("a", "w4", modules=("Conv2d",)), ("a", "w8"))
    result = assign(config, "a.weight")
    assert result.decisions[0].config == "w8"
    assert (result.unmatched, result.shadowed) == ((0,), ())


def test_same_module_of_two_classes():
    """Targets of one module that differ in class are told apart."""
    config = document(Rule("re:m", "w4", modules=("Linear",)), ("re:m", "w8"))
    assert given(config, "m.a", target("m.b", "Other")) == ["w4", "w8"]


@pytest.mark.parametrize("match", ["scale", "re:sc.*", "sc*", "", "re:"])
def test_root_parameter(match):
    """A parameter of the root has a name without a dot, and its module the empty name."""
    assert given(document((match, "w8")), "scale") == ["w8"]


def test_repeated_exact_rule():
    """Of two exact rules for one name the first wins and the second is shadowed."""
    result = assign(document(("a.weight", "w4"), ("a.weight", "w8")), "a.weight")
    assert result.decisions == (Decision(0, How.EXACT_PARAMETER, "w4"),)
    assert result.shadowed == (1,)


def test_reports():
    """Hits count the targets that a rule won; idle rules are unmatched, shadowed or optional."""
    config = document(
        ("re:a.*", "w8"),
        ("re:ab.*", "w4"),
        ("nothing", None),
        Rule("re:no", None, optional=True),
        (r"re:.*\.b", None),
    )
    result = assign(config, "a.w", "ab.w", "c.b")
    assert result.hits == (2, 0, 0, 0, 1)
    assert (result.unmatched, result.shadowed) == ((2,), (1,))


def test_rule_that_only_its_class_keeps_away_is_unmatched():
    """A rule whose class no matching target has is unmatched, not shadowed."""
    result = assign(document(Rule("**", "w8", modules=("Conv2d",))), "a.weight")
    assert (result.unmatched, result.shadowed) == ((0,), ())


def test_expert_weights():
    """A parameter of any name and rank is reached by its own name."""
    experts = target("mlp.experts.gate_up_proj", "Experts", shape=(4, 8, 8))
    assert given(document((r"re:.*\.experts\.\w+_proj", "w8")), experts) == ["w8"]


def test_bad_patterns_are_refused_together():
    """A rule set is not made of patterns that cannot be used."""
    with pytest.raises(RuleErrors) as caught:
        RuleSet(document(("re:(", None), ("re:(a+)+", None)))
    assert [p.pointer for p in caught.value.problems] == ["/rules/0/match", "/rules/1/match"]


def test_long_names():
    """Names that are too long to be matched safely are refused."""
    with pytest.raises(RuleError, match="name is too long to be matched"):
        assign(document(), "a" * (DEFAULT_LIMITS.matched_characters + 1))


def naive(config: FqnToConfig, targets) -> Assignment:
    """Assign as the documentation reads, trying every rule on every name."""
    rules = list(enumerate(config.rules))

    def matches(rule, name):
        if is_exact(rule.match):
            return rule.match == name
        glob = not rule.match.startswith("re:")
        pattern = glob_to_regex(rule.match) if glob else rule.match.removeprefix("re:")
        return re.fullmatch(pattern, name) is not None

    def decide(t):
        own = [(i, r) for i, r in rules if not r.modules or {*r.modules} & {*t.module_classes}]
        patterns = [(i, r) for i, r in own if not is_exact(r.match)]
        exact = [(i, r) for i, r in own if is_exact(r.match)]
        by_parameter, by_module = How.PARAMETER_PATTERN, How.MODULE_PATTERN
        order = [(i, r, How.EXACT_PARAMETER, t.fqn) for i, r in exact]
        order += [(i, r, How.EXACT_MODULE, t.module) for i, r in exact]
        if config.precedence is Precedence.DECLARED:
            for i, r in patterns:
                order += [(i, r, by_parameter, t.fqn), (i, r, by_module, t.module)]
        else:
            order += [(i, r, by_parameter, t.fqn) for i, r in patterns]
            order += [(i, r, by_module, t.module) for i, r in patterns]
        for i, rule, how, name in order:
            if matches(rule, name):
                return Decision(i, how, rule.use)
        if config.default is not None and {*config.default_modules} & {*t.module_classes}:
            return Decision(None, How.DEFAULT, config.default)
        return Decision(None, How.NONE, None)

    decisions = tuple(map(decide, targets))
    hits = tuple(sum(d.rule == i for d in decisions) for i, _ in rules)
    reached = {
        i
        for i, r in rules
        for t in targets
        if (not r.modules or {*r.modules} & {*t.module_classes})
        and (matches(r, t.fqn) or matches(r, t.module))
    }
    return Assignment(
        targets=tuple(targets),
        decisions=decisions,
        hits=hits,
        unmatched=tuple(i for i, r in rules if i not in reached and not r.optional),
        shadowed=tuple(i for i, _ in rules if i in reached and not hits[i]),
    )


SEGMENTS = ["a", "b", "ab", "q_proj", "k_proj", "layers", "0", "1", "10", "weight", "bias", ""]
names = st.lists(st.sampled_from(SEGMENTS), min_size=1, max_size=4).map(".".join)
PARTS = [
    *(re.escape(s) for s in SEGMENTS),
    *(r"\d+", ".*", r"[^.]+", "(a|b)", "(q|k)_proj", "1[0-9]?", "(?:0|1)", "[01]", ".", "a?", "a*"),
    *("(?i:A)", "(?i:Layers)", r"(\.a)?", r"(?:a\.|b\.)", "(?!a)", "(?=a)", "(a|b|ab)(0|1)?", "x*"),
    *(r"\w+_proj", "(?:layers|ab)", "(?:weight|bias)", r"(?:\.\d){1,2}", "$", "^", "(?>ab)", "a++"),
    *(r"(a)\1", "[a-z]", "[._]", "(?:a|)", "b{2}", "(?:)"),
]
expressions = st.lists(st.sampled_from(PARTS), max_size=5).flatmap(
    lambda parts: st.sampled_from([r"\.", "", "."]).map(lambda joint: "re:" + joint.join(parts))
)
globs = st.lists(st.sampled_from([*SEGMENTS, "*", "**", "*_proj", "l*s"]), max_size=4).map(".".join)
CLASSES = [("Linear", "Module"), ("Embedding", "Module"), ()]
rules = st.builds(
    Rule,
    match=names | expressions | globs,
    use=st.sampled_from(["w4", "w8", None]),
    modules=st.sampled_from([(), (), (), ("Linear",), ("Embedding", "Conv2d")]),
    optional=st.booleans(),
)
documents = st.builds(
    FqnToConfig,
    configs=st.just({"w4": INT8, "w8": INT8}),
    rules=st.lists(rules, max_size=8).map(tuple),
    default=st.sampled_from([None, "w8"]),
    precedence=st.sampled_from(Precedence),
)
targets = st.lists(
    st.builds(lambda name, cls: target(name, *cls), names, st.sampled_from(CLASSES)),
    max_size=10,
    unique_by=lambda t: t.fqn,
)


@settings(max_examples=1000)
@examples(documents, targets)
def test_equal_to_naive_matching(config, some):
    """The indexed matcher decides exactly as one that tries every rule on every name."""
    try:
        rule_set = RuleSet(config)
    except RuleError:
        return
    assert rule_set.assign(some) == naive(config, some)
