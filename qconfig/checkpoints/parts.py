"""Which stored tensors belong together: the parts of a quantized tensor, and the names of ties."""

from collections.abc import Collection, Mapping

from qconfig.checkpoints.record import inner_name
from qconfig.codec.layout_values import present_fields, with_equal_values
from qconfig.codec.tensor_names import check_name
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import (
    MOST_PROBLEMS,
    CheckpointError,
    ContainerError,
    QconfigError,
    raise_problems,
)
from qconfig.limits import current_limits
from qconfig.versioning import Layout


def with_tensors(fqn: str, spec: Layout, tensors: Mapping[str, LazyTensor]) -> Layout:
    """Return the layout with stored tensors in place of its specs.

    Raises:
        CheckpointError: an inner tensor is missing, or differs from its record; all at once.
    """
    found: dict[str, LazyTensor] = {}
    problems: list[QconfigError] = []
    for field in present_fields(spec):
        name, expected = inner_name(fqn, field), getattr(spec, field)
        tensor = tensors.get(name)
        if tensor is None:
            problems.append(
                CheckpointError(
                    "an inner tensor is missing",
                    fqn=name,
                    expected=f"{expected.dtype} {expected.shape}, as its record says",
                    hint="it may lie in another file: open the directory that has all of them",
                )
            )
        elif (tensor.dtype, tensor.shape) != (expected.dtype, expected.shape):
            problems.append(
                CheckpointError(
                    "an inner tensor differs from its record",
                    fqn=name,
                    found=f"{tensor.dtype} {tensor.shape}",
                    expected=f"{expected.dtype} {expected.shape}",
                )
            )
        else:
            found[field] = tensor
    raise_problems(problems)
    return with_equal_values(spec, found)


def surplus(plain: Collection[str], layouts: Mapping[str, Layout]) -> list[QconfigError]:
    """Return a problem for each plain tensor whose name says that it is part of a quantized one."""
    owners = {name: _owner(name, layouts) for name in plain}
    return [
        CheckpointError(
            "a tensor lies beside a quantized one and is not part of it",
            fqn=name,
            expected=f"only {', '.join(present_fields(layouts[owner]))} of {owner}",
            hint="rename the tensor, or leave the other one unquantized",
        )
        for name, owner in owners.items()
        if owner is not None
    ]


def _owner(name: str, layouts: Collection[str]) -> str | None:
    """Return the quantized tensor that has this name, or one below which it lies, or None."""
    if name in layouts:
        return name
    owner, dot, _ = name.rpartition(".")
    return owner if dot and owner in layouts else None


def wrong_ties(
    ties: Mapping[str, str],
    plain: Collection[str],
    layouts: Collection[str],
    tensors: Collection[str],
) -> list[QconfigError]:
    """Return a problem for each tie that does not lead from a new name to a stored tensor.

    Args:
        ties: stored names by the further names that they have.
        plain: names of plain tensors.
        layouts: names of quantized tensors.
        tensors: names of all stored tensors, the parts of quantized ones among them.
    """
    problems: list[QconfigError] = []
    for alias, name in ties.items():
        try:
            check_name(alias, current_limits(), what="tied name")
        except ContainerError as error:
            problems.append(error)
            continue
        is_new = alias not in tensors and alias not in layouts
        if not is_new or (name not in plain and name not in layouts):
            problems.append(
                CheckpointError(
                    "a tie does not lead from a new name to a stored tensor", fqn=alias, found=name
                )
            )
    return problems[:MOST_PROBLEMS]
