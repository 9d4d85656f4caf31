"""Every registered class: object and document say the same, and class and schema agree."""

import copy
import json
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from qconfig.codec import strict_json
from qconfig.codec.converter import structure_any, structure_as_written, unstructure
from qconfig.errors import MigrationError, QconfigError
from qconfig.versioning import Kind, registry
from qconfig.versioning.schema import combined_schema, schema_of
from tests.regenerate import golden_cases
from tests.strategies import documented_entries, instances

ENTRIES = documented_entries()
by_entry = pytest.mark.parametrize("entry", ENTRIES, ids=str)
SCHEMAS = {entry.schema_path: Draft202012Validator(schema_of(entry)) for entry in ENTRIES}
COMBINED = Draft202012Validator(combined_schema())


def validator(entry):
    """Return the schema that looks deepest into documents of a version."""
    return COMBINED if entry.kind is Kind.CONFIG else SCHEMAS[entry.schema_path]


def refuses(entry, document):
    """Return whether the class refuses a document."""
    try:
        structure_as_written(document, entry.kind)
    except QconfigError:
        return True
    return False


@by_entry
@given(data=st.data())
def test_object_document_object(entry, data):
    """An object becomes a document and the same object again."""
    value = data.draw(instances(entry))
    assert structure_as_written(unstructure(value), entry.kind) == value


@by_entry
@given(data=st.data())
def test_document_object_document(entry, data):
    """A canonical document becomes an object and the same text again."""
    text = strict_json.dumps(unstructure(data.draw(instances(entry))))
    value = structure_as_written(strict_json.loads(text), entry.kind)
    assert strict_json.dumps(unstructure(value)) == text


@by_entry
@given(data=st.data())
def test_schema_accepts_what_the_class_accepts(entry, data):
    """A document of a valid object is valid under its schema and the combined one."""
    document = unstructure(data.draw(instances(entry)))
    assert list(SCHEMAS[entry.schema_path].iter_errors(document)) == []
    assert entry.kind is Kind.LAYOUT or COMBINED.is_valid(document)


@by_entry
@given(data=st.data())
def test_upgrade_is_total_and_pure(entry, data):
    """Each valid document of any version upgrades, and its object stays as it was."""
    value = data.draw(instances(entry))
    before = unstructure(value)
    upgraded = registry.convert(value)
    assert registry.is_current(registry.entry_of(type(upgraded)))
    assert unstructure(value) == before


@by_entry
@given(data=st.data())
def test_upgrade_of_a_document_is_a_fixed_point(entry, data):
    """An upgraded document loads as itself."""
    upgraded = unstructure(structure_any(unstructure(data.draw(instances(entry))), entry.kind))
    assert unstructure(structure_any(upgraded, entry.kind)) == upgraded


DOWNGRADES = [step for step in registry.steps() if step.source.version > step.target.version]


@pytest.mark.parametrize("step", DOWNGRADES, ids=lambda s: f"{s.source}-{s.target.version}")
@given(data=st.data())
def test_downgrade_and_upgrade(step, data):
    """A downgrade refuses with a reason, or the way down and up again changes nothing more."""
    value = data.draw(instances(step.source))
    try:
        lower = step.function(value)
    except QconfigError as error:
        problems = error.problems
    else:
        problems = ()
    assert all(isinstance(p, MigrationError) and p.pointer for p in problems)
    assume(not problems)
    higher = registry.convert(lower, step.source.version)
    assert registry.convert(registry.convert(higher, step.target.version)) == higher


def nodes(value, place=()):
    """Yield the path of every value in a document."""
    yield place
    items = []
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield from nodes(inner, (*place, key))


def replaced(document, place, value):
    """Return the document with another value at a path."""
    if not place:
        return value
    result = copy.deepcopy(document)
    parent = result
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = value
    return result


JSON_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False).filter(lambda f: not f.is_integer()),
    st.text(max_size=5),
    st.sampled_from([[], {}, [1], [None], {"type": "PerRow"}, {"dtype": "int8", "shape": [1]}]),
)


