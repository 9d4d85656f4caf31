"""`qconfig diff`, and the differences between two documents."""

import pytest

from qconfig.cli.differences import differences
from tests.cli.calls import ROW, RULES, call, call_json, write


def found(before, after):
    """Return pointer and change of each difference."""
    return [(d.pointer, d.change) for d in differences(before, after)]


def test_equal_configs(config):
    """A config is equal to itself, exit code 0."""
    result = call("diff", config, config)
    assert (result.exit_code, result.stdout) == (0, "no differences\n")


def test_versions_are_no_difference(tmp_path):
    """Two versions that mean the same are equal, since both are brought to the current one."""
    old = write(tmp_path / "a.json", {"type": "Int8WeightOnlyConfig", "version": 1})
    assert call("diff", old, write(tmp_path / "b.json", ROW)).exit_code == 0


def test_different_configs(config, tmp_path):
    """A difference has a mark, a JSON pointer and both values; exit code 1."""
    other = write(tmp_path / "other.json", RULES | {"default": "row"})
    result = call("diff", config, other)
    assert result.exit_code == 1
    assert result.stdout == '~ /default: null -> "row"\n1 difference\n'


def test_json(config, tmp_path):
    """A difference in JSON has its pointer, its kind and the sides that exist."""
    rules = [{"match": "first", "use": None}, *RULES["rules"]]
    code, document = call_json("diff", config, write(tmp_path / "o.json", RULES | {"rules": rules}))
    (difference,) = document["result"]["differences"]
    assert (code, difference["pointer"], difference["change"]) == (1, "/rules/0", "added")
    assert "before" not in difference


def test_config_and_checkpoint(config, old_model):
    """A config and a checkpoint cannot be compared."""
    assert call("diff", config, old_model).exit_code == 2


def test_a_path_that_is_missing(old_model, tmp_path):
    """What does not exist is no config beside a checkpoint, it is missing: exit code 5."""
    result = call("diff", old_model, tmp_path / "none")
    assert (result.exit_code, "no such file or directory" in result.stderr) == (5, True)


def test_equal_checkpoints(old_model):
    """A checkpoint is equal to itself; that values are not compared is noted."""
    result = call("diff", old_model, old_model)
    assert result.exit_code == 0
    assert "values are not" in result.stderr


def test_different_checkpoints(old_model, current_model, float_model):
    """Tensors that are gone, new, or have another layout, dtype or size are listed."""
    result = call("diff", old_model, current_model)
    assert result.exit_code == 1
    assert (
        '~ /tensors/layers.0.up.weight/layout: "Int8TensorLayout v1" -> "Int8TensorLayout v5"\n'
        in result.stdout
    )
    assert "+ /tensors/norm.weight: " in call("diff", old_model, float_model).stdout
    assert "- /tensors/norm.weight: " in call("diff", float_model, old_model).stdout


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {}, []),
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
        ({"a": 1}, {"a": 1.0}, [("/a", "changed")]),
        ({"a": 1}, {"a": True}, [("/a", "changed")]),
        ({"a": None}, {}, [("/a", "removed")]),
        ({}, {"a": None}, [("/a", "added")]),
        ({"a": [1, 2, 3]}, {"a": [0, 1, 2, 3]}, [("/a/0", "added")]),
        ({"a": [1, 2, 3]}, {"a": [1, 3]}, [("/a/1", "removed")]),
        ([{"x": 1}, {"y": 1}], [{"x": 2}, {"y": 1}], [("/0/x", "changed")]),
        ([1, 2], [2, 1], [("/0", "added"), ("/1", "removed")]),
        ({"a/b~c": 1}, {"a/b~c": 2}, [("/a~1b~0c", "changed")]),
        ({"a": {}}, {"a": []}, [("/a", "changed")]),
        (1, 2, [("", "changed")]),
    ],
)
def test_differences(before, after, expected):
    """Objects are compared by key, arrays are aligned, and 1, 1.0 and true differ."""
    assert sorted(found(before, after)) == sorted(expected)


def test_long_arrays_are_compared_by_place():
    """Arrays that are too long to be aligned are compared item by item."""
    before = list(range(6000))
    assert found(before, [*before[:3], -1, *before[4:], 7]) == [
        ("/3", "changed"),
        ("/6000", "added"),
    ]
