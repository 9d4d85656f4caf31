"""The planner that reads records first, and decides by them what torch reads."""

import io
import pickle
from pathlib import Path
from typing import Any, Protocol

import torch
from attrs import frozen
from torch.distributed.checkpoint import state_dict_loader
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import ReadItem
from torch.distributed.checkpoint.storage import StorageReader

from qconfig.errors import CheckpointError, StorageError
from qconfig.integrations.metadata_file import FilesReader
from qconfig.integrations.stored_state import StoredState, read_stored
from qconfig.integrations.torch_failures import translated


class Target(Protocol):
    """Where a checkpoint goes."""

    def destinations(self, stored: StoredState) -> dict[str, Any]:
        """Return tensors to read into by name, and None for each value that was pickled."""


class RecordsPlanner(DefaultLoadPlanner):
    """Reads records and asks a target where the rest goes, in each process, before any plan.

    What it raises reaches all processes, as torch gathers it.

    Args:
        reader: reads the storage.
        place: where it lies, for errors.
        target: what is loaded into.
    """

    stored: StoredState

    def __init__(self, reader: StorageReader, place: Path, target: Target) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self._reader = reader
        self._place = place
        self._target = target

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        metadata: Metadata | None = None,
        is_coordinator: bool = False,  # noqa: FBT001, FBT002 (torch's signature)
    ) -> None:
        """Read records, and take what the target wants in place of `state_dict`, which is empty."""
        if metadata is None:
            raise CheckpointError("the storage has no metadata", file=self._place)
        self.stored = read_stored(self._reader, metadata, self._place)
        wanted = self._target.destinations(self.stored)
        super().set_up_planner(wanted, metadata, is_coordinator)

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Unpickle a value that is no tensor, if `weights_only=True` can.

        Raises:
            CheckpointError: it needs a class that torch was not told to trust.
        """
        name = read_item.dest_index.fqn
        try:
            self.state_dict[name] = torch.load(value, weights_only=True)
        except pickle.UnpicklingError as error:
            lines = [line for line in str(error).splitlines() if "GLOBAL" in line]
            raise CheckpointError(
                "a value needs a class that is not trusted",
                file=self._place,
                fqn=name,
                found=lines[0].strip() if lines else type(error).__name__,
                expected="what torch.load reads with weights_only=True",
                hint="allow the class with torch.serialization.add_safe_globals",
            ) from None


@frozen
class Source:
    """A checkpoint that is to be loaded.

    Args:
        place: where it lies, for errors.
        reader: reads it.
        checkpoint_id: what the reader is told that it is.
        process_group: processes that load together.
        no_dist: whether this process loads alone.
    """

    place: Path
    reader: StorageReader
    checkpoint_id: Any = None
    process_group: Any = None
    no_dist: bool = False

    def load(self, target: Target) -> tuple[StoredState, dict[str, Any]]:
        """Read into a target; return what is stored, and what was read by name.

        Raises:
            QconfigError: see `load_distributed`.
        """
        planner = RecordsPlanner(self.reader, self.place, target)
        try:
            self._read(planner)
        except StorageError as error:
            failure = self.reader.failure if isinstance(self.reader, FilesReader) else None
            raise failure or error from None
        return planner.stored, planner.state_dict

    def _read(self, planner: RecordsPlanner) -> None:
        with translated(self.place):
            state_dict_loader.load(
                {},
                checkpoint_id=self.checkpoint_id,
                storage_reader=self.reader,
                planner=planner,
                process_group=self.process_group,
                no_dist=self.no_dist,
            )
