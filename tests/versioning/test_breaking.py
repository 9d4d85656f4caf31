"""Which edits of a schema break documents, and which do not."""

import copy
import json
import subprocess

import pytest

from qconfig.errors import DocumentSyntaxError, StorageError, UsageError
from qconfig.versioning.breaking import breaking_changes, compare_trees
from qconfig.versioning.schema_tree import read_tree, read_tree_at_git_ref

BASE = {
    "title": "Sample version 1",
    "description": "A sample.",
    "type": "object",
    "properties": {
        "type": {"const": "Sample"},
        "version": {"const": 1},
        "size": {"type": "integer", "minimum": 1, "maximum": 9, "default": 4},
        "name": {"type": "string", "maxLength": 5},
        "mode": {"enum": ["fast", "slow"], "default": "fast"},
        "list": {"type": "array", "items": {"type": "integer"}, "maxItems": 3, "default": []},
        "color": {"if": {"type": "null"}, "else": {"$ref": "#/$defs/Color"}, "default": None},
        "part": {
            "type": ["object", "null"],
            "properties": {"type": {"enum": ["A", "B"]}},
            "required": ["type"],
            "allOf": [
                {
                    "if": {"properties": {"type": {"const": "A"}}, "required": ["type"]},
                    "then": {"$ref": "#/$defs/A"},
                },
                {
                    "if": {"properties": {"type": {"const": "B"}}, "required": ["type"]},
                    "then": {"$ref": "#/$defs/B"},
                },
            ],
            "default": None,
        },
        "table": {
            "type": "object",
            "additionalProperties": {"type": "number"},
            "default": {},
        },
    },
    "required": ["type", "version", "name"],
    "additionalProperties": False,
    "$defs": {
        "Color": {"enum": ["red", "green"]},
        "A": {
            "type": "object",
            "properties": {"type": {"const": "A"}, "n": {"type": "integer", "default": 1}},
            "required": [],
            "additionalProperties": False,
        },
        "B": {
            "type": "object",
            "properties": {"type": {"const": "B"}},
            "required": [],
            "additionalProperties": False,
        },
    },
}
ABSENT = object()
NEW_CASE = {
    "if": {"properties": {"type": {"const": "C"}}, "required": ["type"]},
    "then": {"type": "object", "additionalProperties": False},
}


