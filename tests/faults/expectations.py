"""What may be seen after a call has failed."""

from pathlib import Path, PurePath

from tests.faults.calls import GROWS, SYNCS, Call, Kind

MARK = ".qconfig-tmp"


def leftover_of(target: Path) -> Path:
    """Return where a run on `target` works."""
    return target.parent / f".{target.name}{MARK}"


def placed(made: list[Call], target: Path) -> int | None:
    """Return the number of the call that gives the target its name, or None."""
    name = target.name
    places = [i for i, c in enumerate(made, 1) if c.name == "rename" and is_named(c, name)]
    return places[0] if places else None


def is_named(call: Call, name: str) -> bool:
    """Return whether a call is about a path with this last part."""
    return PurePath(call.path).name == name


def may_leave(call: Call) -> bool:
    """Return whether a lock file may stay after a failure of this call.

    Whether another run holds a lock that cannot be taken, nobody can say: it is not removed.
    """
    return call.name == "flock"


def must_succeed(kind: Kind) -> bool:
    """Return whether a run has to get over such a failure."""
    return kind is Kind.SHORT


def must_fail(call: Call, kind: Kind, *, is_placed: bool) -> bool:
    """Return whether a run may not go on after such a failure of a call.

    What only prepares, copies or cleans up may be done another way or left out.
    """
    if is_placed or call.name in {"posix_fallocate", "ioctl", "flock", "close"}:
        return False
    if kind in {Kind.NO_SPACE, Kind.QUOTA}:
        return call.name in (GROWS | SYNCS) - {"mkdir"}
    if kind is Kind.IO:
        return call.name in {"write", "pwrite", "fsync", "open", "ftruncate"}
    return kind is Kind.READ_ONLY and call.name == "open"


def finished_shards(made: list[Call], names: tuple[str, ...]) -> set[str]:
    """Return the shards that are surely finished after these calls of a run without threads.

    A shard is, when it has its name and another file than the journal is begun.
    """
    begun = [c.path for c in made if c.name == "open" and not is_named(c, "journal")]
    if not begun:
        return set()
    last = next(i for i, call in enumerate(made) if call.path == begun[-1])
    return written_shards(made[:last], names)


def written_shards(made: list[Call], names: tuple[str, ...]) -> set[str]:
    """Return the shards that get their names by these calls."""
    named = [c for c in made if c.name in {"open", "rename", "replace"}]
    return {name for call in named for name in names if is_named(call, name)}
