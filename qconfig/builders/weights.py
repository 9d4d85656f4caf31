"""Which parameters can be packed weights, the same for all families."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from qconfig.builders.base import Target
from qconfig.codec.dtypes import DType
from qconfig.errors import BuildError

if TYPE_CHECKING:
    import torch

LINEAR = ("Linear",)
LINEAR_AND_EMBEDDING = ("Linear", "Embedding")
_UNSERVED = ("Conv", "_ConvNd", "RNNBase", "Bilinear", "EmbeddingBag", "MultiheadAttention")


def weight_refusal(
    target: Target,
    what: str,
    *,
    modules: tuple[str, ...] = LINEAR_AND_EMBEDDING,
    ranks: tuple[int, ...] = (2, 3),
) -> str | None:
    """Return why a parameter cannot be the packed weight of a product, or None.

    Of a module class in `modules` that is the weight, and any other matrix that a rule names. Of
    module classes that nobody knows, matrices are served where a rule names the module or the
    class, and stacked matrices of rank 3, as experts have them, always. A checkpoint does not tell
    the classes of all its modules; there, patterns are taken at their word.

    Args:
        target: the parameter.
        what: the product that a module class may lack, such as "int8".
        modules: names of the module classes that are served without being named; Embedding is
            refused where it is not among them.
        ranks: numbers of dimensions that are served.
    """
    rank, classes = len(target.shape), target.module_classes
    if not target.dtype.is_float:
        return f"dtype {target.dtype.value} is not float16, bfloat16, float32 or float64"
    if rank not in ranks:
        return f"rank {rank} is not " + " or ".join(map(str, ranks))
    unserved = {*_UNSERVED, *(set(LINEAR_AND_EMBEDDING) - set(modules))}
    if set(classes) & unserved:
        return f"module class {classes[0]} has no {what} product"
    if rank == 2 and classes and not target.named:
        if not set(classes) & set(modules):
            known = ", ".join(modules)
            return f"module class {classes[0]} is not one of {known}, and no rule names it"
        if target.parameter != "weight":
            return f"{target.parameter} is not the weight of {classes[0]}, and no rule names it"
    return None


def served_target(
    weight: "torch.Tensor", what: str, refusal: Callable[[Target], str | None]
) -> Target:
    """Return a weight as a target without a name: what a builder may be asked to build.

    Args:
        weight: what is to be quantized.
        what: to what, for the error.
        refusal: why a target cannot be served, or None.

    Raises:
        BuildError: it is refused, for its type or rank.
    """
    target = Target("", tuple(weight.shape), DType.parse(weight.dtype), named=True)
    reason = refusal(target)
    if reason is not None:
        raise BuildError(f"the weight cannot be quantized to {what}: {reason}")
    return target
