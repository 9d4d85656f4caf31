"""Brevitas' pickles: NamedTuples, and state_dicts of quantized modules, opened when asked for."""

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

from attrs import define, field

from qconfig.checkpoints.checkpoint import SINGLE_FILE, Checkpoint
from qconfig.checkpoints.config_json import read_config_json
from qconfig.checkpoints.dialects import AnyDialect, FileDialect
from qconfig.checkpoints.guidance import WHOLE, Guidance, StateDictPlace
from qconfig.checkpoints.origin import Origin
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
from qconfig.codec.tensor_values import LazyTensor
from qconfig.codec.torch_files import TorchFile, mentions, read_torch_file
from qconfig.dialects.brevitas.entries import Quantized, entries_of, is_of_brevitas
from qconfig.dialects.brevitas.forms import LIBRARY, NAMES, NEWEST
from qconfig.dialects.brevitas.guided_state import converted_state
from qconfig.dialects.brevitas.layout_checks import contradictions
from qconfig.dialects.brevitas.quantizer_keys import has_quantizers
from qconfig.dialects.brevitas.selection import selects
from qconfig.dialects.brevitas.tensors import read_tensor
from qconfig.errors import (
    MOST_PROBLEMS,
    CheckpointError,
    QconfigError,
    raise_problems,
)
from qconfig.versioning import Layout

_WORDS = (
    b"brevitas.quant_tensor",
    b"tensor_quant",
    b"export_handler",
    b"zero_hw_sentinel",
    b"signed",
)
"""What is in every file that is recognised: a class, a part of a quantizer's key, or a field."""


