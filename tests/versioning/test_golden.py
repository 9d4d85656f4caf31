"""Documents of every version load, upgrade and dump as they did when they were written down."""

import json

import pytest
from jsonschema import Draft202012Validator

from qconfig.codec import strict_json
from qconfig.codec.converter import structure_any, unstructure
from qconfig.versioning import registry
from qconfig.versioning.released import COMMAND
from qconfig.versioning.schema import schema_of
from tests.regenerate import golden_cases, is_superseded, upgraded_text
from tests.strategies import documented_entries

ENTRIES = documented_entries()
CASES = [(entry, case) for entry in ENTRIES for case in golden_cases(entry)]
by_case = pytest.mark.parametrize(
    ("entry", "case"), CASES, ids=[f"{entry}-{case.stem}" for entry, case in CASES]
)


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_every_version_has_golden_documents(entry):
    """Each registered version has at least three documents, not all alike."""
    cases = golden_cases(entry)
    assert len(cases) >= 3, f"run: {COMMAND}"
    documents = [json.loads(case.read_bytes()) for case in cases]
    assert len({json.dumps(unstructure(structure_any(d, entry.kind))) for d in documents}) > 1


@by_case
def test_upgrade_gives_the_golden_document(entry, case):
    """Load, upgrade, dump gives the text that lies beside the document."""
    target = case.with_suffix(".upgraded.json")
    assert target.exists(), f"run: {COMMAND}"
    assert upgraded_text(case, entry) == target.read_text("utf-8")


@by_case
def test_golden_document_follows_its_schema(entry, case):
    """A golden document is valid under the schema of its version."""
    document = json.loads(case.read_bytes())
    assert list(Draft202012Validator(schema_of(entry)).iter_errors(document)) == []


@by_case
def test_upgraded_document_follows_the_newest_schema(entry, case):
    """An upgraded document is valid under the schema of the current version."""
    document = json.loads(case.with_suffix(".upgraded.json").read_bytes())
    newest = registry.current(entry)
    assert list(Draft202012Validator(schema_of(newest)).iter_errors(document)) == []


@by_case
def test_upgraded_document_is_canonical(entry, case):
    """Loading and dumping an upgraded document changes no character of it."""
    text = case.with_suffix(".upgraded.json").read_text("utf-8")
    value = structure_any(strict_json.loads(text), entry.kind)
    assert strict_json.dumps(unstructure(value)) == text


@pytest.mark.parametrize(
    ("upgraded", "superseded"),
    [
        ({"version": 2, "group_size": 32}, True),
        ({"version": 2, "group_size": 64}, False),
        ({"version": 3, "granularity": {"type": "PerGroup", "group_size": 64}}, False),
        ({"version": 3, "granularity": {"group_size": 32, "type": "PerGroup"}}, False),
    ],
    ids=["older", "older and other", "other", "of today"],
)
def test_upgraded_documents_of_older_versions_are_written_anew(tmp_path, upgraded, superseded):
    """Only where a version was raised, and only if nothing else changes."""
    name = "Int8WeightOnlyConfig"
    case = tmp_path / "case.json"
    case.write_text(json.dumps({"type": name, "version": 1, "group_size": 32}))
    case.with_suffix(".upgraded.json").write_text(json.dumps({"type": name, **upgraded}))
    assert is_superseded(case, registry.get(name, 1)) is superseded
