"""The tensors of one of torchao's checkpoints as ours: layouts, and what is left plain."""

from collections.abc import Mapping
from pathlib import Path

from attrs import define, field

from qconfig.checkpoints.origin import Origin
from qconfig.checkpoints.writer import Writer
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.stored import Stored
from qconfig.dialects.torchao.tensors.modules import swapped_modules
from qconfig.dialects.torchao.tensors.table import read_tensor
from qconfig.errors import MOST_PROBLEMS, QconfigError, raise_problems
from qconfig.versioning import Layout

NOTHING_QUANTIZED = (
    "no tensor here is quantized: torchao saves a CodebookQuantizedTensor as a plain tensor of the "
    "values that it stands for, so that nothing of its codes is left to read"
)


@define
class Interpreted:
    """Tensors by name, and where they go.

    Args:
        plain: tensors that are not quantized.
        shard_of: the shard of the new checkpoint for each name.
        layouts: quantized tensors, in the version that was stored.
        origins: what they were.
    """

    plain: dict[str, LazyTensor]
    shard_of: dict[str, str]
    layouts: dict[str, Layout] = field(factory=dict)
    origins: dict[str, Origin] = field(factory=dict)

    def notes(self) -> tuple[str, ...]:
        """Return what to say about a checkpoint without quantized tensors."""
        return () if self.layouts else (NOTHING_QUANTIZED,)


def interpreted(
    plain: Mapping[str, LazyTensor],
    stored: Mapping[str, Stored],
    shard_of: Mapping[str, str],
    writer: Writer | None,
    file: Path,
) -> Interpreted:
    """Read every quantized tensor of a checkpoint.

    Args:
        plain: the other tensors; those of swapped modules are found among them.
        stored: quantized tensors as torchao stored them.
        shard_of: the shard of the new checkpoint for each name of both.
        writer: the release that wrote them, where the user said it.
        file: the checkpoint, for errors.

    Raises:
        QconfigError: tensors that cannot be read, all of them at once.
    """
    result = Interpreted(dict(plain), dict(shard_of))
    problems: list[QconfigError] = []
    for fqn, value in stored.items():
        try:
            read = read_tensor(value, writer)
        except QconfigError as error:
            problems += [p.at(file=file, fqn=fqn) for p in error.problems]
            if len(problems) >= MOST_PROBLEMS:
                break
            continue
        result.layouts[fqn], result.origins[fqn] = read.layout, read.origin
    raise_problems(problems, file=file)
    for swapped in swapped_modules(result.plain):
        for name in swapped.names:
            del result.plain[name]
        shard = result.shard_of[swapped.names[0]]
        result.shard_of[swapped.fqn] = shard
        result.layouts[swapped.fqn] = swapped.read.layout
        result.origins[swapped.fqn] = swapped.read.origin
    return result
