"""JSON Schemas: valid, closed, described, and equal to their files."""

import json
from enum import StrEnum
from typing import Any, Literal

import pytest
from attrs import frozen
from jsonschema import Draft202012Validator

from qconfig.codec import strict_json
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.errors import NewerVersionError, RegistrationError, UnknownNameError
from qconfig.schemas import read_combined_schema, read_schema
from qconfig.versioning import Config, Entry, FieldInfo, Kind, attribute, registry
from qconfig.versioning.breaking import breaking_changes
from qconfig.versioning.schema import combined_schema, schema_of, schema_text
from tests.regenerate import SCHEMAS
from tests.strategies import documented_entries

ENTRIES = documented_entries()
CONFIGS = [entry for entry in ENTRIES if entry.kind is Kind.CONFIG]
by_entry = pytest.mark.parametrize("entry", ENTRIES, ids=str)


def objects(schema: Any):
    """Yield every schema within a schema that describes an object with known properties."""
    if isinstance(schema, dict):
        if "properties" in schema and schema.get("type") in ("object", ["object", "null"]):
            yield schema
        for key, part in schema.items():
            if key != "if":
                yield from objects(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from objects(part)


@by_entry
def test_schema_is_valid(entry):
    """Each schema follows the metaschema of draft 2020-12."""
    Draft202012Validator.check_schema(schema_of(entry))


def test_combined_schema_is_valid():
    """The schema for editors follows the metaschema of draft 2020-12."""
    Draft202012Validator.check_schema(combined_schema())


@by_entry
def test_schema_is_closed(entry):
    """Objects take no unknown key, except where any config or a choice by type stands."""
    for schema in objects(schema_of(entry)):
        is_choice = "allOf" in schema
        is_any_config = schema["properties"].keys() == {"type", "version"}
        assert is_choice or is_any_config or schema["additionalProperties"] is False


@by_entry
def test_schema_identifies_itself(entry):
    """Each schema has an $id of its own, a title, and pins type and version."""
    schema = schema_of(entry)
    folder = entry.schema_path.partition("/")[0]
    assert schema["$id"] == f"urn:qconfig:schema:{folder}:v{entry.version}"
    assert schema["title"] == f"{entry.name} version {entry.version}"
    assert schema["properties"]["type"]["const"] == entry.name
    assert schema["properties"]["version"]["const"] == entry.version


@by_entry
def test_everything_is_described(entry):
    """Each class, definition and field has a description."""
    schema = schema_of(entry)
    assert schema["description"]
    for name, definition in schema.get("$defs", {}).items():
        assert definition["description"], name
    for part in [schema, *schema.get("$defs", {}).values()]:
        for name, field in part.get("properties", {}).items():
            assert field.get("description"), name


@by_entry
def test_schema_needs_no_other_file(entry):
    """Each reference leads to a definition of the same schema."""
    schema = schema_of(entry)
    references = set(_references(schema))
    assert references <= {f"#/$defs/{name}" for name in schema.get("$defs", {})}


def _references(schema: Any):
    if isinstance(schema, dict):
        for key, part in schema.items():
            if key == "$ref":
                yield part
            else:
                yield from _references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)


@pytest.mark.parametrize("entry", [e for e in ENTRIES if registry.is_current(e)], ids=str)
def test_file_of_a_current_version_is_the_generated_one(entry):
    """The file of a current version holds exactly what its class gives."""
    text = (SCHEMAS / entry.schema_path).read_text("utf-8")
    assert text == schema_text(schema_of(entry)), "run: python -m tests.regenerate"


@pytest.mark.parametrize("entry", [e for e in ENTRIES if not registry.is_current(e)], ids=str)
def test_class_of_a_retired_version_accepts_what_its_file_says(entry):
    """A retired class refuses nothing that its file allows, and means the same by it."""
    released = json.loads((SCHEMAS / entry.schema_path).read_text("utf-8"))
    assert breaking_changes(released, schema_of(entry)) == []


