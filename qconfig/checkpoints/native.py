"""Our own form of checkpoints: tensors put together as the records of their files say."""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import attrs

from qconfig.checkpoints.checkpoint import Checkpoint
from qconfig.checkpoints.parts import surplus, with_tensors, wrong_ties
from qconfig.checkpoints.record import METADATA_KEY, Record, inner_name, read_record
from qconfig.codec.digests import Digests
from qconfig.codec.layout_values import present_fields
from qconfig.codec.safetensors_header import Header
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import MOST_PROBLEMS, CheckpointError, QconfigError, raise_problems
from qconfig.versioning import Layout, registry

Reader = Callable[[Header], dict[str, LazyTensor]]
"""Gives the tensors of a file from its header."""


def assemble(
    directory: Path,
    headers: dict[str, Header],
    located: dict[str, str],
    config: dict[str, Any] | None,
    reader: Reader,
) -> Checkpoint:
    """Return the checkpoint that files are; no data is read.

    The parts of a tensor may lie in several files, and its record in any of them or in others.
    Records of several files may say the same.

    Args:
        directory: where the files lie.
        headers: headers by file name.
        located: file name of each stored tensor.
        config: the whole of config.json, or None.
        reader: gives the tensors of a file.

    Raises:
        ContainerError, DocumentError, NewerVersionError: a record that cannot be read.
        CheckpointError: records and tensors contradict each other; all contradictions at once.
    """
    tensors: dict[str, LazyTensor] = {}
    records: dict[str, Record] = {}
    specs: dict[str, Layout] = {}
    ties: dict[str, str] = {}
    metadata: dict[str, dict[str, str]] = {}
    digests: dict[str, Digests] = {}
    problems: list[QconfigError] = []
    for shard, header in headers.items():
        tensors |= reader(header)
        metadata[shard] = {k: v for k, v in header.metadata.items() if k != METADATA_KEY}
        text = header.metadata.get(METADATA_KEY)
        record = read_record(text, file=header.path) if text is not None else Record()
        problems += _contradictions(header.path, record, records, specs, ties)
        records[shard] = record
        # Of records that contradict each other, the first is the one that others are held to.
        specs |= {fqn: spec for fqn, spec in record.layouts.items() if fqn not in specs}
        ties |= {alias: name for alias, name in record.ties.items() if alias not in ties}
        if record.digests is not None:
            digests[shard] = record.digests
    layouts: dict[str, Layout] = {}
    for fqn, spec in specs.items():
        try:
            layouts[fqn] = with_tensors(fqn, spec, tensors)
        except QconfigError as error:
            problems += error.problems
            if len(problems) >= MOST_PROBLEMS:
                break
    raise_problems(problems, file=directory)
    parts = {fqn: [inner_name(fqn, f) for f in present_fields(x)] for fqn, x in layouts.items()}
    shard_of = {fqn: located[names[0]] for fqn, names in parts.items()}
    inner = set(chain.from_iterable(parts.values()))
    plain = {name: tensor for name, tensor in tensors.items() if name not in inner}
    raise_problems(surplus(plain, layouts), file=directory)
    shard_of |= {name: located[name] for name in plain}
    raise_problems(wrong_ties(ties, plain, layouts, tensors), file=directory)
    return Checkpoint(
        directory, headers, plain, layouts, shard_of, ties, config, metadata, digests=digests
    )


def _contradictions(
    file: Path,
    record: Record,
    records: Mapping[str, Record],
    specs: Mapping[str, Layout],
    ties: Mapping[str, str],
) -> Iterator[QconfigError]:
    """Yield a problem for each tensor and tie of which a record says another thing than others.

    Args:
        file: whose record it is.
        record: what it says.
        records: of other files, by their names.
        specs: what they say of tensors.
        ties: and of ties.
    """
    for fqn in sorted(record.layouts.keys() & specs.keys()):
        if record.layouts[fqn] != specs[fqn]:
            first = next(name for name, other in records.items() if fqn in other.layouts)
            found, expected = _difference(record.layouts[fqn], specs[fqn])
            yield _unlike("tensor", file, fqn, found, f"{expected}, as {first} says")
    for alias in sorted(record.ties.keys() & ties.keys()):
        if record.ties[alias] != ties[alias]:
            first = next(name for name, other in records.items() if alias in other.ties)
            yield _unlike("tie", file, alias, record.ties[alias], f"{ties[alias]}, as {first} says")


def _unlike(kind: str, file: Path, fqn: str, found: str, expected: str) -> CheckpointError:
    return CheckpointError(
        f"two shards describe the {kind}, and not alike",
        file=file,
        fqn=fqn,
        found=found,
        expected=expected,
        hint="the shards are of different checkpoints; fetch or write all of them again",
    )


def _difference(found: Any, expected: Any) -> tuple[str, str]:
    """Return what two layouts say of the first thing in which they differ."""
    if type(found) is type(expected):
        for field in attrs.fields(type(found)):
            values = getattr(found, field.name), getattr(expected, field.name)
            if values[0] != values[1]:
                return f"{field.name} {values[0]}", f"{field.name} {values[1]}"
    return str(registry.entry_of(type(found))), str(registry.entry_of(type(expected)))
