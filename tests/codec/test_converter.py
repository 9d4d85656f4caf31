"""Strict in, canonical out: what structures, what does not, and what the errors say."""

import copy
import time
from enum import StrEnum
from typing import Literal

import pytest

from qconfig.codec.converter import (
    structure_any,
    structure_as_written,
)
from qconfig.codec.dtypes import DType
from qconfig.configs import Int8WeightOnlyConfig, PerGroup
from qconfig.errors import (
    DocumentErrors,
    FieldError,
    NewerVersionError,
    QconfigError,
    UnknownFieldError,
    UnknownNameError,
)
from qconfig.migrations.int8_weight_only_config import Int8WeightOnlyConfigV1
from qconfig.versioning import Kind
from tests.codec.converter_samples import CONVERTER, int8


class Color(StrEnum):
    """A sample enum."""

    RED = "red"
    GREEN = "green"


ACCEPTED = [
    (bool, True, True),
    (int, 32, 32),
    (int, -(2**70), -(2**70)),
    (float, 1.5, 1.5),
    (float, 1, 1.0),
    (str, "32", "32"),
    (Color, "red", Color.RED),
    (DType, "bfloat16", DType.BFLOAT16),
    (Literal["a", 1], 1, 1),
    (tuple[int, ...], [1, 2], (1, 2)),
    (tuple[tuple[str, ...], ...], [["a"], []], (("a",), ())),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (int | None, None, None),
]


REFUSED = [
    (bool, 1),
    (bool, "true"),
    (bool, None),
    (int, "32"),
    (int, 1.0),
    (int, 3.5),
    (int, True),
    (int, None),
    (float, "1.5"),
    (float, True),
    (float, float("nan")),
    (float, float("inf")),
    (float, 10**400),
    (str, 5),
    (str, None),
    (str, b"a"),
    (Color, "RED"),
    (Color, "blue"),
    (Color, None),
    (DType, "torch.int8"),
    (DType, "load"),
    (DType, "__members__"),
    (Literal["a", 1], True),
    (Literal["a", 1], 1.0),
    (Literal["a", 1], "b"),
    (tuple[int, ...], "12"),
    (tuple[int, ...], {"0": 1}),
    (tuple[int, ...], None),
    (dict[str, int], [["a", 1]]),
    (dict[str, int], {1: 1}),
    (int | None, "null"),
]


@pytest.mark.parametrize(("kind", "data", "expected"), ACCEPTED, ids=str)
def test_value_is_taken_as_it_is(kind, data, expected):
    """A value of the right JSON type becomes a value of the field's type."""
    found = CONVERTER.structure(data, kind)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(("kind", "data"), REFUSED, ids=lambda v: str(v)[:30])
def test_value_is_not_coerced(kind, data):
    """A value of another JSON type is an error of ours: "32" is not 32, true is not 1."""
    with pytest.raises(QconfigError):
        CONVERTER.structure(data, kind)


def test_upgrade_happens_on_the_way_in():
    """`structure_any` gives the current class, `structure_as_written` the class of its time."""
    document = {"type": "Int8WeightOnlyConfig", "version": 1, "group_size": 32}
    assert structure_any(document) == Int8WeightOnlyConfig(PerGroup(32))
    assert structure_as_written(document) == Int8WeightOnlyConfigV1(32)


def test_nested_config_is_upgraded():
    """A config inside a config comes in its own version and becomes current."""
    nested = {"type": "Int8WeightOnlyConfig", "version": 1, "group_size": 32}
    document = {"type": "FqnToConfig", "version": 2, "configs": {"a": nested}}
    assert structure_any(document).configs == {"a": Int8WeightOnlyConfig(PerGroup(32))}


def test_document_is_not_changed():
    """Structuring leaves its input as it was."""
    document = {"type": "FqnToConfig", "version": 2, "configs": {"a": int8()}, "default": "a"}
    before = copy.deepcopy(document)
    structure_any(document)
    assert document == before