def test_combined_file_is_the_generated_one():
    """schemas/qconfig.json holds exactly what the classes give."""
    text = (SCHEMAS / "qconfig.json").read_text("utf-8")
    assert text == schema_text(combined_schema()), "run: python -m tests.regenerate"


@by_entry
def test_text_is_canonical(entry):
    """Schema files are written like documents."""
    schema = schema_of(entry)
    assert schema_text(schema) == strict_json.dumps(schema)


@by_entry
def test_reader_gives_the_file(entry):
    """`qconfig.schemas.read_schema` returns what lies in the file."""
    text = (SCHEMAS / entry.schema_path).read_text("utf-8")
    assert read_schema(entry.name, entry.version) == json.loads(text)


def test_reader_takes_the_newest_by_default():
    """Without a version the reader returns the newest schema."""
    assert read_schema("FqnToConfig")["properties"]["version"]["const"] == 2


def test_reader_gives_the_combined_schema():
    """`read_combined_schema` returns the schema for editors."""
    assert read_combined_schema() == combined_schema()


@pytest.mark.parametrize("name", ["../released/0.1.0", "Nothing", "PerRow"])
def test_reader_knows_registered_names_only(name):
    """A name never becomes a path, and a value has no file."""
    with pytest.raises(UnknownNameError):
        read_schema(name, 1)


def test_reader_refuses_a_newer_version():
    """A version of the future gives the registry's error."""
    with pytest.raises(NewerVersionError):
        read_schema("FqnToConfig", 9)


def test_nested_config_is_open_in_the_schema_of_one_version():
    """Another family of configs does not change the schema of FqnToConfig."""
    schema = schema_of(registry.get("FqnToConfig", 2))
    nested = schema["properties"]["configs"]["additionalProperties"]
    assert nested["properties"].keys() == {"type", "version"}
    assert "additionalProperties" not in nested


def test_combined_schema_looks_into_nested_configs():
    """The schema for editors says which field of a nested config is wrong, and nothing else."""
    document = {
        "type": "FqnToConfig",
        "version": 2,
        "configs": {
            "a": {
                "type": "Int8WeightOnlyConfig",
                "version": 3,
                "granularity": {"type": "PerGroup", "group_size": "32"},
            }
        },
    }
    errors = list(Draft202012Validator(combined_schema()).iter_errors(document))
    assert [e.json_path for e in errors] == ["$.configs.a.granularity.group_size"]
    assert errors[0].message == "'32' is not of type 'integer'"


@pytest.mark.parametrize("nested", [False, True])
def test_schema_key_stands_at_the_top_only(nested):
    """`$schema` is allowed at the top of a config document, not inside a nested config."""
    inner = {"type": "Int8WeightOnlyConfig", "version": 3}
    top = {"type": "FqnToConfig", "version": 2, "configs": {"a": inner}}
    (inner if nested else top)["$schema"] = "qconfig.json"
    assert Draft202012Validator(combined_schema()).is_valid(top) is not nested


@pytest.mark.parametrize("version", [0, 4, "3", True])
def test_combined_schema_knows_the_versions(version):
    """A version that nobody registered is refused by the schema for editors."""
    document = {"type": "Int8WeightOnlyConfig", "version": version}
    assert not Draft202012Validator(combined_schema()).is_valid(document)


class Color(StrEnum):
    """A sample enum."""

    RED = "red"


@frozen
class Sample(Config):
    """A config with every type that documents can hold."""

    switch: bool = attribute("B.")
    count: int | None = attribute("I.", default=None, minimum=1, maximum=9)
    ratio: float = attribute("F.", default=0.5, minimum=0)
    name: str = attribute("S.", default="x", pattern="^x", min_length=1, max_length=5)
    mode: Literal["a", 1] = attribute("L.", default="a")
    color: Color | None = attribute("E.", default=Color.RED)
    dtype: DType = attribute("D.", default=DType.INT8)
    sizes: tuple[int, ...] = attribute("T.", factory=tuple, min_length=1, max_length=3)
    table: dict[str, float] = attribute("M.", factory=dict, max_length=2)
    inner: Config | None = attribute("C.", default=None)
    scale: TensorValue | None = attribute("Q.", default=None)


