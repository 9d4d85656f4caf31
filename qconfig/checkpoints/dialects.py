"""The closed table of dialects: other libraries' forms of checkpoints that `open_checkpoint` reads.

A dialect adds itself when its module is imported; the catalog says which modules those are. What
it gives is an ordinary `Checkpoint`, so that every verb works on it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from attrs import field, frozen

from qconfig.checkpoints.checkpoint import Checkpoint
from qconfig.checkpoints.guidance import WHOLE, Guidance, StateDictPlace
from qconfig.checkpoints.writer import Writer
from qconfig.codec.safetensors_header import Header
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import RegistrationError, UsageError, nearest
from qconfig.versioning.modules import load_what_is_needed

NATIVE = "qconfig"
"""The name of our own form."""


@frozen
class Found:
    """Opened safetensors files whose tensors nobody has interpreted yet.

    Args:
        directory: where the files lie.
        headers: headers by file name.
        located: file name of each stored tensor.
        tensors: all stored tensors by name.
        config_json: the whole of config.json, or None.
    """

    directory: Path
    headers: dict[str, Header]
    located: dict[str, str]
    tensors: dict[str, LazyTensor] = field(repr=False)
    config_json: dict[str, Any] | None


@runtime_checkable
class SafetensorsDialect(Protocol):
    """Safetensors files whose metadata or config.json another library wrote.

    Attributes:
        name: what `--from` takes.
        library: the package that writes such files.
        newest: its newest release whose files are known.
    """

    name: str
    library: str
    newest: tuple[int, int]

    def recognises(
        self, headers: Mapping[str, Header], config_json: Mapping[str, Any] | None
    ) -> bool:
        """Return whether the files are of this dialect; never raises."""

    def assemble(self, found: Found, writer: Writer | None) -> Checkpoint:
        """Return the checkpoint that the files are.

        Raises:
            QconfigError: the files contradict each other, or hold what cannot be read.
        """


@runtime_checkable
class FileDialect(Protocol):
    """Files that are no safetensors files. They are opened only when asked for.

    Attributes:
        name, library, newest: as of a `SafetensorsDialect`.
        suffixes: what the name of such a file ends in: naming one of them is asking for it.
    """

    name: str
    library: str
    newest: tuple[int, int]
    suffixes: tuple[str, ...]

    def open(
        self,
        path: Path,
        writer: Writer | None,
        *,
        follow_symlinks: bool = False,
        keep_config: bool = True,
    ) -> Checkpoint:
        """Open a file, or a directory of them; `keep_config` says whether to read its config.

        Raises:
            QconfigError: the files are damaged or hostile, or hold what cannot be read.
        """


@runtime_checkable
class RecognisesFiles(Protocol):
    """A `FileDialect` that tells its files from others of the same suffixes."""

    def recognises_file(self, path: Path) -> bool:
        """Return whether a file is of this dialect, by what it names; never raises."""


@runtime_checkable
class TakesGuidance(Protocol):
    """A dialect whose files do not say all that it has to know."""

    def guided(self, guidance: Guidance) -> "AnyDialect":
        """Return the dialect with what the caller said.

        Raises:
            UsageError: the dialect has no use for it.
        """


@runtime_checkable
class TakesPlace(Protocol):
    """A dialect of files that may hold a state_dict beside other things."""

    def placed(self, place: StateDictPlace) -> "FileDialect":
        """Return the dialect that reads the state_dict at a place alone."""


AnyDialect = SafetensorsDialect | FileDialect


class _Dialects:
    """The table, filled on first use by what the catalog says."""

    def __init__(self) -> None:
        self._known: dict[str, AnyDialect] = {}

    def add(self, dialect: AnyDialect) -> None:
        """Add a dialect.

        Raises:
            RegistrationError: the name is taken.
        """
        if dialect.name in self._known or dialect.name == NATIVE:
            raise RegistrationError("two dialects of one name", found=dialect.name)
        self._known[dialect.name] = dialect

    def all(self) -> list[AnyDialect]:
        """Return all dialects, in the order in which they are tried."""
        load_what_is_needed("dialects")
        return list(self._known.values())

    def get(self, name: str) -> AnyDialect | None:
        """Return the dialect of a name; None for our own form.

        Raises:
            UsageError: there is no such dialect.
        """
        known = {dialect.name: dialect for dialect in self.all()}
        if name == NATIVE:
            return None
        if name not in known:
            names = [NATIVE, *known]
            raise UsageError(
                "unknown dialect",
                found=name,
                expected="one of " + ", ".join(names),
                hint=nearest(name, names),
            )
        return known[name]


dialects = _Dialects()


def file_dialect(path: Path) -> FileDialect | None:
    """Return the first dialect of files that are named like `path`; None for a directory.

    Nothing is opened.
    """
    return next(iter(_named_like(path)), None)


def recognised_dialect(path: Path, place: StateDictPlace = WHOLE) -> FileDialect | None:
    """Return the dialect that a file is of, by its name and then by what it holds, or None.

    Where dialects share a suffix, the file is opened, and the first that recognises it is taken.
    """
    known: list[FileDialect] = [_placed(dialect, place) for dialect in _named_like(path)]
    if len(known) > 1:
        for dialect in known:
            if isinstance(dialect, RecognisesFiles) and dialect.recognises_file(path):
                return dialect
    return known[0] if known else None


def placed(dialect: AnyDialect | None, place: StateDictPlace) -> AnyDialect | None:
    """Return a dialect that reads what lies at a place in its files.

    Raises:
        UsageError: its files hold tensors and nothing else.
    """
    if place.is_empty:
        return dialect
    if isinstance(dialect, TakesPlace):
        return dialect.placed(place)
    raise UsageError(
        "only pickled files hold a state_dict beside other things",
        found=place.described,
        expected="neither a key nor a prefix for " + (NATIVE if dialect is None else dialect.name),
    )


def _placed(dialect: FileDialect, place: StateDictPlace) -> FileDialect:
    return dialect.placed(place) if isinstance(dialect, TakesPlace) else dialect


def guided(dialect: AnyDialect | None, guidance: Guidance | None) -> AnyDialect | None:
    """Return a dialect with what the caller says about the files.

    Args:
        dialect: of the files; None for our own form.
        guidance: what is said, maybe nothing, for files that are to be converted; None for files
            that are only to be looked at.

    Raises:
        UsageError: its files say all of it themselves.
    """
    if guidance is None:
        return dialect
    if not isinstance(dialect, TakesGuidance):
        if guidance.is_empty:
            return dialect
        raise UsageError(
            "the files say by themselves what was said about them",
            found=guidance.described,
            expected="neither a config nor a policy for "
            + (NATIVE if dialect is None else dialect.name),
            hint=_who_takes_guidance(is_file=isinstance(dialect, FileDialect)),
        )
    return dialect.guided(guidance)


def _who_takes_guidance(*, is_file: bool) -> str | None:
    """Return how to say that files are of a dialect which they do not show."""
    names = [
        f"--from {d.name} for files of {d.library}"
        for d in dialects.all()
        if isinstance(d, TakesGuidance) and isinstance(d, FileDialect) == is_file
    ]
    if not names:
        return None
    return f"say {' or '.join(names)}, which do not show it where all quantizers are constant"


def _named_like(path: Path) -> list[FileDialect]:
    """Return the dialects of a suffix; those that tell their files from others come last."""
    if path.is_dir():
        return []
    files = (d for d in dialects.all() if isinstance(d, FileDialect))
    named = [d for d in files if path.suffix.lower() in d.suffixes]
    return sorted(named, key=lambda dialect: isinstance(dialect, RecognisesFiles))


def check_writer(dialect: AnyDialect | None, writer: Writer | None) -> None:
    """Refuse a writer that does not write the dialect, or that nobody knows yet.

    Raises:
        UsageError: it is of another library, or newer than the releases that are known.
    """
    if writer is None:
        return
    if dialect is None or dialect.library != writer.library:
        raise UsageError(
            "not of that writer's library",
            found=str(writer),
            expected=f"no writer, for {NATIVE} says its versions itself"
            if dialect is None
            else f"a release of {dialect.library}",
        )
    if writer.release > dialect.newest:
        newest = Writer(dialect.library, dialect.newest)
        raise UsageError(
            "a release that is not known yet",
            found=str(writer),
            expected=f"a release up to {newest}",
            hint="leave the writer out: what is new in a file is read or refused by its fields",
        )
