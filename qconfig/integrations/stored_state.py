"""What a distributed checkpoint holds, checked before any of it is read but its records."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from attrs import frozen
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.storage import StorageReader

from qconfig.checkpoints.parts import surplus, with_tensors, wrong_ties
from qconfig.checkpoints.record import inner_name
from qconfig.codec.dtypes import DType
from qconfig.codec.layout_values import loaded, present_fields
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import CheckpointError, QconfigError, raise_problems
from qconfig.integrations.plain_state import RECORD_NAME
from qconfig.integrations.stored_records import read_records
from qconfig.limits import current_limits
from qconfig.tensors.classes import tensor_class_of
from qconfig.tensors.small_types import BYTES
from qconfig.versioning import Layout, registry

KeyPath = tuple[str | int, ...]


@frozen
class StoredState:
    """The names of a checkpoint and what they are.

    Args:
        place: where it lies, for errors.
        entries: what torch says of each stored tensor and value, by name.
        paths: keys that lead to it, where the state was nested.
        layouts: quantized tensors by FQN, as written, with specs in place of tensors.
        ties: stored names by the further names that they have.
    """

    place: Path
    entries: dict[str, Any]
    paths: Mapping[str, KeyPath]
    layouts: dict[str, Layout]
    ties: dict[str, str]

    @property
    def inner(self) -> dict[str, str]:
        """The FQN of the quantized tensor that a stored tensor is part of, by its name."""
        return {
            inner_name(fqn, field): fqn
            for fqn, layout in self.layouts.items()
            for field in present_fields(layout)
        }

    def is_tensor(self, name: str) -> bool:
        """Return whether an entry is a tensor, and not a value that was pickled."""
        return isinstance(self.entries[name], TensorStorageMetadata)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a stored tensor."""
        return tuple(self.entries[name].size)

    def empty(self, name: str, device: Any = None) -> torch.Tensor:
        """Return a tensor to read a stored one into."""
        entry = self.entries[name]
        return torch.empty(entry.size, dtype=entry.properties.dtype, device=device or "cpu")

    def parts(self, fqn: str) -> dict[str, str]:
        """Return the names of the parts of a quantized tensor, by field."""
        return {f: inner_name(fqn, f) for f in present_fields(self.layouts[fqn])}

    def tensor(self, fqn: str, read: Mapping[str, Any]) -> torch.Tensor:
        """Return a quantized tensor of parts that were read, in its layout of today.

        Raises:
            LayoutError, MigrationError: the parts contradict their layout, or have no form of
                today.
        """
        spec = self.layouts[fqn]
        try:
            layout = with_tensors(fqn, spec, _lazy(self.entries, {fqn: spec}, read))
            current = registry.convert(layout)
            tensor_class = tensor_class_of(type(current))
            in_memory = loaded(current)
            if type(current) is not type(layout):
                in_memory = tensor_class.simplify(in_memory)
            tensor: torch.Tensor = tensor_class.from_layout(in_memory)
        except QconfigError as error:
            raise error.at(file=self.place, fqn=fqn) from None
        return tensor


def read_stored(reader: StorageReader, metadata: Metadata, place: Path) -> StoredState:
    """Return what a checkpoint holds: its records are read, and compared with torch's metadata.

    Args:
        reader: reads the storage.
        metadata: what the reader said of it.
        place: where it lies, for errors.

    Raises:
        NewerVersionError: a record or a layout is newer than this release.
        CheckpointError, ContainerError, DocumentError: a record is damaged, or records and tensors
            contradict each other; all contradictions at once.
    """
    entries = dict(metadata.state_dict_metadata)
    names = [name for name in entries if RECORD_NAME.fullmatch(name)]
    records = read_records(reader, metadata, names, place)
    layouts: dict[str, Layout] = {}
    ties: dict[str, str] = {}
    problems: list[QconfigError] = []
    for record in records:
        problems += _differing(layouts, record.layouts, "two records differ about the tensor")
        problems += _differing(ties, record.ties, "two records differ about the tie")
        layouts |= record.layouts
        ties |= record.ties
    rest = {name: entry for name, entry in entries.items() if name not in names}
    tensors = _lazy(rest, layouts, {})
    for fqn, layout in layouts.items():
        try:
            with_tensors(fqn, layout, tensors)
        except QconfigError as error:
            problems += error.problems
    stored = StoredState(place, rest, metadata.planner_data or {}, layouts, ties)
    plain = rest.keys() - stored.inner.keys()
    problems += surplus(sorted(plain), layouts)
    problems += wrong_ties(ties, plain, layouts, rest)
    problems += _wrong_paths(stored)
    raise_problems(problems, file=place)
    return stored


def _differing(
    known: Mapping[str, Any], found: Mapping[str, Any], message: str
) -> list[QconfigError]:
    hint = "what processes save under one name has to be one tensor"
    both = known.keys() & found.keys()
    return [
        CheckpointError(message, fqn=n, hint=hint) for n in sorted(both) if known[n] != found[n]
    ]


def _lazy(
    entries: Mapping[str, Any], layouts: Mapping[str, Layout], read: Mapping[str, torch.Tensor]
) -> dict[str, LazyTensor]:
    """Return the stored parts of layouts, in the types that these say; small ones lie as bytes."""
    found: dict[str, LazyTensor] = {}
    for fqn, layout in layouts.items():
        for field in present_fields(layout):
            name, said = inner_name(fqn, field), getattr(layout, field).dtype
            entry = entries.get(name)
            if not isinstance(entry, TensorStorageMetadata):
                continue
            dtype = DType.parse(entry.properties.dtype)
            if dtype is DType.UINT8 and said.to_torch() in BYTES:
                dtype = said
            found[name] = LazyTensor(dtype, tuple(entry.size), _typed(read, name, dtype))
    return found


def _typed(read: Mapping[str, torch.Tensor], name: str, dtype: DType) -> Any:
    return lambda: read[name].view(dtype.to_torch())


def _wrong_paths(stored: StoredState) -> list[QconfigError]:
    return [
        CheckpointError(
            "the keys that lead to an entry are not those in its name",
            fqn=name,
            hint="the metadata was changed by hand or by another tool; restore it",
        )
        for name in stored.entries
        if name in stored.paths and not _leads_to(stored.paths[name], name)
    ]


def _leads_to(path: object, name: str) -> bool:
    if type(path) is not tuple or not path or type(path[0]) is not str:
        return False
    # Types first: a text of tuples in tuples can take any time to make.
    most = current_limits().tensors
    if not all(type(k) is str or (type(k) is int and 0 <= k <= most) for k in path):
        return False
    return ".".join(map(str, path)) == name
