"""Read every tensor of a checkpoint: its bytes against digests, its values against its layout."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from threading import Lock

from attrs import field, frozen

from qconfig.checkpoints.checkpoint import Checkpoint
from qconfig.checkpoints.events import Phase
from qconfig.checkpoints.job import Job
from qconfig.checkpoints.record import inner_name
from qconfig.codec.digests import ALGORITHM, check_bytes, stated_digests
from qconfig.codec.layout_values import layout_nbytes, loaded, present_fields
from qconfig.codec.safetensors_header import Header
from qconfig.codec.sha256_sums import SUMS_FILE, check_sum
from qconfig.codec.tensor_values import LazyTensor, nbytes
from qconfig.errors import QconfigError
from qconfig.limits import with_limits
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


def check_stored_bytes(
    checkpoint: Checkpoint,
    expected: Expected,
    sums: Mapping[str, str],
    job: Job,
    executor: Executor | None,
) -> list[QconfigError]:
    """Read what is quantized, and what has a digest, and return a problem for all that is wrong.

    Args:
        checkpoint: it is read, each tensor once while it is in the page cache.
        expected: the digests to compare with.
        sums: SHA-256 of whole files by name, to compare with.
        job: is told of the start, and of each tensor and shard.
        executor: takes tensors together until they are large enough to be worth it, in threads.
    """
    units = list(_units(checkpoint, expected))
    if sums:
        # Right after its tensors a file may still be in the page cache.
        order = {name: i for i, name in enumerate(checkpoint.shards)}
        units += [
            _Unit(name, SUMS_FILE, checkpoint.shards[name].file_size, sha256=text)
            for name, text in sums.items()
        ]
        units.sort(key=lambda unit: order.get(unit.shard, -1))
    left: dict[str, int] = {}
    for unit in units:
        left[unit.shard] = left.get(unit.shard, 0) + 1
    lock = Lock()
    job.start(sum(unit.size for unit in units))

    def check(batch: list[_Unit]) -> list[QconfigError]:
        problems: list[QconfigError] = []
        for unit in batch:
            problems += _problems(checkpoint, unit, job)
            job.tensor(unit.shard, unit.name, unit.size)
            with lock:
                left[unit.shard] -= 1
                is_last = not left[unit.shard]
            if is_last:
                job.shard_done(unit.shard)
        return problems

    if executor is None:
        return check(units)
    check_there = with_limits(check)
    futures = [executor.submit(check_there, batch) for batch in _batches(units)]
    job.wait_for(futures)
    # What a listener raises is raised here; cancelled are only those behind such a one.
    failures = [f.exception() for f in futures if not f.cancelled()]
    for failure in failures:
        if failure is not None:
            raise failure
    return [problem for future in futures for problem in future.result()]


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


def _batches(units: list[_Unit]) -> Iterator[list[_Unit]]:
    batch: list[_Unit] = []
    size = 0
    for unit in units:
        batch.append(unit)
        size += unit.size
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


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
