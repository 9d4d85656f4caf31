"""The tensors of one of torchao's checkpoints as ours: layouts, and what is left plain."""

from collections.abc import Mapping
from pathlib import Path

from attrs import define, field

from qconfig.builders.training import training_weights
from qconfig.checkpoints.origin import Origin
from qconfig.checkpoints.writer import Writer
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.stored import Stored
from qconfig.dialects.torchao.tensors.looks import Looks
from qconfig.dialects.torchao.tensors.modules import swapped_modules
from qconfig.dialects.torchao.tensors.table import read_tensor
from qconfig.errors import MOST_PROBLEMS, QconfigError, raise_problems
from qconfig.versioning import Layout

NOTHING_QUANTIZED = (
    "no tensor here is quantized; torchao's CodebookQuantizedTensor and constant quantizers of "
    "Brevitas would leave no trace, for files keep their values or weights as plain tensors"
)
_TRAINING = "weights that still train, as floats with their quantizers beside them"


@define
class Interpreted:
    """Tensors by name, and where they go.

    Args:
        plain: tensors that are not quantized.
        shard_of: the shard of the new checkpoint for each name.
        ties: further names of tensors, plain or quantized.
        layouts: quantized tensors, in the version that was stored.
        origins: what they were.
    """

    plain: dict[str, LazyTensor]
    shard_of: dict[str, str]
    ties: dict[str, str] = field(factory=dict)
    layouts: dict[str, Layout] = field(factory=dict)
    origins: dict[str, Origin] = field(factory=dict)

    def notes(self) -> tuple[str, ...]:
        """Return what to say about a checkpoint without quantized tensors."""
        if self.layouts:
            return ()
        training = len(training_weights(self.plain))
        return (f"{_TRAINING}: {training}" if training else NOTHING_QUANTIZED,)


def interpreted(
    plain: Mapping[str, LazyTensor],
    stored: Mapping[str, Stored],
    shard_of: Mapping[str, str],
    writer: Writer | None,
    file: Path,
    *,
    ties: Mapping[str, str] | None = None,
) -> Interpreted:
    """Read every quantized tensor of a checkpoint.

    Args:
        plain: the other tensors; those of swapped modules are found among them.
        stored: quantized tensors as torchao stored them.
        shard_of: the shard of the new checkpoint for each name of both.
        writer: the release that wrote them, where the user said it.
        file: the checkpoint, for errors.
        ties: further names of both.

    Raises:
        QconfigError: tensors that cannot be read, all of them at once.
    """
    result = Interpreted(dict(plain), dict(shard_of), dict(ties or {}))
    problems: list[QconfigError] = []
    looks = Looks.into(stored.values())
    for fqn, value in stored.items():
        try:
            read = read_tensor(value, writer, looks)
        except QconfigError as error:
            problems += [p.at(file=file, fqn=fqn) for p in error.problems]
            if len(problems) >= MOST_PROBLEMS:
                break
            continue
        result.layouts[fqn], result.origins[fqn] = read.layout, read.origin
    raise_problems(problems, file=file)
    _take_swapped(result)
    return result


def _take_swapped(result: Interpreted) -> None:
    """Put layouts in place of the plain tensors of swapped modules, tied ones among them."""
    ties = result.ties
    aliases = {a: result.plain[name] for a, name in ties.items() if name in result.plain}
    everything = result.plain | aliases
    modules = swapped_modules(everything)
    firsts: dict[tuple[str, ...], str] = {}
    tied: dict[str, str] = {}
    for swapped in modules:
        stored = tuple(ties.get(name, name) for name in swapped.names)
        first = firsts.setdefault(stored, swapped.fqn)
        if first != swapped.fqn:
            tied[swapped.fqn] = first
            continue
        result.shard_of[swapped.fqn] = result.shard_of[stored[0]]
        result.layouts[swapped.fqn] = swapped.read.layout
        result.origins[swapped.fqn] = swapped.read.origin
    for name in {name for swapped in modules for name in swapped.names}:
        result.plain.pop(name, None)
        ties.pop(name, None)
    _name_heirs(result, everything)
    ties |= tied


def _name_heirs(result: Interpreted, everything: Mapping[str, LazyTensor]) -> None:
    """Store a plain tensor under a further name where its first one went into a module."""
    heirs: dict[str, str] = {}
    for alias, name in tuple(result.ties.items()):
        if name in result.plain or alias not in everything:
            continue
        heir = heirs.setdefault(name, alias)
        if heir == alias:
            result.plain[alias] = everything[alias]
            result.shard_of[alias] = result.shard_of[name]
            del result.ties[alias]
        else:
            result.ties[alias] = heir
