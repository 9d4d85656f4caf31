"""The demo's config files: what they say about each tensor of all-MiniLM-L6-v2.

`minilm_tensors.json` has name, dtype and shape of every tensor of the real file.
"""

import json
import re
from pathlib import Path

import jsonschema
import pytest

import qconfig
from qconfig import PerGroup, PerRow
from qconfig.codec.dtypes import DType
from qconfig.engine.plan import make_plan
from qconfig.engine.plan_document import Action, Plan
from qconfig.engine.targets import named_targets

ROOT = Path(__file__).parents[2]
NEW, OLD = ROOT / "demo/minilm.json", ROOT / "demo/minilm_v1.json"
TENSORS = json.loads(Path(__file__).with_name("minilm_tensors.json").read_text(encoding="utf-8"))

ATTENTION = re.compile(
    r"encoder\.layer\.\d\.attention\.(self\.(query|key|value)|output\.dense)\.weight"
)
MLP = re.compile(r"encoder\.layer\.\d\.(intermediate|output)\.dense\.weight")


def plan_of(path: Path) -> Plan:
    """Return the plan of a config file for the real names and shapes."""
    tensors = ((name, tuple(shape), DType.parse(dtype)) for name, (dtype, shape) in TENSORS.items())
    return make_plan(named_targets(tensors), qconfig.load_config(path))


def granularities(path: Path) -> dict[str, object]:
    """Return the granularity of every tensor that is quantized."""
    plan = plan_of(path)
    quantized = [e for e in plan.entries if e.action is Action.QUANTIZE]
    return {e.fqn: plan.configs[e.config].granularity for e in quantized}


@pytest.mark.parametrize("path", [NEW, OLD], ids=lambda p: p.stem)
def test_the_file_is_valid(path):
    """The file has no problem, and the schema that it names is there and accepts it."""
    assert qconfig.validate_config(path) == []
    document = json.loads(path.read_text(encoding="utf-8"))
    schema = json.loads((path.parent / document["$schema"]).read_text(encoding="utf-8"))
    assert schema["title"] == f"FqnToConfig version {document['version']}"
    jsonschema.Draft202012Validator(schema).validate(document)


@pytest.mark.parametrize("path", [NEW, OLD], ids=lambda p: p.stem)
def test_attention_is_per_row_and_mlp_in_groups(path):
    """All attention weights get a scale a row, all MLP weights one for 64, and nothing else any."""
    expected = {name: PerRow() for name in TENSORS if ATTENTION.fullmatch(name)}
    expected |= {name: PerGroup(64) for name in TENSORS if MLP.fullmatch(name)}
    assert len(expected) == 6 * (4 + 2)
    assert granularities(path) == expected


def test_norms_embeddings_and_pooler_are_skipped_on_purpose():
    """What stays float is skipped by a rule that says so, and not for want of one."""
    weights = [e for e in plan_of(NEW).entries if e.fqn.endswith(".weight")]
    skipped = [e for e in weights if e.action is Action.SKIP]
    assert len(skipped) == 2 * 6 + 1 + 3 + 1
    assert {e.reason for e in skipped} == {"the rule says skip"}


def test_every_rule_is_needed():
    """Every rule matches something, and none is hidden by an earlier one."""
    plan = plan_of(NEW)
    assert not plan.notes
    assert [rule.quantized for rule in plan.rules] == [18, 6, 6, 6, 0, 0, 0]
    assert all(rule.hits for rule in plan.rules)