@pytest.mark.parametrize(
    ("document", "error", "text"),
    [
        (
            int8(granularity={"type": "PerGroup", "group_size": "32"}),
            FieldError,
            "/granularity/group_size: wrong type\n  found: '32'\n  expected: an integer",
        ),
        (
            int8(granularity={"type": "PerGroup", "group_size": 0}),
            FieldError,
            (
                "/granularity/group_size: group_size is out of range\n"
                "  found: 0\n  expected: at least 1"
            ),
        ),
        (
            int8(granularity={"type": "PerGroup", "group_size": 10**30}),
            FieldError,
            (
                f"/granularity/group_size: group_size is out of range\n  found: {10**30}\n"
                "  expected: at most 2147483647"
            ),
        ),
        (
            int8(granularity={"type": "PerGroup"}),
            FieldError,
            "/granularity/group_size: missing field\n  expected: a field of PerGroup v1",
        ),
        (
            int8(granularity={"type": "PerRwo"}),
            UnknownNameError,
            (
                "/granularity/type: unknown or missing type\n  found: 'PerRwo'\n"
                "  expected: an object with type 'PerTensor' or 'PerRow' or 'PerAxis' or "
                "'PerGroup'\n"
                "  hint: did you mean 'PerRow'?"
            ),
        ),
        (
            int8(granularity="PerRow"),
            UnknownNameError,
            (
                "/granularity: wrong type\n  found: 'PerRow'\n"
                "  expected: an object with type 'PerTensor' or 'PerRow' or 'PerAxis' or 'PerGroup'"
            ),
        ),
        (
            int8(set_inductor_config=1),
            FieldError,
            "/set_inductor_config: wrong type\n  found: 1\n  expected: true or false",
        ),
        (
            int8(group_size=32),
            UnknownFieldError,
            (
                "/group_size: unknown field\n  found: 'group_size'\n"
                "  expected: a field of Int8WeightOnlyConfig v3: granularity, set_inductor_config\n"
                "  hint: it is a field of Int8WeightOnlyConfig v2"
            ),
        ),
        (
            int8(granularty=None),
            UnknownFieldError,
            (
                "/granularty: unknown field\n  found: 'granularty'\n"
                "  expected: a field of Int8WeightOnlyConfig v3: granularity, set_inductor_config\n"
                "  hint: did you mean 'granularity'?"
            ),
        ),
        (
            int8() | {"version": 4},
            NewerVersionError,
            (
                "/version: Int8WeightOnlyConfig version 4 is newer than this qconfig\n  found: 4\n"
                "  expected: Int8WeightOnlyConfig version 1 to 3\n  hint: upgrade qconfig"
            ),
        ),
        (
            int8() | {"version": "3"},
            FieldError,
            (
                "/version: version must be an integer\n  found: '3'\n"
                "  expected: Int8WeightOnlyConfig version 1 to 3"
            ),
        ),
        (
            {"type": "Int8WeightOnlyConfig"},
            FieldError,
            (
                "/version: missing field\n"
                '  hint: add "version": 3 if the document follows the current form'
            ),
        ),
        (
            {"version": 3},
            FieldError,
            '/type: missing field\n  hint: add "type", such as "FqnToConfig"',
        ),
        (
            {"type": "PerRow", "version": 1},
            UnknownNameError,
            "/type: PerRow is not a config\n  found: 'PerRow'",
        ),
        (
            [int8()],
            FieldError,
            (
                "wrong type\n  found: [{'type': 'Int8WeightOnlyConfig', 'version': 3}]\n"
                "  expected: an object with type and version of a config"
            ),
        ),
        (
            {
                "type": "FqnToConfig",
                "version": 2,
                "configs": {"a/b~c": int8(set_inductor_config=None)},
            },
            FieldError,
            (
                "/configs/a~1b~0c/set_inductor_config: wrong type\n  found: None\n"
                "  expected: true or false"
            ),
        ),
        (
            {"type": "FqnToConfig", "version": 2, "rules": [{"match": "a", "use": "w8"}]},
            FieldError,
            "/rules/0/use: no config of that name\n  found: 'w8'\n  expected: one of [] or null",
        ),
        (
            {"type": "FqnToConfig", "version": 2, "precedence": "Declared"},
            UnknownNameError,
            (
                "/precedence: unknown Precedence\n  found: 'Declared'\n"
                "  expected: one of 'declared', 'parameters_first'\n"
                "  hint: did you mean 'declared'?"
            ),
        ),
    ],
    ids=lambda v: None if isinstance(v, type) else str(v)[:40],
)
def test_error_text(document, error, text):
    """Each error names place, finding, what is allowed, and a cure where there is one."""
    with pytest.raises(error) as caught:
        structure_any(document)
    assert str(caught.value) == text


