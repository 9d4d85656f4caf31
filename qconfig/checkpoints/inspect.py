"""Say what a checkpoint holds, from headers alone.

A dialect may read a few tensors, and import torch for it, where they decide how others are read.
"""

from collections import Counter
from math import isfinite, prod
from pathlib import Path
from typing import Any

from attrs import asdict, field, frozen

from qconfig.checkpoints.checkpoint import Checkpoint
from qconfig.checkpoints.dialects import NATIVE, TakesGuidance, dialects
from qconfig.checkpoints.guidance import StateDictPlace
from qconfig.checkpoints.open import open_checkpoint
from qconfig.checkpoints.writer import Writer
from qconfig.codec.dtypes import DType
from qconfig.codec.layout_values import counted, layout_nbytes, present_fields
from qconfig.codec.single_numbers import single_number
from qconfig.codec.tensor_values import nbytes
from qconfig.errors import QconfigError
from qconfig.versioning import Layout, plain_fields, registry


@frozen
class TensorSummary:
    """One logical tensor of a checkpoint.

    Args:
        fqn: its name.
        shard: file that holds it.
        shape: logical shape.
        dtype: element type that it shows.
        layout: registered layout name, or None for a plain tensor.
        version: version it was written in.
        current_layout: layout name that it has when it is up to date.
        current: version that it has then.
        bytes: stored size, all inner tensors together.
        origin: what another library stored, or None.
        changes: what of that is not carried exactly, and by how much.
        ambiguities: what its file does not say, and what is taken.
        numbers: its tensors of one number by field, and beside such its plain flags and numbers.
    """

    fqn: str
    shard: str
    shape: tuple[int, ...]
    dtype: str
    layout: str | None
    version: int | None
    current_layout: str | None
    current: int | None
    bytes: int
    origin: str | None = None
    changes: tuple[str, ...] = ()
    ambiguities: tuple[str, ...] = ()
    numbers: dict[str, float | bool | str] = field(factory=dict)

    @property
    def bits_per_weight(self) -> float:
        """Stored bits per logical element; 0 for an empty tensor."""
        elements = prod(self.shape)
        return 8 * self.bytes / elements if elements else 0.0


