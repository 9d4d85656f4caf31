"""Differences between two JSON documents, by JSON pointer."""

import json
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

from attrs import frozen

from qconfig.cli.kinds import children

# SequenceMatcher may take the square of the number of items; longer lists are compared by place.
_MOST_ALIGNED = 5000
_ABSENT: Any = object()


@frozen
class Difference:
    """One place where two documents differ.

    Args:
        pointer: JSON pointer; into the first document for what is gone, else into the second.
        change: `"added"`, `"removed"` or `"changed"`.
        before: the value in the first document.
        after: the value in the second document.
    """

    pointer: str
    change: str
    before: Any = _ABSENT
    after: Any = _ABSENT

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; a side that has no value lacks its key."""
        sides = {"before": self.before, "after": self.after}
        present = {k: v for k, v in sides.items() if v is not _ABSENT}
        return {"pointer": self.pointer, "change": self.change} | present


def differences(before: Any, after: Any, pointer: str = "") -> Iterator[Difference]:
    """Yield where two JSON values differ, in the order of the first.

    Objects are compared key by key, in any order. Arrays are aligned first, so that an inserted
    rule is one difference.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _objects(before, after, pointer)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _arrays(before, after, pointer)
    elif _key(before) != _key(after):
        yield Difference(pointer, "changed", before, after)


def _objects(before: dict[str, Any], after: dict[str, Any], pointer: str) -> Iterator[Difference]:
    old, new = dict(children(before)), dict(children(after))
    for token, value in old.items():
        at = pointer + token
        if token in new:
            yield from differences(value, new[token], at)
        else:
            yield Difference(at, "removed", before=value)
    for token, value in new.items():
        if token not in old:
            yield Difference(pointer + token, "added", after=value)


def _arrays(before: list[Any], after: list[Any], pointer: str) -> Iterator[Difference]:
    for tag, i1, i2, j1, j2 in _aligned(before, after):
        if tag == "equal":
            continue
        paired = min(i2 - i1, j2 - j1)
        for k in range(paired):
            yield from differences(before[i1 + k], after[j1 + k], f"{pointer}/{j1 + k}")
        for i in range(i1 + paired, i2):
            yield Difference(f"{pointer}/{i}", "removed", before=before[i])
        for j in range(j1 + paired, j2):
            yield Difference(f"{pointer}/{j}", "added", after=after[j])


def _aligned(before: list[Any], after: list[Any]) -> list[tuple[str, int, int, int, int]]:
    if max(len(before), len(after)) > _MOST_ALIGNED:
        return [("replace", 0, len(before), 0, len(after))]
    keys = [[_key(item) for item in side] for side in (before, after)]
    matcher = SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    return list(matcher.get_opcodes())


def _key(value: Any) -> str:
    """Return a text that equal values share; 1, 1.0 and true are three values."""
    return json.dumps(value, sort_keys=True)