class BrevitasPickles:
    """Files that `torch.save` wrote of Brevitas' NamedTuples and state_dicts.

    Names in them are looked up in closed tables, and nothing of them is imported or called.

    Args:
        guidance: what the caller says of a state_dict, which lacks most of what it was made with;
            None to leave it under its own names.
        place: where in a file its state_dict is.
    """

    name: str = LIBRARY
    library: str = LIBRARY
    newest: tuple[int, int] = NEWEST
    suffixes: tuple[str, ...] = SUFFIXES

    def __init__(self, guidance: Guidance | None = None, place: StateDictPlace = WHOLE) -> None:
        self.guidance = guidance
        self.place = place

    def recognises_file(self, path: Path) -> bool:
        """Return whether a file names Brevitas' classes, or has keys of its quantizers."""
        try:
            if not mentions(path, _WORDS):
                return False
            root = at_place(read_torch_file(path, NAMES), self.place)[0].root
        except QconfigError:
            return False
        return is_of_brevitas(root) or (isinstance(root, dict) and has_quantizers(root))

    def guided(self, guidance: Guidance) -> AnyDialect:
        """Return the dialect with what the caller says."""
        return BrevitasPickles(guidance, self.place)

    def placed(self, place: StateDictPlace) -> FileDialect:
        """Return the dialect that reads the state_dict at a place alone."""
        return BrevitasPickles(self.guidance, place)

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
            CheckpointError: the files contradict each other, or hold what is no tensor.
            QconfigError: a tensor or a key cannot be read.
        """
        files, index = pickled_files(path, follow_symlinks=follow_symlinks)
        opened = {name: read_torch_file(file, NAMES) for name, file in files.items()}
        said = self.guidance or Guidance()
        merged = _Merged(said.dropped)
        for name, whole in opened.items():
            file, said_of_place = at_place(whole, self.place)
            merged.notes += said_of_place
            merged.add(name, file, shard_name(name) if len(files) > 1 else SINGLE_FILE)
        if index is not None:
            compared = compared_with_index(index, path / INDEX_FILE, opened, self.place)
            merged.problems += compared[0]
            merged.notes += compared[1]
        raise_problems(merged.problems[:MOST_PROBLEMS], file=path)
        merged.read(path)
        config = said.config
        problems = contradictions(merged.layouts, config)
        raise_problems([p.at(file=path) for p in problems], file=path)
        state, notes = converted_state(merged.state(), merged.layouts, self.guidance, path)
        plain, ties = _without_second_names(state)
        ties |= {a: n for a, n in merged.ties.items() if n in merged.layouts}
        shard_of = {name: merged.shard_of.get(name, merged.first_shard) for name in plain}
        shard_of |= {name: merged.shard_of[name] for name in merged.layouts}
        return Checkpoint(
            path if path.is_dir() else path.parent,
            opened,
            plain,
            merged.layouts,
            shard_of,
            ties,
            read_config_json(path, follow_symlinks=follow_symlinks) if path.is_dir() else None,
            {shard: {} for shard in dict.fromkeys(shard_of.values())} or {SINGLE_FILE: {}},
            (*merged.notes, *notes),
            is_directory=path.is_dir(),
            index=index,
            dialect=self.name,
            origins=merged.origins,
            # Of a state_dict each quantizer's config lies beside its thresholds, as a tensor.
            config=config if keep_config and merged.layouts else None,
            consumed=frozenset({INDEX_FILE}),
        )


@define
class _Merged:
    """The entries of all files."""

    dropped: tuple[str, ...]
    plain: dict[str, LazyTensor] = field(factory=dict)
    quantized: dict[str, Quantized] = field(factory=dict)
    layouts: dict[str, Layout] = field(factory=dict)
    origins: dict[str, Origin] = field(factory=dict)
    shard_of: dict[str, str] = field(factory=dict)
    ties: dict[str, str] = field(factory=dict)
    problems: list[QconfigError] = field(factory=list)
    notes: list[str] = field(factory=list)

    @property
    def first_shard(self) -> str:
        """The shard of what is derived from several tensors."""
        return next(iter(self.shard_of.values()), SINGLE_FILE)

    def add(self, label: str, file: TorchFile, shard: str) -> None:
        """Add the entries of one file, which has the name `label` in its directory."""
        found = entries_of(file.root)
        self.notes += found.notes
        hint = place_hint(file.root) if found.problems else None
        for name, problem in found.problems.items():
            if selects(self.dropped, name):
                self.notes.append(f"{name} is left out, as was asked for")
            else:
                for p in problem.problems:
                    p.hint = p.hint or hint
                    self.problems.append(p.at(file=file.path, fqn=name))
        owners: dict[Hashable, str] = {}
        for name, value in (found.plain | found.quantized).items():
            if name in self.shard_of or name in self.ties:
                self.problems.append(_twice(file.path, name))
                continue
            owner = owners.setdefault(_memory(value), name)
            if owner != name:
                self.ties[name] = owner
                continue
            self.shard_of[name] = shard
            if isinstance(value, Quantized):
                self.quantized[name] = value
            else:
                self.plain[name] = value.value

    def state(self) -> dict[str, LazyTensor]:
        """Return the plain tensors by all of their names; names of one tensor give one value."""
        aliases = {a: self.plain[n] for a, n in self.ties.items() if n in self.plain}
        return self.plain | aliases

    def read(self, path: Path) -> None:
        """Read all NamedTuples.

        Raises:
            QconfigError: some cannot be read; all of them at once.
        """
        problems: list[QconfigError] = []
        for name, value in self.quantized.items():
            try:
                read = read_tensor(value.form, value.fields, value.path)
            except QconfigError as error:
                problems += [p.at(file=path, fqn=name) for p in error.problems]
                continue
            self.layouts[name], self.origins[name] = read.layout, read.origin
        raise_problems(problems[:MOST_PROBLEMS], file=path)


def _without_second_names(
    state: Mapping[str, LazyTensor],
) -> tuple[dict[str, LazyTensor], dict[str, str]]:
    plain: dict[str, LazyTensor] = {}
    ties: dict[str, str] = {}
    owners: dict[int, str] = {}
    for name, tensor in state.items():
        owner = owners.setdefault(id(tensor), name)
        if owner == name:
            plain[name] = tensor
        else:
            ties[name] = owner
    return plain, ties


def _memory(value: Any) -> Hashable:
    if isinstance(value, Quantized):
        fields: Hashable = memory_of(dict(value.fields))
        return (value.path, fields)
    memory: Hashable = memory_of(value)
    return memory


def _twice(path: Path, name: str) -> CheckpointError:
    return CheckpointError(
        "the tensor lies in two files", file=path, fqn=name, expected="one file that holds it"
    )
