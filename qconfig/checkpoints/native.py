"""Our own form of checkpoints: tensors put together as the records of their files say."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from qconfig.checkpoints.checkpoint import Checkpoint
from qconfig.checkpoints.parts import surplus, with_tensors, wrong_ties
from qconfig.checkpoints.record import METADATA_KEY, Record, inner_name, read_record
from qconfig.codec.digests import Digests
from qconfig.codec.layout_values import present_fields
from qconfig.codec.safetensors_header import Header
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import MOST_PROBLEMS, CheckpointError, QconfigError, raise_problems
from qconfig.versioning import Layout

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
        problems += [
            CheckpointError("two shards describe the tensor", file=directory, fqn=fqn)
            for fqn in record.layouts.keys() & specs.keys()
        ]
        problems += [
            CheckpointError("two shards describe the tie", file=directory, fqn=alias)
            for alias in record.ties.keys() & ties.keys()
        ]
        specs |= record.layouts
        ties |= record.ties
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
    shard_of = {
        fqn: located[inner_name(fqn, present_fields(layout)[0])] for fqn, layout in layouts.items()
    }
    inner = {inner_name(fqn, f) for fqn, layout in layouts.items() for f in present_fields(layout)}
    plain = {name: tensor for name, tensor in tensors.items() if name not in inner}
    raise_problems(surplus(plain, layouts), file=directory)
    shard_of |= {name: located[name] for name in plain}
    raise_problems(wrong_ties(ties, plain, layouts, tensors), file=directory)
    return Checkpoint(
        directory, headers, plain, layouts, shard_of, ties, config, metadata, digests=digests
    )