def edited(*edits):
    """Return the sample schema with values set (or keys removed) at paths."""
    schema = copy.deepcopy(BASE)
    for path, value in edits:
        *parents, key = path.split("/")
        place = schema
        for parent in parents:
            place = place[int(parent)] if isinstance(place, list) else place[parent]
        if value is ABSENT:
            del place[key]
        else:
            place[key] = value
    return schema


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [("title", "Another"), ("description", "Another.")],
        [("properties/size/description", "In bytes.")],
        [("properties/extra", {"type": "string", "default": ""})],
        [("properties/size/minimum", 0), ("properties/size/maximum", ABSENT)],
        [("properties/size/type", "number")],
        [("properties/size/type", ["integer", "null"])],
        [("properties/mode/enum", ["fast", "slow", "odd"])],
        [("properties/mode/enum", ABSENT)],
        [("properties/list/maxItems", 4)],
        [("properties/list/items/type", "number")],
        [("$defs/Color/enum", ["red", "green", "blue"])],
        [("$defs/C", {"enum": [1]})],
        [
            ("required", ["type", "version"]),
            ("properties/name/default", "x"),
        ],
        [
            ("properties/part/properties/type/enum", ["A", "B", "C"]),
            ("properties/part/allOf", [*BASE["properties"]["part"]["allOf"], NEW_CASE]),
        ],
        [("$defs/A/properties/more", {"type": "integer", "default": 0})],
        [("properties/table/additionalProperties", True)],
        [("additionalProperties", True)],
    ],
)
def test_compatible_edit(edits):
    """Edits after which every old document is valid and means the same are no findings."""
    assert breaking_changes(BASE, edited(*edits)) == []


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        (
            [("properties/size", ABSENT)],
            ["/properties/size: field size is gone (removed-field)"],
        ),
        (
            [
                ("properties/extra", {"type": "string"}),
                ("required", ["type", "version", "name", "extra"]),
            ],
            ["/properties/extra: field extra must be there now (added-required-field)"],
        ),
        (
            [("required", ["type", "version", "name", "size"])],
            ["/properties/size: field size must be there now (optional-to-required)"],
        ),
        (
            [("properties/size/default", 5)],
            [
                (
                    "/properties/size: default of size changed from 4 to 5: documents that leave "
                    "it out change their meaning (changed-default)"
                )
            ],
        ),
        (
            [("properties/size/type", "string")],
            ["/properties/size/type: type integer became string (changed-type)"],
        ),
        (
            [("properties/part/type", "object")],
            ["/properties/part/type: type null became object (changed-type)"],
        ),
        (
            [("properties/mode/enum", ["fast"])],
            ["/properties/mode/enum: 'slow' is refused now (narrowed-enum)"],
        ),
        (
            [("$defs/Color/enum", ["red"])],
            ["/properties/color/else/enum: 'green' is refused now (narrowed-enum)"],
        ),
        (
            [("properties/version/const", 2)],
            ["/properties/version/const: 1 is refused now (changed-const)"],
        ),
        (
            [("properties/size/minimum", 2)],
            ["/properties/size/minimum: minimum went from 1 to 2 (tightened-bound)"],
        ),
        (
            [("properties/size/maximum", 8)],
            ["/properties/size/maximum: maximum went from 9 to 8 (tightened-bound)"],
        ),
        (
            [("properties/name/minLength", 1)],
            ["/properties/name/minLength: minLength went from none to 1 (tightened-bound)"],
        ),
        (
            [("properties/list/maxItems", 2)],
            ["/properties/list/maxItems: maxItems went from 3 to 2 (tightened-bound)"],
        ),
        (
            [("properties/name/pattern", "^a")],
            ["/properties/name/pattern: pattern went from None to '^a' (changed-pattern)"],
        ),
        (
            [("properties/list/items/type", "string")],
            ["/properties/list/items/type: type integer became string (changed-type)"],
        ),
        (
            [("properties/table/additionalProperties", False)],
            [
                (
                    "/properties/table/additionalProperties: further fields are refused now "
                    "(closed-object)"
                )
            ],
        ),
        (
            [("properties/table/additionalProperties/type", "integer")],
            [
                (
                    "/properties/table/additionalProperties/type: type number became integer "
                    "(changed-type)"
                )
            ],
        ),
        (
            [("$defs/A/properties/n", ABSENT)],
            ["/properties/part/allOf/0/then/properties/n: field n is gone (removed-field)"],
        ),
        (
            [("$defs/B", ABSENT), ("properties/part/allOf/1/then", True)],
            ["/$defs/B: definition B is gone (removed-definition)"],
        ),
        (
            [
                (
                    "properties/part/allOf",
                    [
                        *BASE["properties"]["part"]["allOf"],
                        {"if": {"required": ["x"]}, "then": {"required": ["y"]}},
                    ],
                )
            ],
            ["/properties/part/allOf/2: there is a further condition (added-condition)"],
        ),
        (
            [("properties/list/uniqueItems", True)],
            [
                (
                    "/properties/list: uniqueItems changed, and what that means is not known "
                    "(unknown-keyword)"
                )
            ],
        ),
        (
            [("properties/name", False)],
            ["/properties/name: nothing is allowed here any more (changed-type)"],
        ),
    ],
)
def test_breaking_edit(edits, expected):
    """Edits that refuse an old document, or change its meaning, are named with place and kind."""
    assert [str(change) for change in breaking_changes(BASE, edited(*edits))] == expected


def test_open_object_that_gets_a_field():
    """In an open object a new field may refuse what was free before."""
    old = {"type": "object", "properties": {}}
    new = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert [c.kind for c in breaking_changes(old, new)] == ["changed-type"]


def test_object_that_is_closed():
    """Closing an open object refuses keys that were free before."""
    old = {"type": "object", "properties": {}}
    new = {"type": "object", "properties": {}, "additionalProperties": False}
    assert [c.kind for c in breaking_changes(old, new)] == ["closed-object"]


