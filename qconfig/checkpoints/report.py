"""What happened to a checkpoint and its tensors: shared by upgrades and conversions."""

from collections.abc import Iterable
from typing import Any

from attrs import field, frozen

from qconfig.checkpoints.checkpoint import Checkpoint
from qconfig.checkpoints.origin import Origin
from qconfig.codec.layout_values import counted
from qconfig.codec.tensor_values import LazyTensor, nbytes
from qconfig.versioning import Entry, Step, registry


@frozen
class TensorReport:
    """What happens to one quantized tensor.

    Args:
        fqn: its name.
        source: the layout version that it was read as.
        steps: the steps that it takes, those included that reading took.
        origin: what it was in the checkpoint of another library, or None.
    """

    fqn: str
    source: Entry
    steps: tuple[Step, ...]
    origin: Origin | None

    @property
    def lossless(self) -> bool:
        """Whether every step carries everything, and reading did."""
        changes = self.origin.changes if self.origin is not None else ()
        return not changes and all(step.lossless for step in self.steps)

    @property
    def exact(self) -> bool:
        """Whether values and products are the writer's, and nothing about them had to be taken."""
        return self.origin is None or self.origin.exact

    @property
    def becomes(self) -> str:
        """What it becomes, in a few words."""
        return str(self.steps[-1].target if self.steps else self.source)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a report."""
        return {
            "fqn": self.fqn,
            "type": self.source.name,
            "from_version": self.source.version,
            "origin": None if self.origin is None else self.origin.to_dict(),
            "steps": [step.to_dict() for step in self.steps],
            "drops": [step.drops for step in self.steps if step.drops is not None],
            "lossless": self.lossless,
            "exact": self.exact,
        }


@frozen
class CheckpointReport:
    """What was done to a checkpoint, or would be.

    Args:
        dialect: in whose form it was written.
        tensors: one entry per quantized tensor.
        config_before: the quantization config as it was written, or None.
        config_after: the same in the form that was written, or None.
        copied_bytes: bytes of tensors that are copied as they are.
        computed_bytes: bytes of tensors that have to be computed.
        notes: what is odd about the checkpoint but harmless.
    """

    dialect: str
    tensors: tuple[TensorReport, ...] = field(repr=counted)
    config_before: Any = field(repr=False)
    config_after: Any = field(repr=False)
    copied_bytes: int
    computed_bytes: int
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a report."""
        return {
            "dialect": self.dialect,
            "config_before": self.config_before,
            "config_after": self.config_after,
            "copied_bytes": self.copied_bytes,
            "computed_bytes": self.computed_bytes,
            "notes": list(self.notes),
            "tensors": [t.to_dict() for t in self.tensors],
        }


def history_of(checkpoint: Checkpoint, fqn: str) -> dict[str, Any]:
    """Return the arguments of a `TensorReport` for a quantized tensor of a checkpoint."""
    entry, origin = registry.entry_of(type(checkpoint.layouts[fqn])), checkpoint.origins.get(fqn)
    before = origin.steps if origin is not None else ()
    return {
        "fqn": fqn,
        "source": before[0].source if before else entry,
        "steps": (*before, *registry.path(entry)),
        "origin": origin,
    }


def copied_and_computed(values: Iterable[LazyTensor]) -> tuple[int, int]:
    """Return the bytes of tensors that are ranges of a file, and of those that are computed."""
    sizes = {True: 0, False: 0}
    for value in values:
        sizes[value.source is not None] += nbytes(value)
    return sizes[True], sizes[False]