@frozen
class Inspection:
    """What `inspect_checkpoint` found."""

    path: str
    shards: dict[str, int]
    tensors: tuple[TensorSummary, ...] = field(repr=counted)
    quantization_config: Any = field(repr=False)
    ties: dict[str, str] = field(repr=counted)
    notes: tuple[str, ...]
    dialect: str = NATIVE

    @property
    def total_bytes(self) -> int:
        """Stored bytes of all tensors."""
        return sum(t.bytes for t in self.tensors)

    @property
    def bits_per_weight(self) -> float:
        """Stored bits per logical element over the whole checkpoint."""
        elements = sum(prod(t.shape) for t in self.tensors)
        return 8 * self.total_bytes / elements if elements else 0.0

    @property
    def layouts(self) -> dict[tuple[str, int], int]:
        """How many tensors there are of each layout name and version."""
        found = ((t.layout, t.version) for t in self.tensors)
        return dict(sorted(Counter((n, v) for n, v in found if n and v).items()))

    @property
    def remarks(self) -> dict[str, int]:
        """How many tensors there are of each change and ambiguity, by its text."""
        changes = Counter(f"changes: {text}" for t in self.tensors for text in t.changes)
        return changes | Counter(f"not known: {x}" for t in self.tensors for x in t.ambiguities)

    @property
    def needs_config(self) -> bool:
        """Whether an upgrade takes a config, because the files are of a form that says none."""
        dialect = dialects.get(self.dialect)
        return isinstance(dialect, TakesGuidance) and not self.layouts

    @property
    def outdated(self) -> bool:
        """Whether a layout is not in its newest version, or the form is another library's."""
        return self.dialect != NATIVE or any(
            (t.layout, t.version) != (t.current_layout, t.current) for t in self.tensors
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for `--json`."""
        tensors = [asdict(t) | {"bits_per_weight": t.bits_per_weight} for t in self.tensors]
        return {
            "path": self.path,
            "dialect": self.dialect,
            "shards": self.shards,
            "total_bytes": self.total_bytes,
            "bits_per_weight": self.bits_per_weight,
            "layouts": [
                {"type": n, "version": v, "tensors": c} for (n, v), c in self.layouts.items()
            ],
            "outdated": self.outdated,
            "quantization_config": self.quantization_config,
            "ties": self.ties,
            "notes": list(self.notes),
            "tensors": tensors,
        }


def inspect_checkpoint(
    path: Path | str,
    *,
    follow_symlinks: bool = False,
    dialect: str | None = None,
    writer: Writer | str | None = None,
    keep_config: bool = True,
    key: str | None = None,
    strip_prefix: str = "",
) -> Inspection:
    """Return what a checkpoint holds.

    Args:
        path: a directory in Hugging Face shape, or one file.
        follow_symlinks: accept shards that are links to files elsewhere.
        dialect: in whose form it is written, see `open_checkpoint`; None finds it out.
        writer: the release that wrote it, such as `"torchao==0.13"`, where that matters.
        keep_config: False leaves the quantization config out, see `open_checkpoint`.
        key: the entry of a pickled file that holds the state_dict, such as `"state_dict"`.
        strip_prefix: what is taken off the names in a pickled file, such as `"module."`.

    Raises:
        QconfigError: the checkpoint is damaged, hostile or newer than this release.
    """
    checkpoint = open_checkpoint(
        path,
        follow_symlinks=follow_symlinks,
        dialect=dialect,
        writer=Writer.of(writer),
        keep_config=keep_config,
        place=StateDictPlace(key, strip_prefix),
    )
    tensors = [
        TensorSummary(
            name,
            _file_of(checkpoint, name),
            t.shape,
            t.dtype.value,
            layout=None,
            version=None,
            current_layout=None,
            current=None,
            bytes=nbytes(t),
        )
        for name, t in checkpoint.plain.items()
    ]
    tensors += [_quantized(checkpoint, fqn, layout) for fqn, layout in checkpoint.layouts.items()]
    return Inspection(
        str(path),
        {name: file.file_size for name, file in checkpoint.shards.items()},
        tuple(sorted(tensors, key=lambda t: t.fqn)),
        checkpoint.quantization_config,
        checkpoint.ties,
        checkpoint.notes,
        checkpoint.dialect,
    )


def _file_of(checkpoint: Checkpoint, fqn: str) -> str:
    """Return the file that holds a tensor; that of a pickle is not named as its shard will be."""
    shard = checkpoint.shard_of[fqn]
    if shard in checkpoint.shards:
        return shard
    named = (name for name in checkpoint.shards if Path(name).stem.endswith(Path(shard).stem))
    return next(named, next(iter(checkpoint.shards)))


def _quantized(checkpoint: Checkpoint, fqn: str, layout: Layout) -> TensorSummary:
    entry = registry.entry_of(type(layout))
    try:
        current: Any = registry.convert(layout)
    except QconfigError as error:
        raise error.at(file=checkpoint.place, fqn=fqn) from None
    origin = checkpoint.origins.get(fqn)
    return TensorSummary(
        fqn,
        _file_of(checkpoint, fqn),
        tuple(current.shape),
        DType.parse(current.dtype).value,
        entry.name,
        entry.version,
        registry.current(entry).name,
        registry.current(entry).version,
        layout_nbytes(layout),
        origin=None if origin is None else origin.type,
        changes=() if origin is None else origin.changes,
        ambiguities=() if origin is None else origin.ambiguities,
        numbers=_numbers(layout),
    )


def _numbers(layout: Layout) -> dict[str, float | bool | str]:
    """Return the fields of a layout that are one number each, if one of them is a tensor."""
    stored = {name: single_number(getattr(layout, name)) for name in present_fields(layout)}
    # JSON has no words for what is not finite.
    numbers: dict[str, float | bool | str] = {
        n: x if isfinite(x) else str(x) for n, x in stored.items() if x is not None
    }
    if not numbers:
        return {}
    plain = {f.name: getattr(layout, f.name) for f in plain_fields(type(layout))}
    return numbers | {n: x for n, x in plain.items() if isinstance(x, int)}