def test_constraint_beside_a_reference():
    """A definition that was compared before is compared again where more stands beside it."""
    definition = {"A": {"type": "object", "properties": {"q": {"type": "integer"}}}}
    plain, narrower = {"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A", "maxProperties": 0}
    old = {"properties": {"x": plain, "y": plain}, "$defs": definition}
    new = {"properties": {"x": plain, "y": narrower}, "$defs": definition}
    assert [c.pointer for c in breaking_changes(old, new)] == ["/properties/y/maxProperties"]


def test_definition_that_contains_itself():
    """A definition that refers to itself is compared once and to an end."""
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": []}
    schema = {"$ref": "#/$defs/Node", "$defs": {"Node": node}}
    other = copy.deepcopy(schema)
    other["$defs"]["Node"]["properties"]["next"]["description"] = "The next one."
    assert breaking_changes(schema, other) == []


def test_trees_are_compared_by_path():
    """Edits and lost versions are findings with their path; new versions are fine."""
    old = {"sample/v1.json": BASE, "gone/v1.json": BASE}
    new = {"sample/v1.json": edited(("properties/size", ABSENT)), "sample/v2.json": BASE}
    assert [str(change) for change in compare_trees(old, new)] == [
        (
            "gone/v1.json#: a released version is gone: its documents could not be read any more "
            "(removed-version)"
        ),
        "sample/v1.json#/properties/size: field size is gone (removed-field)",
    ]


def write_tree(folder, schema):
    """Write a schemas folder with one version and files that are none."""
    for path, value in {
        "sample/v1.json": schema,
        "qconfig.json": {},
        "released/0.1.0.json": {},
    }.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(value), "utf-8")


def test_tree_in_a_folder(tmp_path):
    """Only the files of versions are read from a folder."""
    write_tree(tmp_path, BASE)
    assert read_tree(tmp_path) == {"sample/v1.json": BASE}


def test_tree_in_no_folder(tmp_path):
    """A folder that is not there is named."""
    with pytest.raises(StorageError, match="no such folder"):
        read_tree(tmp_path / "nothing")


@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000])
def test_tree_with_a_broken_file(tmp_path, text):
    """A schema file that is no JSON object is named."""
    write_tree(tmp_path, BASE)
    (tmp_path / "sample" / "v1.json").write_text(text, "utf-8")
    with pytest.raises(DocumentSyntaxError, match=r"sample/v1\.json"):
        read_tree(tmp_path)


@pytest.fixture
def repository(tmp_path):
    """A git repository whose tag v0.1.0 holds a schema that has changed since."""

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        subprocess.run(command, check=True, capture_output=True)

    git("init", "-q")
    write_tree(tmp_path / "schemas", BASE)
    git("add", ".")
    git("commit", "-qm", "release")
    git("tag", "v0.1.0")
    write_tree(tmp_path / "schemas", edited(("properties/size", ABSENT)))
    return tmp_path


def test_tree_at_a_tag(repository):
    """The schemas of a tag are read from git, whatever lies in the working tree."""
    assert read_tree_at_git_ref("v0.1.0", repository=repository) == {"sample/v1.json": BASE}


def test_tag_against_the_working_tree(repository):
    """What changed since a tag is found."""
    old = read_tree_at_git_ref("v0.1.0", repository=repository)
    kinds = [c.kind for c in compare_trees(old, read_tree(repository / "schemas"))]
    assert kinds == ["removed-field"]


@pytest.mark.parametrize("ref", ["-h", "--output=/tmp/x", "", "a\nb", "nothing", "HEAD:schemas"])
def test_ref_that_is_none(repository, ref):
    """What is no commit is refused, and is never an option of git."""
    with pytest.raises(UsageError):
        read_tree_at_git_ref(ref, repository=repository)


def test_folder_that_is_no_repository(tmp_path):
    """Outside of a repository there is no commit."""
    with pytest.raises(UsageError, match="git knows no such commit"):
        read_tree_at_git_ref("HEAD", repository=tmp_path)