def sample_fields() -> dict[str, Any]:
    """Return the schemas of the sample's fields, without descriptions."""
    fields = schema_of(Entry("Sample", 1, Kind.CONFIG, Sample))["properties"]
    return {
        name: {k: v for k, v in field.items() if k != "description"}
        for name, field in fields.items()
    }


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("switch", {"type": "boolean"}),
        (
            "count",
            {"type": ["integer", "null"], "minimum": 1, "maximum": 9, "default": None},
        ),
        ("ratio", {"type": "number", "minimum": 0, "default": 0.5}),
        (
            "name",
            {"type": "string", "pattern": "^x", "minLength": 1, "maxLength": 5, "default": "x"},
        ),
        ("mode", {"enum": ["a", 1], "default": "a"}),
        (
            "color",
            {"if": {"type": "null"}, "else": {"$ref": "#/$defs/Color"}, "default": "red"},
        ),
        ("dtype", {"$ref": "#/$defs/DType", "default": "int8"}),
        (
            "sizes",
            {
                "type": "array",
                "items": {"type": "integer"},
                "minItems": 1,
                "maxItems": 3,
                "default": [],
            },
        ),
        (
            "table",
            {
                "type": "object",
                "additionalProperties": {"type": "number"},
                "maxProperties": 2,
                "default": {},
            },
        ),
    ],
)
def test_schema_of_a_field(field, expected):
    """Type, bounds and default of a field become the keywords that say so."""
    assert sample_fields()[field] == expected


def test_schema_of_a_tensor_in_a_config():
    """A tensor in a config is an object with dtype, shape and base64, or null."""
    schema = sample_fields()["scale"]
    assert schema["type"] == ["object", "null"]
    assert schema["required"] == ["type", "dtype", "shape", "data"]
    assert "bfloat16" in schema["properties"]["dtype"]["enum"]


def test_schema_of_a_tensor_in_a_layout():
    """A tensor of a layout is a record of dtype and shape with the rank that its pattern allows."""
    schema = schema_of(registry.get("Int8TensorLayout", 5))["properties"]["qdata"]
    assert schema["properties"]["dtype"]["enum"] == ["int8"]
    shape = schema["properties"]["shape"]
    assert (shape["minItems"], shape["maxItems"]) == (2, 16)
    assert schema["additionalProperties"] is False


@frozen
class Strange(Config):
    """A config with a field that documents cannot hold."""

    value: set[int] = attribute("S.")


def test_type_without_a_place_in_documents():
    """A field of a type that documents cannot hold is named when the schema is made."""
    with pytest.raises(RegistrationError) as caught:
        schema_of(Entry("Strange", 1, Kind.CONFIG, Strange))
    assert caught.value.fqn == "Strange v1.value"
    assert caught.value.message == "documents cannot hold a field of this type"


def test_two_types_of_one_name():
    """Two enums of one name in one schema are refused: a definition can be only one of them."""
    twin = StrEnum("Color", ["BLUE"])

    @frozen
    class Twins(Config):
        """A config with two enums of one name."""

        first: Color = attribute("A.")
        second: twin = attribute("B.")

    with pytest.raises(RegistrationError, match="two types are called Color"):
        schema_of(Entry("Twins", 1, Kind.CONFIG, Twins))


def test_bounds_are_checked_by_the_field_too():
    """What the schema bounds, the field's own check refuses."""
    with pytest.raises(ValueError, match="at least 1"):
        FieldInfo("Count.", minimum=1).check(0, "count")
