from qconfig.configs import Precedence, Rule
from qconfig.rules.explain import Outcome, explain
from tests.rules.samples import document, target

CONFIG = document(
    ("a.b", "w4"),
    Rule("**", "w8", modules=("Conv2d",)),
    (r"re:a\..*", None),
    ("c", "w8"),
    default="w8",
)


def outcomes(config, *args):
    """Return what became of each rule, the default last."""
    return [line.outcome for line in explain(config, target(*args)).lines]


def test_every_rule_has_an_outcome():
    """A rule has won, lost, another class or no match; the default stands last."""
    expected = [Outcome.WON, Outcome.OTHER_CLASS, Outcome.LOST, Outcome.NO_MATCH, Outcome.LOST]
    assert outcomes(CONFIG, "a.b.weight") == expected


def test_default_wins():
    """The default wins what no rule reaches, if it is of its class."""
    assert outcomes(CONFIG, "x.weight")[-1] is Outcome.WON
    assert outcomes(CONFIG, "x.weight", "Embedding")[-1] is Outcome.OTHER_CLASS


def test_text():
    """The text form has a line for the verdict and one for every rule."""
    assert str(explain(CONFIG, target("a.b.weight"))) == (
        "a.b.weight: gets w4 by rule 0\n"
        "  rule 0 a.b -> w4: won by the exact module\n"
        "  rule 1 ** -> w8: is for Conv2d, not for Linear\n"
        "  rule 2 re:a\\..* -> skip: matches the parameter and the module, lost to rule 0\n"
        "  rule 3 c -> w8: does not match\n"
        "  default -> w8: lost to rule 0"
    )


def test_text_of_skip_and_nothing():
    """A skipped target says by which rule; one that nothing reaches says so."""
    assert str(explain(CONFIG, target("a.c.weight"))).startswith("a.c.weight: skipped by rule 2\n")
    alone = explain(document(), target("a.weight", shape=()))
    assert str(alone) == "a.weight: left alone, no rule applies"


def test_default_of_no_class():
    """A target of unknown class is described as such."""
    lines = explain(document(default="w8"), target("a.weight", "")).lines
    assert lines[0].outcome is Outcome.OTHER_CLASS
    alone = target("a.weight")
    unknown = type(alone)(alone.fqn, alone.shape, alone.dtype, ())
    reason = explain(document(default="w8"), unknown).lines[0].reason
    assert reason == "is for Linear, not for a module of unknown class"


def test_dict():
    """The dict form is plain data and says the same."""
    config = document(("a", "w8"), precedence=Precedence.PARAMETERS_FIRST)
    assert explain(config, target("a.weight")).to_dict() == {
        "fqn": "a.weight",
        "module_classes": ["Linear", "Module"],
        "rule": 0,
        "how": "exact_module",
        "config": "w8",
        "rules": [
            {
                "rule": 0,
                "match": "a",
                "config": "w8",
                "outcome": "won",
                "reason": "won by the exact module",
            }
        ],
    }


def test_control_characters_are_escaped():
    """A name that could steer a terminal is printed as an escape."""
    assert "\x1b" not in str(explain(document(("\x1b[2J*", "w8")), target("\x1b[2J.weight")))
