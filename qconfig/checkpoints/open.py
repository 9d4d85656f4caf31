"""Open a checkpoint: headers, index and config, checked against each other; no data is read."""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import attrs

from qconfig.checkpoints.checkpoint import INDEX_FILE, SINGLE_FILE, Checkpoint
from qconfig.checkpoints.config_json import read_config_json, without_config
from qconfig.checkpoints.dialects import (
    AnyDialect,
    FileDialect,
    Found,
    SafetensorsDialect,
    check_writer,
    dialects,
    guided,
    placed,
    recognised_dialect,
)
from qconfig.checkpoints.guidance import WHOLE, Guidance, StateDictPlace
from qconfig.checkpoints.native import Reader, assemble
from qconfig.checkpoints.record import METADATA_KEY
from qconfig.checkpoints.writer import Writer
from qconfig.codec.collector import collector_paused
from qconfig.codec.index_file import SUFFIX, ShardIndex, check_link, read_index, shard_path
from qconfig.codec.safetensors_header import Header, read_header
from qconfig.codec.safetensors_reader import lazy_tensors
from qconfig.errors import (
    MOST_PROBLEMS,
    CheckpointError,
    ContainerError,
    QconfigError,
    StorageError,
    raise_problems,
)


@collector_paused()
def open_checkpoint(
    path: Path | str,
    *,
    strict: bool = False,
    follow_symlinks: bool = False,
    reader: Reader = lazy_tensors,
    dialect: str | None = None,
    writer: Writer | None = None,
    keep_config: bool = True,
    guidance: Guidance | None = None,
    place: StateDictPlace = WHOLE,
) -> Checkpoint:
    """Open a directory in Hugging Face shape, or one file.

    Args:
        path: the directory or file.
        strict: treat stray safetensors files and tensors missing in the index as errors.
        follow_symlinks: accept shards that are links to files elsewhere.
        reader: gives the tensors of a file from its header.
        dialect: in whose form it is written, such as `"torchao"`; None finds it out. Pickles are
            read only where a file is named by its path, or a dialect of pickles by its name.
        writer: the release that wrote it, where the files do not say.
        keep_config: False leaves the quantization config out, which may be one that cannot be
            read.
        guidance: what the files do not say, for a dialect whose files leave something open.
        place: where in a pickled file its state_dict is.

    Raises:
        UsageError: an unknown dialect, a writer of another one, or guidance that it does not take.
        StorageError: nothing there, or not readable.
        ContainerError, DocumentError: a file breaks its format.
        CheckpointError: the files contradict each other; all contradictions at once.
    """
    path = Path(path)
    chosen = dialects.get(dialect) if dialect is not None else None
    if dialect is not None:
        check_writer(chosen, writer)
    _check_exists(path)
    if dialect is None:
        chosen = recognised_dialect(path, place)
    chosen = placed(chosen, place)
    if chosen is not None or dialect is not None:
        chosen = guided(chosen, guidance)
    if isinstance(chosen, FileDialect):
        check_writer(chosen, writer)
        checkpoint = chosen.open(
            path, writer, follow_symlinks=follow_symlinks, keep_config=keep_config
        )
        return checkpoint if keep_config else without_config(checkpoint)
    directory = path if path.is_dir() else path.parent
    names, index, stray = _shard_names(path, directory, follow_symlinks=follow_symlinks)
    headers: dict[str, Header] = {}
    problems: list[QconfigError] = []
    for name in names:
        try:
            file = shard_path(directory, name, follow_symlinks=follow_symlinks)
            headers[name] = read_header(file)
        except QconfigError as error:
            problems += error.problems
            if len(problems) >= MOST_PROBLEMS:
                break
    raise_problems(problems, file=directory)
    located, problems, notes = _locate(directory, headers, index.weight_map if index else None)
    notes += [f"{name} is not in the index" for name in stray]
    if strict:
        problems += [CheckpointError(note, file=directory) for note in notes]
    raise_problems(problems[:MOST_PROBLEMS], file=directory)
    config = read_config_json(directory, follow_symlinks=follow_symlinks) if path.is_dir() else None
    if dialect is None:
        chosen = guided(_recognised(headers, config), guidance)
        check_writer(chosen, writer)
    raise_problems(_mixed(headers, chosen), file=directory)
    if isinstance(chosen, SafetensorsDialect):
        tensors = {n: t for header in headers.values() for n, t in reader(header).items()}
        said = config if keep_config else None
        checkpoint = chosen.assemble(Found(directory, headers, located, tensors, said), writer)
        checkpoint = attrs.evolve(checkpoint, config_json=config)
    else:
        checkpoint = assemble(directory, headers, located, config, reader)
    if not keep_config:
        checkpoint = without_config(checkpoint)
    notes += checkpoint.notes
    return attrs.evolve(checkpoint, notes=tuple(notes), is_directory=path.is_dir(), index=index)


