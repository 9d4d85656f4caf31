"""What a config may reach: the parameters of a model, or the tensors of a checkpoint by name."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from attrs import frozen

from qconfig.builders.base import PREPARED, ModuleTarget, Target
from qconfig.codec.dtypes import DType
from qconfig.errors import PlanError

if TYPE_CHECKING:
    from torch import nn

_EMBEDDING_NAMES = frozenset({"wte", "wpe", "embed", "embedding", "embeddings", "shared"})
_EMBEDDING_ENDS = ("_embeddings", "_embedding", "_embed", "embed_tokens", "embed_positions")
_NORM_ENDS = ("norm", "norm1", "norm2", "norm3", "ln_f", "ln_1", "ln_2")


@frozen
class ModelTargets:
    """The parameters of a model, and its modules that have none.

    Args:
        targets: each parameter under every name it has.
        tied: groups of names of one parameter.
        packed: class names of the parameters that are no plain tensors, quantized ones above all.
        modules: each module without parameters, and without children but those that quantizing
            gave it, under every name it has.
        shared: groups of names of one such module.
    """

    targets: tuple[Target, ...]
    tied: tuple[tuple[str, ...], ...]
    packed: Mapping[str, str]
    modules: tuple[ModuleTarget, ...] = ()
    shared: tuple[tuple[str, ...], ...] = ()


def model_targets(model: "nn.Module") -> ModelTargets:
    """Return the parameters of a model, and its modules that have none.

    Two are tied when they are one object, or show the same elements of one storage in the same
    order.

    Raises:
        PlanError: a lazy parameter, which has no shape yet.
    """
    from torch.nn.parameter import is_lazy

    from qconfig.tensors.identity import identity

    targets: list[Target] = []
    names_of: dict[tuple[object, ...], list[str]] = {}
    packed: dict[str, str] = {}
    modules: list[ModuleTarget] = []
    names_of_module: dict[int, list[str]] = {}
    for prefix, module in model.named_modules(remove_duplicate=False):
        classes = tuple(c.__name__ for c in type(module).__mro__ if c is not object)
        parameters = list(module.named_parameters(recurse=False, remove_duplicate=False))
        is_bare = next(module.children(), None) is None or PREPARED in classes
        if not parameters and prefix and is_bare:
            modules.append(ModuleTarget(prefix, classes, type(module)))
            names_of_module.setdefault(id(module), []).append(prefix)
        for name, parameter in parameters:
            fqn = f"{prefix}.{name}" if prefix else name
            if is_lazy(parameter):
                raise PlanError(
                    "the parameter has no shape yet", fqn=fqn, hint="run the model once before"
                )
            if hasattr(parameter, "__tensor_flatten__"):
                packed[fqn] = type(parameter).__name__
            shape = tuple(parameter.shape)
            dtype = DType.parse(parameter.dtype)
            targets.append(Target(fqn, shape, dtype, classes, module_type=type(module)))
            names_of.setdefault(identity(parameter), []).append(fqn)
    tied, shared = _several(names_of.values()), _several(names_of_module.values())
    return ModelTargets(tuple(targets), tied, packed, tuple(modules), shared)


def _several(groups: Iterable[list[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(names) for names in groups if len(names) > 1)


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

    The module's own name decides first: those that embeddings, norms and (from rank 3)
    convolutions have in published models make it one. Of the rest, what has a 2-D `weight` or a
    `bias` is a Linear; anything else has no class.
    """
    module, _, parameter = name.rpartition(".")
    owner = module.rpartition(".")[2].lower()
    if owner in _EMBEDDING_NAMES or owner.endswith(_EMBEDDING_ENDS):
        return ("Embedding", "Module")
    if owner.endswith(_NORM_ENDS):
        return ("Norm", "Module")
    if rank > 2 and "conv" in owner:
        return ("Conv", "Module")
    if parameter in ("weight", "bias") and (rank == 2 or parameter == "bias"):
        return ("Linear", "Module")
    return ()
