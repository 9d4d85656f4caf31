"""A state that is made of what a distributed checkpoint holds."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from attrs import define

from qconfig.errors import CheckpointError
from qconfig.integrations.stored_state import KeyPath, StoredState

_MOST_NAMES = 20


@define
class NewState:
    """A state that is made of what is stored.

    Args:
        device: where tensors go.
        key: only what lies under this key of the outermost mapping, or None for all.
    """

    device: Any = None
    key: str | None = None

    def destinations(self, stored: StoredState) -> dict[str, Any]:
        """Return empty tensors for what is stored under the key, see `Target`."""
        wanted = [name for name in stored.entries if self._has(name)]
        if self.key is not None and not wanted:
            keys = {name.partition(".")[0] for name in stored.entries}
            raise CheckpointError(
                "nothing is stored under the key",
                file=stored.place,
                found=self.key,
                expected=", ".join(sorted(keys)[:_MOST_NAMES]),
            )
        return {n: stored.empty(n, self.device) if stored.is_tensor(n) else None for n in wanted}

    def state(self, stored: StoredState, read: Mapping[str, Any]) -> dict[str, Any]:
        """Return the state, nested as it was, from what was read."""
        inner = stored.inner
        state: dict[str, Any] = {}
        values: dict[str, tuple[KeyPath, Any]] = {}
        for name, value in read.items():
            path = stored.paths.get(name, (name,))
            fqn = inner.get(name)
            if fqn is None:
                values[name] = (path, value)
            elif fqn not in values:
                field = name[len(fqn) + 1 :]
                values[fqn] = (_without(path, field), stored.tensor(fqn, read))
        for alias, name in stored.ties.items():
            if name in values:
                path, value = values[name]
                around = len(name) - len(str(path[-1]))
                values[alias] = ((*path[:-1], alias[around:]), value)
        for path, value in values.values():
            _put(state, self._below(path), value)
        return state

    def _has(self, name: str) -> bool:
        return self.key is None or name.startswith(f"{self.key}.")

    def _below(self, path: KeyPath) -> KeyPath:
        if self.key is None:
            return path
        if path[0] == self.key:
            return path[1:]
        return (str(path[0]).removeprefix(f"{self.key}."), *path[1:])


def _without(path: KeyPath, field: str) -> KeyPath:
    """Return the path of a quantized tensor from that of a part: `w.qdata` of `w`, or below it."""
    if path[-1] == field:
        return path[:-1]
    return (*path[:-1], str(path[-1]).removesuffix(f".{field}"))


def _put(state: dict[str, Any], path: KeyPath, value: Any) -> None:
    container: Any = state
    for key, following in pairwise(path):
        made: Any = [] if type(following) is int else {}
        if isinstance(container, list):
            _grow(container, int(key))
            if container[int(key)] is None:
                container[int(key)] = made
            container = container[int(key)]
        else:
            container = container.setdefault(key, made)
    if isinstance(container, list):
        _grow(container, int(path[-1]))
    container[path[-1]] = value


def _grow(values: list[Any], index: int) -> None:
    values.extend([None] * (index + 1 - len(values)))
