"""Which weights of a checkpoint still train: what is stored beside them says so."""

from collections.abc import Container, Iterable
from functools import cache
from typing import Any

from qconfig.builders.base import TrainingBuilder, builders


def training_records(fqn: str, names: Container[str]) -> list[str]:
    """Return the names of what is stored beside a weight which still trains; [] beside any other.

    Args:
        fqn: name of the weight.
        names: of all tensors of the checkpoint.
    """
    kinds = _training_builders()
    records = dict.fromkeys(kind.training_record(fqn) for kind in kinds)
    return [record for record in records if record in names]


def training_weights(names: Iterable[str]) -> list[str]:
    """Return the names of the weights which still train, in their order.

    Modules that train call them `weight`; a bias beside one has the same record.
    """
    known = dict.fromkeys(names)
    kinds = _training_builders()
    weights = [n for n in known if n.rpartition(".")[2] == "weight"]
    return [n for n in weights if any(kind.training_record(n) in known for kind in kinds)]


def _training_builders() -> list[TrainingBuilder]:
    known: list[Any] = list(builders().values())
    found: list[TrainingBuilder] = [builder for builder in known if _trains(builder)]
    return found


@cache
def _trains(builder: Any) -> bool:
    """Return whether a builder is one of training: a question that takes long, and often comes."""
    return isinstance(builder, TrainingBuilder)