def _check_exists(path: Path) -> None:
    try:
        exists = path.exists()
    except OSError as error:
        raise StorageError(f"cannot open: {error.strerror}", file=path) from error
    if not exists:
        raise StorageError("no such file or directory", file=path)


def _recognised(
    headers: dict[str, Header], config: dict[str, Any] | None
) -> SafetensorsDialect | None:
    if any(METADATA_KEY in header.metadata for header in headers.values()):
        return None
    known = (d for d in dialects.all() if isinstance(d, SafetensorsDialect))
    return next((d for d in known if d.recognises(headers, config)), None)


def _mixed(headers: dict[str, Header], chosen: AnyDialect | None) -> list[QconfigError]:
    """Return a problem for each file that does not say what the rest is read as."""
    ours = [header for header in headers.values() if METADATA_KEY in header.metadata]
    if chosen is not None:
        return [
            CheckpointError(
                f"the file has a qconfig record, and {chosen.name} is to be read",
                file=header.path,
                pointer=f"/__metadata__/{METADATA_KEY}",
                expected="files of one form",
                hint="leave out --from; a file that two libraries wrote to has to be written again",
            )
            for header in ours
        ]
    if not ours:
        return []
    known = [d for d in dialects.all() if isinstance(d, SafetensorsDialect)]
    return [
        CheckpointError(
            f"the file says that it is of {dialect.name}, beside qconfig's record",
            file=header.path,
            found=f"a qconfig record in {ours[0].path.name}",
            expected="files of one form",
            hint="a file that two libraries wrote to has to be written again by one of them",
        )
        for header in headers.values()
        for dialect in known
        if dialect.recognises({header.path.name: header}, None)
    ]


def _shard_names(
    path: Path, directory: Path, *, follow_symlinks: bool
) -> tuple[list[str], ShardIndex | None, list[str]]:
    if not path.is_dir():
        if not path.name.endswith(SUFFIX):
            raise ContainerError(
                "not a checkpoint", file=path, expected=f"a directory, or a file named *{SUFFIX}"
            )
        return [path.name], None, []
    present = sorted(p.name for p in directory.glob("*.safetensors"))
    # Asked of the name alone: an index that is a FIFO or leads nowhere is not the same as none.
    if os.path.lexists(directory / INDEX_FILE):
        check_link(directory / INDEX_FILE, follow_symlinks=follow_symlinks)
        index = read_index(directory / INDEX_FILE)
        named = set(index.weight_map.values())
        return sorted(named), index, [n for n in present if n not in named]
    if SINGLE_FILE in present:
        return [SINGLE_FILE], None, [n for n in present if n != SINGLE_FILE]
    if len(present) == 1:
        return present, None, []
    raise CheckpointError(
        "no checkpoint here" if not present else "several files and no index",
        file=directory,
        found=present or "no file *.safetensors",
        expected=f"{SINGLE_FILE}, or {INDEX_FILE} and the files that it names",
        hint=None if present else _other_files(directory),
    )


def _other_files(directory: Path) -> str | None:
    """Return what to do about files that are read only when asked for, if there are any."""
    names: dict[str, list[str]] = {}
    for path in sorted(directory.iterdir()):
        dialect = recognised_dialect(path)
        if dialect is not None:
            names.setdefault(dialect.name, []).append(path.name)
    for dialect_name, (first, *others) in names.items():
        if others:
            return f"{first} and others are read only when asked for: say --from {dialect_name}"
        return f"{first} is read only when asked for: name it, or say --from {dialect_name}"
    return None


def _locate(
    directory: Path, headers: dict[str, Header], weight_map: dict[str, str] | None
) -> tuple[dict[str, str], list[QconfigError], list[str]]:
    """Find the shard of each tensor; collect contradictions between index and headers."""
    located: dict[str, str] = {}
    problems: list[QconfigError] = []
    for shard, header in headers.items():
        for name in header.tensors:
            if name in located:
                problems.append(
                    CheckpointError(
                        "the tensor lies in two shards",
                        file=directory,
                        fqn=name,
                        found=f"{located[name]} and {shard}",
                        expected="one shard",
                    )
                )
            located[name] = shard
    if weight_map is None:
        return located, problems, []
    problems += [
        CheckpointError(
            "the index names a shard that does not hold the tensor",
            file=directory / INDEX_FILE,
            fqn=name,
            found=shard,
            expected=located.get(name, "a shard that holds it"),
        )
        for name, shard in islice(_absent(headers, weight_map), MOST_PROBLEMS)
    ]
    notes = [
        f"{s} holds {n}, which is not in the index"
        for n, s in located.items()
        if n not in weight_map
    ]
    return located, problems, notes


def _absent(headers: dict[str, Header], weight_map: dict[str, str]) -> Iterator[tuple[str, str]]:
    for name, shard in weight_map.items():
        if name not in headers[shard].tensors:
            yield name, shard