def test_all_problems_at_once():
    """Every problem of a document is reported, each with its pointer, in one error."""
    document = {
        "type": "FqnToConfig",
        "version": 2,
        "configs": {
            "a": int8(granularity={"type": "PerGroup", "group_size": "x"}, surplus=1),
            "b": {"type": "Nothing", "version": 1},
            "c": int8() | {"version": 99},
        },
        "rules": [{"match": 1}, {"match": "x", "use": None, "optional": "no"}],
        "fused": [["a", 2]],
    }
    with pytest.raises(DocumentErrors) as caught:
        structure_any(document)
    assert [p.pointer for p in caught.value.problems] == [
        "/configs/a/surplus",
        "/configs/a/granularity/group_size",
        "/configs/b/type",
        "/configs/c/version",
        "/rules/0/match",
        "/rules/0/use",
        "/rules/1/optional",
        "/fused/0/1",
    ]
    assert caught.value.exit_code == 4


def test_all_bounds_at_once():
    """Values out of bounds are collected beside values of a wrong type."""
    document = {
        "type": "Int8WeightOnlyConfig",
        "version": 2,
        "group_size": 0,
        "set_inductor_config": 1,
        "granularity": {"type": "PerRow", "dim": 99},
    }
    with pytest.raises(DocumentErrors) as caught:
        structure_any(document)
    assert {p.pointer for p in caught.value.problems} == {
        "/group_size",
        "/set_inductor_config",
        "/granularity/dim",
    }


def test_time_is_linear_in_the_depth():
    """A wrong value deep inside is looked at once, not twice a level."""
    document = int8(granularity=1)
    for _ in range(30):
        document = {"type": "FqnToConfig", "version": 2, "configs": {"a": document}}
    start = time.process_time()
    with pytest.raises(QconfigError):
        structure_any(document)
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "document",
    [
        {"type": "os.system", "version": 1},
        {"type": "qconfig.configs.Int8WeightOnlyConfig", "version": 3},
        {"type": "__class__", "version": 1},
        {"type": ["Int8WeightOnlyConfig"], "version": 3},
        {"type": {"a": 1}, "version": 1},
        {"type": None, "version": None},
    ],
    ids=str,
)
def test_type_is_only_looked_up(document):
    """A type is a registered string; anything else is unknown."""
    with pytest.raises(UnknownNameError, match="unknown type"):
        structure_any(document)


@pytest.mark.parametrize("key", ["type", "version"])
def test_nested_value_says_its_own_type(key):
    """Where a field takes one class only, a `type` that says another one is wrong."""
    document = {
        "type": "Int8TensorLayout",
        "version": 5,
        "qdata": {"dtype": "int8", "shape": [2, 2]},
        "scale": {"dtype": "float32", "shape": [2, 1]},
        "block_size": [1, 2],
        "dtype": "float32",
        "act_quant_kwargs": {key: "PerRow", "granularity": {"type": "PerRow"}},
    }
    with pytest.raises(QconfigError) as caught:
        structure_any(document, Kind.LAYOUT)
    assert caught.value.pointer == f"/act_quant_kwargs/{key}"


@pytest.mark.parametrize(
    "record",
    [
        None,
        [],
        {"dtype": "int8"},
        {"shape": [2, 2]},
        {"dtype": "int8", "shape": [2, 2], "data": ""},
        {"dtype": "int8", "shape": (2, 2)},
        {"dtype": "int8", "shape": [2, -2]},
        {"dtype": "int8", "shape": [2, 2.0]},
        {"dtype": "int8", "shape": [2, True]},
        {"dtype": "int8", "shape": [2, 2**48]},
        {"dtype": "int8", "shape": [2**30, 2**30]},
        {"dtype": "int8", "shape": [1] * 17},
        {"dtype": "int8", "shape": [2]},
        {"dtype": "uint8", "shape": [2, 2]},
        {"dtype": "torch.int8", "shape": [2, 2]},
    ],
    ids=str,
)
def test_record_of_a_stored_tensor(record):
    """A tensor of a layout is a dtype and a shape, within bounds and as its pattern says."""
    document = {
        "type": "Int8TensorLayout",
        "version": 5,
        "qdata": record,
        "scale": {"dtype": "float32", "shape": [2, 1]},
        "block_size": [1, 2],
        "dtype": "float32",
    }
    with pytest.raises(QconfigError) as caught:
        structure_any(document, Kind.LAYOUT)
    assert caught.value.pointer.startswith("/qdata")
