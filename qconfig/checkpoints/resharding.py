"""Contents put into shards of a size that is chosen; what belongs together stays together."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs
from attrs import define

from qconfig.checkpoints.checkpoint import SINGLE_FILE
from qconfig.checkpoints.contents import ShardContents, same_name
from qconfig.codec.layout_values import layout_nbytes
from qconfig.codec.tensor_values import nbytes
from qconfig.errors import (
    MOST_PROBLEMS,
    CheckpointError,
    QconfigError,
    UsageError,
    json_pointer,
    raise_problems,
)

_HINT = "rename one of them; each name stands for one tensor of the whole checkpoint"


@define
class _NewShard:
    """A shard that is being filled, its bytes, and from which old shards they come."""

    contents: ShardContents = attrs.field(factory=ShardContents)
    used: int = 0
    sources: set[str] = attrs.field(factory=set)
    said_by: dict[str, str] = attrs.field(factory=dict)


def resharded(
    shards: Mapping[str, ShardContents], max_shard_bytes: int
) -> dict[str, ShardContents]:
    """Return the same contents in shards of another size, in the same order.

    A quantized tensor stays in one shard with all its parts, and a tensor with its ties. A new
    shard begins where the next tensor would exceed the size; a larger one has a shard of its own.
    Each shard has the header metadata of all shards that its tensors come from.

    Args:
        shards: contents by file name; they are not changed.
        max_shard_bytes: size at which a new shard begins.

    Returns:
        Contents by file name: `model.safetensors`, or `model-00001-of-00003.safetensors` and so on.

    Raises:
        UsageError: the size is not positive.
        CheckpointError: two tensors or ties have one name, or the metadata of shards that become
            one contradicts itself; all contradictions at once.
    """
    check_shard_size(max_shard_bytes)
    ties: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for contents in shards.values():
        for alias, name in contents.ties.items():
            if names.setdefault(alias, name) != name:
                raise same_name(alias, _HINT)
            ties.setdefault(name, []).append(alias)
    units = [(shard, unit) for shard, contents in shards.items() for unit in _units(contents, ties)]
    result = packed(units, max_shard_bytes)
    # A tie that leads nowhere is not ours to judge, nor to drop.
    next(iter(result.values())).ties.update(
        {alias: name for name, aliases in ties.items() for alias in aliases}
    )
    return result


def in_shards(
    shards: Mapping[str, ShardContents], max_shard_bytes: int | None, *, place: Path
) -> Mapping[str, ShardContents]:
    """Return `resharded` contents, or the same for None.

    Args:
        shards: contents by file name.
        max_shard_bytes: size at which a new shard begins; None keeps the shards.
        place: what errors name.

    Raises:
        UsageError, CheckpointError: as `resharded`.
    """
    if max_shard_bytes is None:
        return shards
    try:
        return resharded(shards, max_shard_bytes)
    except QconfigError as error:
        raise error.at(file=place) from None


def packed(
    units: Iterable[tuple[str, ShardContents]], max_shard_bytes: int
) -> dict[str, ShardContents]:
    """Return small contents put together into shards, each of them whole, in their order.

    Args:
        units: what stays together, with the name of the shard that it comes from. Units of one
            shard have the same metadata.
        max_shard_bytes: size at which a new shard begins.

    Raises:
        UsageError, CheckpointError: as `resharded`.
    """
    check_shard_size(max_shard_bytes)
    filled = [_NewShard()]
    taken: set[str] = set()
    problems: list[QconfigError] = []
    for source, unit in units:
        size = _bytes(unit)
        if size and filled[-1].used and filled[-1].used + size > max_shard_bytes:
            filled.append(_NewShard())
        for name in (*unit.plain, *unit.layouts):
            if name in taken:
                problems.append(same_name(name, _HINT))
            taken.add(name)
        problems += _add(filled[-1], source, unit, size)
    raise_problems(problems[:MOST_PROBLEMS])
    count = len(filled)
    names = [f"model-{i + 1:05d}-of-{count:05d}.safetensors" for i in range(count)]
    contents = (shard.contents for shard in filled)
    return dict(zip(names if count > 1 else [SINGLE_FILE], contents, strict=True))


def check_shard_size(max_shard_bytes: int | None) -> None:
    """Refuse a size in which nothing has room. Raises UsageError."""
    if max_shard_bytes is None:
        return
    if type(max_shard_bytes) is not int or max_shard_bytes < 1:
        raise UsageError(
            "max_shard_bytes must be positive", found=max_shard_bytes, expected="bytes, from 1"
        )


def _units(contents: ShardContents, ties: dict[str, list[str]]) -> Iterator[ShardContents]:
    """Yield each tensor by itself, with its ties, which are taken out of `ties`."""
    metadata = contents.metadata
    for name, tensor in contents.plain.items():
        aliases = dict.fromkeys(ties.pop(name, ()), name)
        yield ShardContents(plain={name: tensor}, metadata=metadata, ties=aliases)
    for fqn, layout in contents.layouts.items():
        aliases = dict.fromkeys(ties.pop(fqn, ()), fqn)
        yield ShardContents(layouts={fqn: layout}, metadata=metadata, ties=aliases)
    if not contents.plain and not contents.layouts:
        yield ShardContents(metadata=metadata)


def _bytes(unit: ShardContents) -> int:
    plain = sum(nbytes(tensor) for tensor in unit.plain.values())
    return plain + sum(layout_nbytes(layout) for layout in unit.layouts.values())


def _add(shard: _NewShard, source: str, unit: ShardContents, size: int) -> list[QconfigError]:
    """Put a unit into a shard; return a problem for each contradiction of their metadata."""
    shard.used += size
    shard.contents.plain.update(unit.plain)
    shard.contents.layouts.update(unit.layouts)
    shard.contents.ties.update(unit.ties)
    if source in shard.sources:
        return []
    shard.sources.add(source)
    problems: list[QconfigError] = []
    for key, text in unit.metadata.items():
        first = shard.said_by.setdefault(key, source)
        if shard.contents.metadata.setdefault(key, text) != text:
            problems.append(
                CheckpointError(
                    "header metadata of two shards that become one is not the same",
                    pointer="/__metadata__" + json_pointer(key),
                    found=f"{text!r} in {source}",
                    expected=f"{shard.contents.metadata[key]!r}, as in {first}",
                    hint="keep the shards as they are, or take the entry out of both",
                )
            )
    return problems
