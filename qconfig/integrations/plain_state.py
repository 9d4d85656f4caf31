"""Quantized state as ordinary tensors, which any storage of torch takes, and a record of them.

The parts of a quantized tensor `fqn` are `fqn.<field>`, in the mapping that it lies in. The record
is the JSON that shards of our checkpoints carry, as bytes in a tensor: no pickle says what a tensor
is. Its name has the digest of these bytes. Processes with the same state so write one record, and
those with parts of their own one each, without talking to each other.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import torch
from attrs import define
from torch import nn
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.tensor import DTensor

from qconfig.checkpoints.contents import same_name
from qconfig.checkpoints.parts import surplus
from qconfig.checkpoints.record import METADATA_KEY, inner_name, write_record
from qconfig.codec.digests import digest
from qconfig.codec.layout_values import present_fields, wrapped
from qconfig.codec.tensor_names import check_name
from qconfig.errors import CheckpointError, QconfigError, raise_problems
from qconfig.integrations.sharded_rows import is_sharded, sharded_parts
from qconfig.limits import current_limits
from qconfig.tensors.classes import has_layout
from qconfig.tensors.identity import identity
from qconfig.tensors.small_types import as_comparable
from qconfig.versioning import Layout

RECORD_NAME = re.compile(re.escape(METADATA_KEY) + r"\.([0-9a-f]{16})")
"""Name of a record, with the digest of its bytes."""

_ORDINARY = (torch.Tensor, nn.Parameter)


def plain_state(state_dict: nn.Module | Mapping[str, Any]) -> dict[str, Any]:
    """Return a state with ordinary tensors in place of quantized ones, and a record of them.

    It is what `save_distributed` hands to torch, for what torch can do besides, such as
    `async_save`. Tensors share memory with the state. Of tensors that are one object under several
    names of a mapping, the first name is kept; the record has the others.

    Args:
        state_dict: a model, or a state dict, nested as torch.distributed.checkpoint takes it.
            Quantized tensors may lie in mappings and lists, and be `DTensor`s by rows.

    Raises:
        CheckpointError: a quantized tensor cannot be stored, or two would have one name; all at
            once.
    """
    taken = _Taken()
    plain = taken.mapping(expanded(state_dict), "")
    problems = [*taken.problems, *surplus(taken.plain, taken.layouts)]
    problems += [
        CheckpointError(
            "the name is kept for records",
            fqn=name,
            hint="this state was taken apart before; it is ready for torch as it is",
        )
        for name in plain
        if RECORD_NAME.fullmatch(str(name))
    ]
    raise_problems(problems)
    if taken.layouts or taken.ties:
        text = write_record(taken.layouts, taken.ties).encode()
        content = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        plain[f"{METADATA_KEY}.{digest(text)}"] = content
    return plain


def expanded(state_dict: nn.Module | Mapping[str, Any]) -> dict[str, Any]:
    """Return a state with the state dicts of stateful objects in their place, as torch does."""
    if isinstance(state_dict, nn.Module):
        return dict(state_dict.state_dict())
    return {k: v.state_dict() if isinstance(v, Stateful) else v for k, v in state_dict.items()}


@define
class _Taken:
    """What was found in a state: names as torch will flatten them."""

    layouts: dict[str, Layout] = attrs.field(factory=dict)
    ties: dict[str, str] = attrs.field(factory=dict)
    plain: dict[str, None] = attrs.field(factory=dict)
    problems: list[QconfigError] = attrs.field(factory=list)

    def mapping(self, state: Mapping[Any, Any], prefix: str) -> dict[str, Any]:
        result: dict[str, Any] = {}
        first: dict[tuple[Any, ...], str] = {}
        for key, value in state.items():
            fqn = f"{prefix}{key}"
            if type(value) in _ORDINARY or has_layout(value):
                known = first.setdefault(identity(value), fqn)
                if known != fqn:
                    self._named(fqn)
                    self.ties[fqn] = known
                    continue
            for name, taken in self._value(str(key), value, fqn):
                if name in result or (name != str(key) and name in state):
                    self.problems.append(same_name(f"{prefix}{name}"))
                result[name] = taken
        return result

    def _value(self, key: str, value: Any, fqn: str) -> Iterator[tuple[str, Any]]:
        if is_quantized(value):
            for field, part in self._parts(value, fqn).items():
                yield inner_name(key, field), part
        else:
            yield key, self._plain_value(value, fqn)

    def _item(self, value: Any, fqn: str) -> Any:
        return self._parts(value, fqn) if is_quantized(value) else self._plain_value(value, fqn)

    def _plain_value(self, value: Any, fqn: str) -> Any:
        """Return a value that is no quantized tensor, with ordinary tensors for those in it."""
        if isinstance(value, Mapping):
            return self.mapping(value, f"{fqn}.")
        if isinstance(value, list):
            return [self._item(entry, f"{fqn}.{i}") for i, entry in enumerate(value)]
        if isinstance(value, torch.Tensor):
            self.plain[fqn] = None
        return value

    def _parts(self, value: Any, fqn: str) -> dict[str, torch.Tensor]:
        self._named(fqn)
        try:
            if isinstance(value, DTensor):
                layout, parts = sharded_parts(value)
            else:
                layout = value.to_layout()
                parts = {field: getattr(layout, field) for field in present_fields(layout)}
            if any(part.is_meta for part in parts.values()):
                raise CheckpointError(
                    "a meta tensor has no values", expected="a tensor with its values in memory"
                )
        except QconfigError as error:
            self.problems += [problem.at(fqn=fqn) for problem in error.problems]
            return {}
        self.layouts[fqn] = wrapped(layout)
        return {field: storable(part) for field, part in parts.items()}

    def _named(self, fqn: str) -> None:
        try:
            check_name(fqn, current_limits())
        except QconfigError as error:
            self.problems.append(error)


def is_quantized(value: Any) -> bool:
    """Return whether a value is a tensor that a layout describes, or the rows of one."""
    return has_layout(value) or is_sharded(value)


def storable(part: torch.Tensor) -> torch.Tensor:
    """Return a part in a form that every storage takes: contiguous, small types as their bytes."""
    if isinstance(part, DTensor):
        return part
    return as_comparable(part.detach().contiguous())


def leaves(state: Any, prefix: str = "") -> Iterator[tuple[Any, Any, str, Any]]:
    """Yield container, key, name and value of all that torch stores as one entry.

    Lists without tensors or mappings are one entry, as tuples always are.
    """
    entries = enumerate(state) if isinstance(state, list) else list(state.items())
    for key, value in entries:
        fqn = f"{prefix}{key}"
        if isinstance(value, Mapping) or (isinstance(value, list) and _is_divided(value)):
            yield from leaves(value, f"{fqn}.")
        else:
            yield state, key, fqn, value


def _is_divided(values: list[Any]) -> bool:
    return any(
        isinstance(value, torch.Tensor | Mapping)
        or (isinstance(value, list) and _is_divided(value))
        for value in values
    )
