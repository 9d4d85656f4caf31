"""Maps of torchao with a config for each of many layers, few of them different."""

from typing import Any

import pytest

from qconfig.configs import FqnToConfig
from qconfig.dialects.torchao import read
from qconfig.dialects.torchao.read import from_envelope, read_document
from qconfig.errors import QconfigError


def weight_only(group_size: object) -> dict[str, Any]:
    """Return an envelope with a granularity in it."""
    granularity = {"_type": "PerGroup", "_version": 1, "_data": {"group_size": group_size}}
    data = {"granularity": granularity, "set_inductor_config": True}
    return {"_type": "Int8WeightOnlyConfig", "_version": 2, "_data": data}


def mapping(entries: dict[str, Any]) -> dict[str, Any]:
    """Return the envelope of a map."""
    return {"_type": "FqnToConfig", "_version": 1, "_data": {"fqn_to_config": entries}}


def test_equal_entries_are_translated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work grows with the number of different configs, not with that of layers."""
    asked = []
    original = read.entry_for

    def entry_for(name: str, *args: Any, **kwargs: Any) -> Any:
        asked.append(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(read, "entry_for", entry_for)
    config: Any = from_envelope(
        mapping({f"layers.{i}": weight_only(32 << (i % 2)) for i in range(100)})
    )
    assert asked == ["FqnToConfig", "Int8WeightOnlyConfig", "Int8WeightOnlyConfig"]
    assert isinstance(config, FqnToConfig)
    assert len(config.configs) == 2
    assert [config.configs[r.use].granularity.group_size for r in config.rules] == [32, 64] * 50


def test_what_is_wrong_with_equal_entries_is_told_at_each() -> None:
    """A problem that is found in the translated document leads back to every place."""
    with pytest.raises(QconfigError) as caught:
        read_document(mapping({"a/b": weight_only(0), "c": weight_only(0), "d": weight_only(64)}))
    assert [problem.pointer for problem in caught.value.problems] == [
        "/_data/fqn_to_config/a~1b/_data/granularity/_data/group_size",
        "/_data/fqn_to_config/c/_data/granularity/_data/group_size",
    ]


def test_notes_are_told_at_each_of_equal_entries() -> None:
    """A config that is carried otherwise than one might think is translated at each place."""
    old = {"_type": "Float8WeightOnlyConfig", "_version": 1, "_data": {}}
    notes = read_document(mapping({"a": old, "b": old})).notes
    assert [n.pointer for n in notes] == [
        n.pointer.replace("/a", f"/{key}")
        for key in "ab"
        for n in read_document(mapping({"a": old})).notes
    ]


@pytest.mark.parametrize("pair", [(1, True), (32, 32.0), (64, "64")])
def test_entries_that_only_look_equal_are_different(pair: tuple[object, object]) -> None:
    """True is not 1, and 32.0 not 32: the second of the pair is refused, or both are."""
    with pytest.raises(QconfigError) as caught:
        read_document(mapping({"a": weight_only(pair[0]), "b": weight_only(pair[1])}))
    assert any("/b/" in (p.pointer or "") for p in caught.value.problems)
