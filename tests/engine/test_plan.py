import json

import pytest

from qconfig.builders import base
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.configs import FqnToConfig, Int8WeightOnlyConfig, PerGroup, Rule
from qconfig.engine.plan import make_plan
from qconfig.engine.plan_document import Action, Plan
from qconfig.errors import DocumentError, DocumentErrors, PlanError, QconfigError, RuleError
from qconfig.layouts import Int8TensorLayout
from qconfig.rules.assignment import How
from qconfig.versioning import Config

W8 = Int8WeightOnlyConfig()
G4 = Int8WeightOnlyConfig(PerGroup(4))


class FakeBuilder:
    """Serves matrices of anything but embeddings."""

    def refusal(self, config, target):
        if len(target.shape) != 2:
            return f"{len(target.shape)}-D"
        return "an embedding" if "Embedding" in target.module_classes else None

    def layout(self, config, target):
        block = config.granularity.block_of(target.shape)
        scales = tuple(n // b for n, b in zip(target.shape, block, strict=True))
        codes, scale = TensorSpec(DType.INT8, target.shape), TensorSpec(DType.FLOAT32, scales)
        return Int8TensorLayout(codes, scale, block, target.dtype)

    def build(self, config, weight):
        raise NotImplementedError


@pytest.fixture(autouse=True)
def _fake_builder(monkeypatch):
    base.load_builders()
    monkeypatch.setitem(base._builders, Int8WeightOnlyConfig, FakeBuilder())


def linear(name, n=8, k=16):
    """Return weight and bias of a Linear, in bfloat16."""
    classes = ("Linear", "Module")
    return [
        base.Target(f"{name}.weight", (n, k), DType.BFLOAT16, classes),
        base.Target(f"{name}.bias", (n,), DType.BFLOAT16, classes),
    ]


def one(name, *shape, cls):
    """Return a weight of another class."""
    return base.Target(f"{name}.weight", shape, DType.BFLOAT16, (cls, "Module"))


MODEL = [
    one("emb", 32, 16, cls="Embedding"),
    *linear("l.0.q"),
    *linear("l.0.k"),
    one("l.0.norm", 16, cls="LayerNorm"),
    *linear("head"),
]


def document(*rules, **more):
    """Return an FqnToConfig with configs w8 and g4."""
    rules = tuple(r if isinstance(r, Rule) else Rule(*r) for r in rules)
    return FqnToConfig(configs={"w8": W8, "g4": G4}, rules=rules, **more)


def actions(plan):
    """Return what is done, by name."""
    return {entry.fqn: entry.action.value for entry in plan.entries}


def refused(config, targets=MODEL, **more):
    """Return the problems for which no plan is made."""
    with pytest.raises(QconfigError) as caught:
        make_plan(targets, config, **more)
    return list(caught.value.problems)


def test_plain_config_reaches_linear():
    """A config that is no FqnToConfig is the default for every Linear."""
    plan = make_plan(MODEL, W8)
    quantized = [name for name, action in actions(plan).items() if action == "quantize"]
    assert quantized == ["l.0.q.weight", "l.0.k.weight", "head.weight"]
    assert plan.configs == {"default": W8}


def test_entry():
    """An entry tells layout, sizes and reason."""
    entry = make_plan(MODEL, document(("l.0.q", "g4"))).entries[1]
    assert (entry.fqn, entry.shape, entry.dtype) == ("l.0.q.weight", (8, 16), DType.BFLOAT16)
    assert (entry.action, entry.rule, entry.how) == (Action.QUANTIZE, 0, How.EXACT_MODULE)
    assert (entry.layout, entry.layout_version, entry.config) == ("Int8TensorLayout", 5, "g4")
    assert (entry.bytes_before, entry.bytes_after) == (256, 128 + 8 * 4 * 4)
    assert entry.bits_per_weight == 16
    assert entry.module_class == "Linear"
    assert entry.reason == "rule 0 gives its exact module"


def test_reasons():
    """Everything that stays as it is says why."""
    plan = make_plan(MODEL, document(("l.0.k", None), ("l.**", "w8"), default="w8"))
    assert {entry.fqn: entry.reason for entry in plan.entries} == {
        "emb.weight": "no rule applies",
        "l.0.q.weight": "rule 1 gives its parameter pattern",
        "l.0.q.bias": "1-D",
        "l.0.k.weight": "the rule says skip",
        "l.0.k.bias": "the rule says skip",
        "l.0.norm.weight": "1-D",
        "head.weight": "the default reaches it",
        "head.bias": "1-D",
    }


def test_totals():
    """Totals count actions, bytes and bits over all parameters."""
    plan = make_plan([*linear("a", 8, 64), one("n", 8, cls="LayerNorm")], W8)
    assert plan.totals == {
        "parameters": 3,
        "quantize": 1,
        "skip": 2,
        "tied": 0,
        "bytes_before": 1024 + 16 + 16,
        "bytes_after": 512 + 32 + 16 + 16,
        "bits_per_weight": round(576 * 8 / 528, 4),
    }


def test_rule_reports():
    """A rule's hits count what it won, and how much of that is quantized."""
    plan = make_plan(MODEL, document(("l.**", "w8"), ("head", "g4")))
    assert [(r.match, r.use, r.hits, r.quantized) for r in plan.rules] == [
        ("l.**", "w8", 5, 2),
        ("head", "g4", 2, 1),
    ]


def test_exact_parameter_that_cannot_be_served():
    """An exact rule for a parameter that its config cannot serve is an error."""
    (problem,) = refused(document(("l.0.norm.weight", "w8")))
    assert isinstance(problem, PlanError)
    assert str(problem) == (
        "l.0.norm.weight: /rules/0: w8 cannot serve this parameter: 1-D\n"
        "  hint: remove the rule, or give it another config"
    )


def test_exact_module_that_cannot_be_served():
    """An exact rule for a module none of whose parameters can be served is an error."""
    (problem,) = refused(document(("l.0.norm", "w8")))
    assert str(problem) == (
        "l.0.norm: /rules/0: w8 cannot serve any parameter of this module\n"
        "  found: ['weight: 1-D']\n"
        "  hint: give it another config, remove the rule, or name the module of the weight"
    )


def test_exact_module_with_a_bias():
    """A bias under an exact module rule is simply not served."""
    assert actions(make_plan(MODEL, document(("head", "w8"))))["head.bias"] == "skip"


def test_exact_module_whose_weight_is_taken():
    """A module rule whose weight a finer rule skips is no error."""
    plan = make_plan(MODEL, document(("head.weight", None), ("head", "w8")))
    assert actions(plan)["head.weight"] == "skip"


def test_pattern_that_serves_nothing():
    """A pattern with a config that serves nothing it matches counts as unmatched."""
    config = document(("**.norm", "w8"))
    (problem,) = refused(config)
    assert str(problem) == (
        "/rules/0/match: rule matches only what w8 cannot serve: 1-D\n"
        "  found: '**.norm'\n"
        '  expected: a rule that does something, or "optional": true'
    )
    note = "rule 0 ('**.norm') matches only what w8 cannot serve: 1-D"
    assert make_plan(MODEL, config, allow_unmatched=True).notes == (note,)
    assert make_plan(MODEL, document(Rule("**.norm", "w8", optional=True))).notes == (note,)


@pytest.mark.parametrize(
    ("rule", "hint"),
    [
        (Rule("head.wieght", "w8"), "did you mean 'head.weight'?"),
        (Rule("l.0.w", None), "did you mean 'l.0.q'?"),
        (Rule(r"re:l\.\d+\.nrm", None), "no name has 'nrm' there; did you mean 'norm'?"),
        (Rule("l.*", None), "it matches a part of 'l.0.q'; rules match whole names"),
        (
            Rule("**", None, modules=("linear",)),
            "no module has class linear; did you mean 'Linear'?",
        ),
        (Rule("**.zzzzzz", None), "no name has 'zzzzzz' there"),
        (Rule("zzz", None), None),
    ],
)
def test_unmatched_rule(rule, hint):
    """A rule that matches nothing is an error with a hint of what it may mean."""
    (problem,) = refused(document(rule))
    assert isinstance(problem, PlanError)
    assert problem.message == "rule matches nothing"
    assert problem.pointer == "/rules/0/match"
    assert problem.hint == hint


def test_unmatched_rule_may_be_allowed():
    """Rules that match nothing become notes where the caller allows it, or vanish if optional."""
    config = document(("had", "w8"), Rule("x", None, optional=True))
    assert make_plan(MODEL, config, allow_unmatched=True).notes == (
        "rule 0 ('had') matches nothing: did you mean 'head'?",
    )


def test_many_unmatched_rules_may_be_allowed():
    """Only the first notes have a hint: to look for thousands would take minutes."""
    rules = [Rule(f"model.layr.{i}.up", "w8") for i in range(500)]
    plan = make_plan(MODEL, document(*rules), allow_unmatched=True)
    unmatched = [note for note in plan.notes if "matches nothing" in note]
    assert len(unmatched) == 500
    assert sum("did you mean" in note for note in unmatched) <= 20


def test_shadowed_rule_is_noted():
    """A rule that others leave nothing is noted."""
    plan = make_plan(MODEL, document(("l.**", "w8"), ("l.0.*", "g4")))
    assert plan.notes == (
        "rule 1 ('l.0.*') is shadowed: earlier or more exact rules win all it matches",
    )


def test_idle_default_is_noted():
    """A default that serves nothing is noted."""
    plan = make_plan([one("emb", 8, 8, cls="Embedding")], W8)
    assert plan.notes == ("the default reaches nothing that it can serve",)


def test_config_that_does_not_fit():
    """A group size that does not divide K is reported once a shape, with name and pointer."""
    targets = [*linear("a", 8, 18), *linear("b", 8, 18), *linear("c", 8, 10), *linear("d")]
    problems = refused(document(("**", "g4")), targets)
    assert [p.fqn for p in problems] == ["a.weight", "c.weight"]
    assert str(problems[0]) == (
        "a.weight: /configs/g4/granularity/group_size: g4: "
        "group_size does not divide the last dimension\n"
        "  found: 4\n"
        "  expected: a divisor of K = 18"
    ).replace("/granularity", "")


def test_config_without_builder():
    """A config that nobody can build is reported at its place."""
    base._builders.pop(Int8WeightOnlyConfig)
    (problem,) = refused(document(("**", "w8")), allow_unmatched=True)
    assert (problem.pointer, problem.message) == (
        "/configs/w8",
        "no builder for Int8WeightOnlyConfig v3",
    )


def test_unused_config_needs_no_builder():
    """A config that no target gets is not asked for."""
    base._builders.pop(Int8WeightOnlyConfig)
    assert make_plan(MODEL, document(("**", None))).totals["quantize"] == 0


def test_all_problems_at_once():
    """Problems of all kinds are raised together."""
    config = document(("l.0.q", "g4"), ("l.0.norm", "w8"), ("x", None), fused=(("q", "k"),))
    problems = refused(
        config, [*MODEL, *linear("l.1.q", 8, 18)], tied=[("l.0.q.weight", "emb.weight")]
    )
    assert [p.pointer for p in problems] == ["/rules/1", "/rules/2/match", "/fused/0", None]
    with pytest.raises(DocumentErrors, match="4 problems"):
        raise DocumentErrors(problems)


def test_bad_pattern():
    """A pattern that cannot be used is refused before anything else."""
    with pytest.raises(RuleError, match="nothing to repeat"):
        make_plan(MODEL, document(("re:*bad(", "w8")))


def test_fused_group_is_compared_by_what_happens():
    """A group is split as well if a builder refuses a part of it."""
    config = document(("l.**", "w8"), fused=(("q", "k"),))
    assert make_plan(MODEL, config).entries
    targets = [one("l.q", 8, 16, cls="Linear"), one("l.k", 4, 8, 16, cls="Linear")]
    (problem,) = refused(config, targets)
    assert (problem.fqn, problem.pointer) == ("l.k.weight", "/fused/0")


def test_tied_names_are_treated_once():
    """Of tied names the first is quantized and the others follow it, without bytes of their own."""
    plan = make_plan(MODEL, document(("**", "w8")), tied=[("l.0.q.weight", "head.weight", "gone")])
    entry = plan.entries[6]
    assert (entry.fqn, entry.action, entry.tied_to) == ("head.weight", Action.TIED, "l.0.q.weight")
    assert (entry.bytes_before, entry.bytes_after, entry.bits_per_weight) == (0, 0, None)
    assert entry.reason == "tied to l.0.q.weight"
    assert plan.totals["tied"] == 1


def test_tied_names_with_two_configs():
    """Tied names that rules tell apart are refused with both names."""
    (problem,) = refused(W8, tied=[("emb.weight", "head.weight")])
    assert (problem.fqn, problem.message) == (
        "head.weight",
        "tied to emb.weight, but they get different configs",
    )


def test_json_round_trip():
    """A plan goes to JSON and back unchanged."""
    config = document(("l.**", "w8"), ("head", "g4"), Rule("l.0.*", None), default="w8")
    plan = make_plan(MODEL, config, tied=[("l.0.q.weight", "l.0.k.weight")])
    data = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    assert Plan.from_dict(data) == plan
    assert list(data)[:2] == ["type", "version"]
    assert data["totals"] == plan.totals


def test_bad_plan_document():
    """All problems of a plan document are reported, each with its pointer."""
    data = make_plan(MODEL, W8).to_dict()
    data["entries"][0]["action"] = "burn"
    data["entries"][1]["bytes_after"] = "1"
    data["entries"][2]["bits_per_weight"] = 1.0
    data["entries"][3].pop("reason")
    data["nots"] = data.pop("notes")
    with pytest.raises(DocumentErrors) as caught:
        Plan.from_dict(data)
    assert [p.pointer for p in caught.value.problems] == [
        "/nots",
        "/entries/0/action",
        "/entries/1/bytes_after",
        "/entries/2/bits_per_weight",
        "/entries/3/reason",
        "/notes",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "/version: not a plan"),
        ({"type": "Recipe"}, "/type: not a plan"),
        ({"totals": {}}, "does not follow from the other fields"),
    ],
)
def test_other_plan_document(change, message):
    """Another type or version, or totals that contradict the entries, are refused."""
    with pytest.raises(DocumentError, match=message):
        Plan.from_dict(make_plan(MODEL, W8).to_dict() | change)


def test_plan_of_no_object():
    """What is no object is no plan."""
    with pytest.raises(DocumentError, match="wrong type"):
        Plan.from_dict([])


def test_unregistered_config():
    """A config of a class that nobody registered is refused."""

    class Mine(Config):
        pass

    with pytest.raises(DocumentError, match="class is not registered"):
        make_plan(MODEL, Mine())


@pytest.mark.parametrize("config", [{"type": "Int8WeightOnlyConfig", "version": 3}, "quant.json"])
def test_document_in_place_of_a_config(config):
    """A document or a path is refused with what makes a config of it."""
    with pytest.raises(DocumentError, match="class is not registered") as caught:
        make_plan(MODEL, config)
    assert "load_config" in caught.value.hint


def test_many_problems():
    """Thousands of rules that match nothing are all reported, the first of them with hints."""
    targets = [t for i in range(500) for t in linear(f"l.{i}.q")]
    config = document(*(Rule(f"l.{i}.p", "w8") for i in range(2000)))
    problems = refused(config, targets)
    assert len(problems) == 2000
    assert [bool(p.hint) for p in problems] == [True] * 20 + [False] * 1980
