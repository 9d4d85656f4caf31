"""torchao's pickles: `.pt` and `.bin` files, opened only when somebody asks for it."""

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from qconfig.checkpoints.checkpoint import SINGLE_FILE, Checkpoint
from qconfig.checkpoints.config_json import read_config_json
from qconfig.checkpoints.guidance import WHOLE, StateDictPlace
from qconfig.checkpoints.pickled_files import (
    INDEX_FILE,
    SUFFIXES,
    at_place,
    compared_with_index,
    memory_of,
    pickled_files,
    place_hint,
    shard_name,
)
from qconfig.checkpoints.writer import Writer
from qconfig.codec.pickled_values import PickledSubclass, PickledTensor
from qconfig.codec.tensor_values import LazyTensor
from qconfig.codec.torch_files import TorchFile, read_torch_file
from qconfig.dialects.torchao.agreed_config import agreed_config
from qconfig.dialects.torchao.forms import NEWEST
from qconfig.dialects.torchao.interpreted import interpreted
from qconfig.dialects.torchao.model_config import model_config
from qconfig.dialects.torchao.stored import Stored, stored_from_pickle
from qconfig.dialects.torchao.tensors.names import NAMES
from qconfig.errors import (
    MOST_PROBLEMS,
    CheckpointError,
    QconfigError,
    raise_problems,
)

_MOST_ATTRIBUTES = 8
_A_STATE_DICT = "a state_dict: a dict from names to tensors"


class TorchaoPickles:
    """Files that `torch.save` wrote of state_dicts, with torchao's tensors in them.

    Names in them are looked up in closed tables, and nothing of them is imported or called.
    """

    name = "torchao-pickle"
    library = "torchao"
    newest = NEWEST
    suffixes: tuple[str, ...] = SUFFIXES

    def __init__(self, place: StateDictPlace = WHOLE) -> None:
        self.place = place

    def placed(self, place: StateDictPlace) -> "TorchaoPickles":
        """Return the dialect that reads the state_dict at a place alone."""
        return TorchaoPickles(place)

    def open(
        self,
        path: Path,
        writer: Writer | None,
        *,
        follow_symlinks: bool = False,
        keep_config: bool = True,
    ) -> Checkpoint:
        """Open a file, or a directory with `pytorch_model.bin` or its shards.

        Raises:
            ContainerError: a file is damaged or names what is in no table.
            CheckpointError: the files contradict each other, or hold no state_dict.
            QconfigError: a tensor cannot be read.
        """
        files, index = pickled_files(path, follow_symlinks=follow_symlinks)
        config_json = (
            read_config_json(path, follow_symlinks=follow_symlinks) if path.is_dir() else None
        )
        config, notes = model_config(config_json if keep_config else None, writer, path)
        opened = {name: read_torch_file(file, NAMES) for name, file in files.items()}
        merged = _Merged()
        for name, whole in opened.items():
            torch_file, said = at_place(whole, self.place)
            merged.notes += said
            merged.add(name, torch_file, shard_name(name) if len(files) > 1 else SINGLE_FILE)
        if index is not None:
            compared = compared_with_index(index, path / INDEX_FILE, opened, self.place)
            merged.problems += compared[0]
            merged.notes += compared[1]
        raise_problems(merged.problems[:MOST_PROBLEMS], file=path)
        result = interpreted(
            merged.plain, merged.stored, merged.shard_of, writer, path, ties=merged.ties
        )
        config, notes = agreed_config(config, notes, result.layouts, result.plain)
        return Checkpoint(
            path if path.is_dir() else path.parent,
            opened,
            result.plain,
            result.layouts,
            result.shard_of,
            result.ties,
            config_json,
            {shard: {} for shard in dict.fromkeys(merged.shard_of.values())} or {SINGLE_FILE: {}},
            (*notes, *merged.notes, *result.notes()),
            is_directory=path.is_dir(),
            index=index,
            dialect=self.name,
            origins=result.origins,
            config=config,
            consumed=frozenset({INDEX_FILE}),
        )


class _Merged:
    """The entries of all files: tensors by name, second names as ties, problems."""

    def __init__(self) -> None:
        self.plain: dict[str, LazyTensor] = {}
        self.stored: dict[str, Stored] = {}
        self.shard_of: dict[str, str] = {}
        self.ties: dict[str, str] = {}
        self.file_of: dict[str, str] = {}
        self.problems: list[QconfigError] = []
        self.notes: list[str] = []

    def add(self, label: str, file: TorchFile, shard: str) -> None:
        """Add the state_dict of one file, which has the name `label` in its directory."""
        if not isinstance(file.root, Mapping):
            error = CheckpointError(
                "not a state_dict", file=file.path, found=file.root, expected=_A_STATE_DICT
            )
            self.problems.append(error)
            return
        said = [key for key in file.attributes if key != "_metadata"]
        if said:
            names = ", ".join(said[:_MOST_ATTRIBUTES])
            self.notes.append(f"{label} has Python attributes, which are not carried: {names}")
        owners: dict[Any, str] = {}
        if (hint := place_hint(file.root)) is not None:
            self.problems.append(
                CheckpointError(
                    "the file holds more than a state_dict",
                    file=file.path,
                    found=", ".join(map(str, islice(file.root, _MOST_ATTRIBUTES))),
                    expected=_A_STATE_DICT,
                    hint=hint,
                )
            )
            return
        for name, value in file.root.items():
            if not isinstance(name, str):
                self.problems.append(
                    CheckpointError(
                        "the name of an entry of the file is no text",
                        file=file.path,
                        found=name,
                        expected=_A_STATE_DICT,
                    )
                )
            elif not isinstance(value, PickledTensor | PickledSubclass):
                self.problems.append(_no_tensor(file, name, value))
            elif self.file_of.setdefault(name, label) != label:
                self.problems.append(
                    CheckpointError(
                        "the tensor lies in two files",
                        file=file.path,
                        fqn=name,
                        found=f"{label} and {self.file_of[name]}",
                        expected="one file that holds it",
                    )
                )
            elif (owner := owners.setdefault(memory_of(value), name)) != name:
                self.ties[name] = owner
            else:
                self._put(file, name, value)
                self.shard_of[name] = shard

    def _put(self, file: TorchFile, name: str, value: PickledTensor | PickledSubclass) -> None:
        if isinstance(value, PickledTensor):
            self.plain[name] = value.value
            if value.attributes:
                said = ", ".join(islice(value.attributes, _MOST_ATTRIBUTES))
                self.notes.append(f"{name} has Python attributes, which are not carried: {said}")
            return
        try:
            self.stored[name] = stored_from_pickle(value)
        except QconfigError as error:
            self.problems += [p.at(file=file.path, fqn=name) for p in error.problems]


def _no_tensor(file: TorchFile, name: str, value: object) -> CheckpointError:
    return CheckpointError(
        "an entry of the file is no tensor",
        file=file.path,
        fqn=name,
        found=f"a dict of {len(value)} entries" if isinstance(value, Mapping) else value,
        expected=_A_STATE_DICT,
    )
