"""Records of quantized tensors, as a distributed checkpoint holds them: bytes in tensors."""

from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.storage import StorageReader

from qconfig.checkpoints.record import METADATA_KEY, Record, read_record
from qconfig.codec.digests import digest
from qconfig.codec.raw_memory import byte_view
from qconfig.errors import CheckpointError, QconfigError
from qconfig.limits import current_limits


def read_records(
    reader: StorageReader, metadata: Metadata, names: list[str], place: Path
) -> list[Record]:
    """Return what records say, which lie in a storage as tensors of bytes.

    Args:
        reader: reads the storage.
        metadata: what the reader said of it.
        names: their names.
        place: where the storage lies, for errors.

    Raises:
        NewerVersionError: a record or a layout is newer than this release.
        CheckpointError, ContainerError, DocumentError: a record is damaged.
    """
    limits = current_limits()
    content: dict[str, torch.Tensor] = {}
    for name in names:
        entry = metadata.state_dict_metadata[name]
        if not (
            isinstance(entry, TensorStorageMetadata)
            and entry.properties.dtype is torch.uint8
            and len(entry.size) == 1
            and entry.size[0] <= limits.document_bytes
        ):
            raise CheckpointError(
                "a record has another form",
                file=place,
                fqn=name,
                found=entry,
                expected=f"uint8 of one dimension, {limits.describe('document_bytes')}",
            )
        content[name] = torch.zeros(entry.size, dtype=torch.uint8)
    if content:
        _read(reader, metadata, content)
    return [_record(name, bytes(byte_view(data)), place) for name, data in content.items()]


def _read(reader: StorageReader, metadata: Metadata, wanted: dict[str, Any]) -> None:
    planner = DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
    planner.set_up_planner(wanted, metadata, is_coordinator=True)
    reader.set_up_storage_reader(metadata, is_coordinator=True)
    plan = reader.prepare_local_plan(planner.create_local_plan())
    (plan,) = reader.prepare_global_plan(planner.create_global_plan([plan]))
    reader.read_data(planner.finish_plan(plan), planner).wait()


def _record(name: str, content: bytes, place: Path) -> Record:
    if digest(content) != name.rpartition(".")[2]:
        raise CheckpointError(
            "a record is damaged",
            file=place,
            fqn=name,
            found=f"bytes of digest {digest(content)}",
            expected="the digest in its name",
            hint="restore the checkpoint",
        )
    try:
        return read_record(content.decode(), file=place)
    except QconfigError as error:
        for problem in error.problems:
            problem.pointer = (problem.pointer or "").removeprefix(f"/__metadata__/{METADATA_KEY}")
        raise error.at(fqn=name) from None
    except UnicodeDecodeError as error:
        raise CheckpointError(
            "a record is no text in UTF-8", file=place, fqn=name, hint=error.reason
        ) from None