@by_entry
@given(data=st.data())
def test_schema_accepts_every_document_that_the_class_accepts(entry, data):
    """Whatever stands anywhere in a document: what the class takes, the schema takes."""
    document = unstructure(data.draw(instances(entry)))
    place = data.draw(st.sampled_from(list(nodes(document))))
    changed = replaced(document, place, data.draw(JSON_VALUES))
    if not refuses(entry, changed):
        assert list(validator(entry).iter_errors(changed)) == []


@by_entry
@given(data=st.data())
def test_wrong_type_is_refused_by_both(entry, data):
    """A list of such numbers has no place in these documents, for the class or the schema."""
    document = unstructure(data.draw(instances(entry)))
    place = data.draw(st.sampled_from([p for p in nodes(document) if p]))
    changed = replaced(document, place, [0.5])
    assert refuses(entry, changed)
    assert not validator(entry).is_valid(changed)


@by_entry
@given(data=st.data())
def test_unknown_key_is_refused_by_both(entry, data):
    """A key that no class has is refused in every object that is not a table of names."""
    document = unstructure(data.draw(instances(entry)))
    objects = [p for p in nodes(document) if isinstance(at(document, p), dict)]
    tables = {("configs",), ("fqn_to_config",)}
    place = data.draw(st.sampled_from([p for p in objects if p not in tables]))
    changed = replaced(document, (*place, "surplus"), 1)
    assert refuses(entry, changed)
    assert not validator(entry).is_valid(changed)


def at(document, place):
    """Return what stands at a path."""
    for key in place:
        document = document[key]
    return document


@by_entry
def test_missing_key_is_refused_by_both(entry):
    """Each required key, type and version among them, is asked for by class and schema."""
    schema = schema_of(entry)
    document = unstructure(_some(entry))
    for key in schema["required"]:
        changed = {k: v for k, v in document.items() if k != key}
        assert refuses(entry, changed)
        assert not validator(entry).is_valid(changed)


def _some(entry):
    """Return one valid object of a version: that of its first golden document."""
    document = json.loads(golden_cases(entry)[0].read_bytes())
    return structure_as_written(document, entry.kind)


@by_entry
def test_value_out_of_bounds_is_refused_by_both(entry):
    """One below each minimum and one above each maximum is refused by class and schema."""
    document = unstructure(_some(entry))
    for name, field in schema_of(entry)["properties"].items():
        for keyword, step in (("minimum", -1), ("maximum", 1)):
            if keyword in field:
                bound = field[keyword]
                beyond = bound + step
                if beyond == bound:  # a float too large for a step of 1
                    beyond = math.nextafter(bound, step * math.inf)
                changed = document | {name: beyond}
                assert refuses(entry, changed)
                assert not validator(entry).is_valid(changed)


@pytest.mark.parametrize(
    ("granularity", "is_valid"),
    [
        ({"type": "PerGroup", "group_size": 1}, True),
        ({"type": "PerGroup", "group_size": 0}, False),
        ({"type": "PerGroup", "group_size": -32}, False),
        ({"type": "PerGroup", "group_size": 2**31}, False),
        ({"type": "PerGroup", "group_size": 10**30}, False),
        ({"type": "PerGroup"}, False),
        ({"type": "PerRow", "dim": 16}, False),
        ({"type": "PerRow", "dim": -16}, True),
        ({"type": "PerRow", "axis": 0}, False),
        ({"type": "PerBlock"}, False),
        ({"dim": 0}, False),
        ("PerRow", False),
        (None, False),
    ],
)
def test_granularity_in_class_and_schema(granularity, is_valid):
    """Class and schema agree about a value inside a config."""
    entry = registry.get("Int8WeightOnlyConfig", 3)
    document = {"type": entry.name, "version": 3, "granularity": granularity}
    assert refuses(entry, document) is not is_valid
    assert COMBINED.is_valid(document) is is_valid


@pytest.mark.parametrize(("version", "dim"), [(3.0, 1), (3, 1.0)])
def test_where_class_and_schema_differ(version, dim):
    """JSON Schema takes 1.0 for an integer, the class does not."""
    entry = registry.get("Int8WeightOnlyConfig", 3)
    granularity = {"type": "PerRow", "dim": dim}
    document = {"type": entry.name, "version": version, "granularity": granularity}
    assert COMBINED.is_valid(document)
    assert refuses(entry, document)
