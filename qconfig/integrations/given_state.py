"""A state that is filled from a distributed checkpoint."""

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import torch
from attrs import define, frozen
from torch.distributed.tensor import DTensor

from qconfig.codec.converter import unstructure
from qconfig.codec.layout_values import wrapped
from qconfig.errors import CheckpointError, QconfigError, nearest, raise_problems
from qconfig.integrations.plain_state import is_quantized, leaves
from qconfig.integrations.sharded_rows import empty_parts, fill, is_sharded, sharded_parts
from qconfig.integrations.stored_state import StoredState
from qconfig.tensors.base import PackedTensor
from qconfig.tensors.classes import has_layout
from qconfig.tensors.common_ops import first_difference

_MOST_HINTS = 20


@frozen
class _Leaf:
    """What the state has in a place that is to be filled.

    Args:
        container: the mapping or list that it lies in.
        key: its key or index there.
        name: its name in the checkpoint.
        value: what the state has there.
    """

    container: Any
    key: Any
    name: str
    value: Any

    def fill(self, value: Any) -> None:
        """Put another value in its place."""
        self.container[self.key] = value


@define
class GivenState:
    """A state that is filled: ordinary tensors in place, quantized ones too where forms agree.

    Args:
        state: nested mappings and lists.
        exact: a stored tensor whose name starts so must be in the state; None demands nothing.
    """

    state: Any
    exact: str | None = None
    _finish: list[Callable[[StoredState, Mapping[str, Any]], object]] = attrs.field(
        factory=list, init=False
    )

    def destinations(self, stored: StoredState) -> dict[str, Any]:
        """Return the state's tensors by stored name, see `Target`; the state is unchanged.

        Raises:
            CheckpointError: state and checkpoint do not fit; all problems at once.
        """
        wanted: dict[str, Any] = {}
        problems: list[QconfigError] = []
        names: set[str] = set()
        plain = stored.entries.keys() - stored.inner.keys()
        known = [*stored.layouts, *plain, *stored.ties]
        for container, key, fqn, value in leaves(self.state):
            names.add(fqn)
            name = stored.ties.get(fqn, fqn)
            leaf = _Leaf(container, key, name, value)
            try:
                if name in stored.layouts:
                    self._quantized(stored, wanted, leaf)
                elif name in plain:
                    self._ordinary(stored, wanted, leaf)
                else:
                    hint = nearest(fqn, known) if len(problems) < _MOST_HINTS else None
                    raise CheckpointError("the checkpoint lacks an entry of the state", hint=hint)
            except QconfigError as error:
                problems += [problem.at(fqn=fqn) for problem in error.problems]
        if self.exact is not None:
            problems += [
                CheckpointError("the state has no such tensor", fqn=name)
                for name in known
                if name not in names and name.startswith(self.exact)
            ]
        raise_problems(problems, file=stored.place)
        return wanted

    def complete(self, stored: StoredState, read: Mapping[str, Any]) -> None:
        """Put into the state what was not read in place."""
        for step in self._finish:
            step(stored, read)

    def _ordinary(self, stored: StoredState, wanted: dict[str, Any], leaf: _Leaf) -> None:
        name, value = leaf.name, leaf.value
        if not stored.is_tensor(name):
            wanted[name] = None
            self._finish.append(lambda _, read: leaf.fill(read[name]))
            return
        if is_quantized(value):
            raise CheckpointError(
                "the tensor is stored as an ordinary one, and that of the state is quantized",
                expected=type(value).__name__,
                hint="load the state whole with load_distributed, and quantize it then",
            )
        if not isinstance(value, torch.Tensor) or value.is_meta:
            wanted.setdefault(name, stored.empty(name))
            self._finish.append(lambda _, read: leaf.fill(read[name]))
            return
        if tuple(value.shape) != stored.shape(name):
            raise CheckpointError(
                "the tensor has another shape than the state's",
                found=stored.shape(name),
                expected=str(tuple(value.shape)),
            )
        if name in wanted and wanted[name] is not value:
            self._finish.append(lambda _, read: value.detach().copy_(read[name]))
        else:
            wanted[name] = value

    def _quantized(self, stored: StoredState, wanted: dict[str, Any], leaf: _Leaf) -> None:
        name, value = leaf.name, leaf.value
        parts = stored.parts(name)
        if is_sharded(value):
            self._sharded(stored, wanted, name, value)
            return
        if isinstance(value, torch.Tensor) and not has_layout(value):
            raise CheckpointError(
                "the tensor is stored quantized, and that of the state is an ordinary one",
                found=type(stored.layouts[name]).__name__,
                expected=f"{type(value).__name__} of {value.dtype}",
                hint="quantize the model first, or give None in place of the tensor",
            )
        wanted |= {n: stored.empty(n) for n in parts.values() if n not in wanted}

        def finish(stored: StoredState, read: Mapping[str, Any]) -> None:
            found: Any = stored.tensor(name, read)
            if isinstance(value, torch.Tensor):
                found = found.to(value.device)
            if isinstance(value, PackedTensor) and first_difference(value, found) is None:
                value.copy_(found)
            else:
                leaf.fill(found)

        self._finish.append(finish)

    def _sharded(
        self, stored: StoredState, wanted: dict[str, Any], name: str, value: DTensor
    ) -> None:
        layout, parts = sharded_parts(value)
        own, said = unstructure(wrapped(layout)), unstructure(stored.layouts[name])
        if own != said:
            differing = [k for k in {**own, **said} if own.get(k) != said.get(k)]
            raise CheckpointError(
                "the tensor is stored in another form than the state's, which is distributed",
                found=", ".join(f"{k}={said.get(k)}" for k in differing),
                expected=", ".join(f"{k}={own.get(k)}" for k in differing),
                hint="load it whole with load_distributed, and save it anew",
            )
        fresh = empty_parts(parts)
        names = stored.parts(name)
        wanted |= {names[field]: part for field, part in fresh.items()}
        self._finish.append(lambda _, __: fill(value, fresh))
