"""What a config may reach: the parameters of a model, or the tensors of a checkpoint by name."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from qconfig.builders.base import Target
from qconfig.codec.dtypes import DType

if TYPE_CHECKING:
    from torch import nn

_EMBEDDING_NAMES = frozenset({"wte", "wpe", "embed", "embedding", "embeddings", "shared"})
_EMBEDDING_ENDS = ("_embeddings", "_embedding", "_embed", "embed_tokens", "embed_positions")
_NORM_ENDS = ("norm", "norm1", "norm2", "norm3", "ln_f", "ln_1", "ln_2")


def model_targets(model: "nn.Module") -> tuple[list[Target], list[tuple[str, ...]]]:
    """Return the parameters of a model under every name they have, and the groups of tied names.

    Two parameters are tied when they are one object, or show the same elements of one storage.
    """
    targets: list[Target] = []
    names_of: dict[tuple[object, ...], list[str]] = {}
    for prefix, module in model.named_modules(remove_duplicate=False):
        classes = tuple(c.__name__ for c in type(module).__mro__ if c is not object)
        for name, parameter in module.named_parameters(recurse=False):
            fqn = f"{prefix}.{name}" if prefix else name
            shape = tuple(parameter.shape)
            targets.append(Target(fqn, shape, DType.parse(parameter.dtype), classes))
            pointer = 0 if parameter.is_meta else _data_pointer(parameter)
            key = (pointer, shape, parameter.dtype) if pointer else (id(parameter),)
            names_of.setdefault(key, []).append(fqn)
    return targets, [tuple(names) for names in names_of.values() if len(names) > 1]


def _data_pointer(parameter: "nn.Parameter") -> int:
    if not parameter.numel():
        return 0
    try:
        return parameter.data_ptr()
    except RuntimeError:  # a wrapper subclass has no storage of its own
        return 0


def named_targets(tensors: Iterable[tuple[str, tuple[int, ...], DType]]) -> list[Target]:
    """Return targets for tensors of which only name, shape and dtype are known.

    The module class is inferred, since a checkpoint does not hold it: see `inferred_class`.
    """
    return [
        Target(name, shape, dtype, inferred_class(name, len(shape)))
        for name, shape, dtype in tensors
    ]


def inferred_class(name: str, rank: int) -> tuple[str, ...]:
    """Guess the class of the module that owns a tensor from its name and rank.

    A 2-D `weight` is a Linear, unless its module's name is one that embeddings have in published
    models; a 1-D weight of a module named like a norm is a norm; anything else has no class, and
    only rules that name it reach it.
    """
    module, _, parameter = name.rpartition(".")
    owner = module.rpartition(".")[2].lower()
    if owner in _EMBEDDING_NAMES or owner.endswith(_EMBEDDING_ENDS):
        return ("Embedding", "Module")
    if owner.endswith(_NORM_ENDS):
        return ("Norm", "Module")
    if parameter in ("weight", "bias") and (rank == 2 or parameter == "bias"):
        return ("Linear", "Module")
    return ()
