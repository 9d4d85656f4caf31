"""Read every tensor of a checkpoint: its bytes against digests, its values against its layout."""

from collections import Counter
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any, Self

from attrs import define, field, frozen

from qconfig.checkpoints.checkpoint import Checkpoint
from qconfig.checkpoints.events import Phase
from qconfig.checkpoints.job import Job
from qconfig.checkpoints.memory import MemoryBudget, check_need
from qconfig.checkpoints.record import inner_name
from qconfig.checkpoints.stated_sums import stated_sums
from qconfig.codec.digests import ALGORITHM, check_bytes, digest, stated_digests
from qconfig.codec.layout_values import layout_nbytes, loaded, present_fields
from qconfig.codec.safetensors_header import Header
from qconfig.codec.sha256_sums import SUMS_FILE, check_sum
from qconfig.codec.strict_json import dumps_compact
from qconfig.codec.tensor_values import LazyTensor, nbytes
from qconfig.errors import QconfigError
from qconfig.versioning import Layout, registry

_BATCH_BYTES = 64 * 2**20

Expected = Mapping[str, Mapping[str, str]]
"""Digests of stored tensors by name, by file name."""


@frozen
class _Unit:
    """One tensor that is read, a quantized one with its parts or a plain one; or a whole file."""

    shard: str
    name: str
    size: int
    digests: list[tuple[str, LazyTensor, str]] = field(factory=list)
    layout: Layout | None = None
    sha256: str | None = None


def expected_digests(checkpoint: Checkpoint) -> tuple[Expected, list[QconfigError]]:
    """Return the digests of each shard that has some, and a problem for each damaged header."""
    expected: dict[str, Mapping[str, str]] = {}
    problems: list[QconfigError] = []
    for name, source in checkpoint.shards.items():
        digests = checkpoint.digests.get(name)
        if digests is None or digests.algorithm != ALGORITHM or not isinstance(source, Header):
            continue
        try:
            expected[name] = stated_digests(source, digests)
        except QconfigError as error:
            problems += error.problems
            expected[name] = {}
    return expected, problems


@define
class Check:
    """What is read of a checkpoint, one unit after the other.

    Args:
        checkpoint: it is read, each tensor once while it is in the page cache.
        units: what is read.
        job: is told of each unit and shard.
        stated: number of tensors that have a digest.
        unstated: the shards without digests.
        problems: what is wrong with the files that say what is expected.
        sums: number of whole files that are compared.
        budget: what is read at a time takes its memory from it.
    """

    checkpoint: Checkpoint
    units: list[_Unit]
    job: Job
    stated: int
    unstated: tuple[str, ...]
    problems: list[QconfigError]
    sums: int
    budget: MemoryBudget = field(factory=MemoryBudget)
    _left: Counter[str] = field(init=False)
    _lock: Any = field(factory=Lock, init=False)

    def __attrs_post_init__(self) -> None:
        self._left = Counter(unit.shard for unit in self.units)

    @classmethod
    def of(
        cls,
        checkpoint: Checkpoint,
        job: Job,
        *,
        follow_symlinks: bool,
        max_memory: int | None = None,
    ) -> Self:
        """Return what is to be read of a checkpoint: what is quantized, and what has a digest.

        Args:
            checkpoint: an open one.
            job: is told of each unit and shard.
            follow_symlinks: also read a list of sums that is a link to a file elsewhere.
            max_memory: bytes of memory for what is read at a time; what takes more is read alone.
        """
        expected, problems = expected_digests(checkpoint)
        sums, wrong = stated_sums(checkpoint, follow_symlinks=follow_symlinks)
        units = list(_units(checkpoint, expected))
        if sums:
            # Right after its tensors a file may still be in the page cache.
            order = {name: i for i, name in enumerate(checkpoint.shards)}
            units += [
                _Unit(name, SUMS_FILE, checkpoint.shards[name].file_size, sha256=text)
                for name, text in sums.items()
            ]
            units.sort(key=lambda unit: order.get(unit.shard, -1))
        stated = sum(len(digests) for digests in expected.values())
        unstated = tuple(name for name in checkpoint.shards if name not in expected)
        budget = MemoryBudget(max_memory)
        return cls(checkpoint, units, job, stated, unstated, problems + wrong, len(sums), budget)

    @property
    def identity(self) -> str:
        """A digest of what is read, and of what is expected of it."""
        lines = [
            [unit.shard, unit.name, unit.size, unit.sha256, [text for *_, text in unit.digests]]
            for unit in self.units
        ]
        return digest(dumps_compact(lines).encode())

    def read(self, first: int, last: int) -> list[QconfigError]:
        """Read the units from `first` on, before `last`; return a problem for all that is wrong."""
        problems: list[QconfigError] = []
        for unit in self.units[first:last]:
            with self.budget.taken(check_need(unit.size if unit.layout is not None else 0)):
                problems += _problems(self.checkpoint, unit, self.job)
            self.tell(unit)
        return problems

    def tell(self, unit: _Unit) -> None:
        """Tell the job that a unit has been read."""
        self.job.tensor(unit.shard, unit.name, unit.size)
        with self._lock:
            self._left[unit.shard] -= 1
            is_last = not self._left[unit.shard]
        if is_last:
            self.job.shard_done(unit.shard)

    def batches(self) -> Iterator[tuple[int, int]]:
        """Yield where batches begin and end that are large enough to be worth a task."""
        first = size = 0
        for i, unit in enumerate(self.units, 1):
            size += unit.size
            if size >= _BATCH_BYTES or i == len(self.units):
                yield first, i
                first, size = i, 0


def check_stored_values(layout: Layout) -> None:
    """Load one quantized tensor and check its values.

    Raises:
        LayoutError: a scale is not a positive finite number, or a code is out of range.
        MigrationError: a step cannot carry the values.
    """
    from qconfig.tensors.classes import check_values

    check_values(loaded(registry.convert(layout)))


def _units(checkpoint: Checkpoint, expected: Expected) -> Iterator[_Unit]:
    digests = {name: text for shard in expected.values() for name, text in shard.items()}
    for fqn, layout in checkpoint.layouts.items():
        parts = [(inner_name(fqn, f), getattr(layout, f)) for f in present_fields(layout)]
        stated = [(n, t, digests[n]) for n, t in parts if n in digests]
        yield _Unit(checkpoint.shard_of[fqn], fqn, layout_nbytes(layout), stated, layout)
    for name, tensor in checkpoint.plain.items():
        if name in digests:
            stated = [(name, tensor, digests[name])]
            yield _Unit(checkpoint.shard_of[name], name, nbytes(tensor), stated)


def _problems(checkpoint: Checkpoint, unit: _Unit, job: Job) -> list[QconfigError]:
    problems: list[QconfigError] = []
    for name, tensor, stated in unit.digests:
        if tensor.source is None:
            continue
        try:
            with job.phase(Phase.READ):
                check_bytes(name, tensor.source, stated)
        except QconfigError as error:
            problems += error.problems
    if unit.sha256 is not None:
        try:
            with job.phase(Phase.READ):
                check_sum(checkpoint.shards[unit.shard].path, unit.sha256)
        except QconfigError as error:
            problems += error.problems
    if unit.layout is not None:
        try:
            with job.phase(Phase.COMPUTE):
                check_stored_values(unit.layout)
        except QconfigError as error:
            problems += [p.at(file=checkpoint.place, fqn=unit.name) for p in error.problems]
    return problems
