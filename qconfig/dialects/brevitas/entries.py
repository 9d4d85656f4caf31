"""The tensors of a file of Brevitas by name: NamedTuples wherever they stand, and plain ones."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from attrs import define, field, frozen

from qconfig.codec.pickled_values import PickledObject, PickledTensor
from qconfig.dialects.brevitas.fields import named
from qconfig.dialects.brevitas.forms import (
    OLD_INT,
    Form,
    by_names,
    by_position,
    form_of_path,
    lengths,
    of_length,
)
from qconfig.errors import CheckpointError, QconfigError

ALONE = "tensor"
"""Name of a tensor that is all that a file holds."""

_EXPECTED = "tensors, and dicts, lists and tuples of them"
_WITHOUT = "a QuantTensor of 0.8 to 0.10 without scale and bit width, which is a plain tensor"


@frozen
class Quantized:
    """A NamedTuple of a file.

    Args:
        form: its class and length.
        fields: by name.
        path: the class path that the file has; None where fields stand without a class.
    """

    form: Form
    fields: Mapping[str, Any] = field(repr=False)
    path: str | None


@define
class Entries:
    """What a file holds.

    Args:
        plain: plain tensors by name.
        quantized: NamedTuples by name.
        problems: values that are neither.
        notes: what is odd but harmless.
    """

    plain: dict[str, PickledTensor] = field(factory=dict)
    quantized: dict[str, Quantized] = field(factory=dict)
    problems: dict[str, QconfigError] = field(factory=dict)
    notes: list[str] = field(factory=list)


def entries_of(root: Any) -> Entries:
    """Return the tensors in a tree of plain data; keys and positions along the way are the name."""
    found = Entries()
    for path, value in _leaves(root, ()):
        name = ".".join(path) or ALONE
        if name in found.plain or name in found.quantized or name in found.problems:
            found.problems[name] = CheckpointError(
                "two values of the file have the same name", fqn=name, expected="names that differ"
            )
        else:
            _put(found, name, value)
    return found


def is_of_brevitas(root: Any) -> bool:
    """Return whether a tree holds a NamedTuple, or the fields of one."""
    kinds = (PickledObject, Mapping, list, tuple)
    return any(isinstance(value, kinds) for _, value in _leaves(root, ()))


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping) and not _is_fields(value):
        for key, item in value.items():
            yield from _leaves(item, (*path, key if isinstance(key, str) else repr(key)))
    elif isinstance(value, list | tuple) and not _is_positional(value):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, str(index)))
    else:
        yield path, value


def _put(found: Entries, name: str, value: Any) -> None:
    if isinstance(value, PickledTensor):
        found.plain[name] = value
        if value.attributes:
            said = ", ".join(list(value.attributes)[:8])
            found.notes.append(f"{name} has Python attributes, which are not carried: {said}")
        return
    try:
        quantized = _quantized(value)
    except QconfigError as error:
        found.problems[name] = error.at(fqn=name)
        return
    if quantized is None:
        found.problems[name] = CheckpointError(
            "an entry of the file is no tensor", fqn=name, found=value, expected=_EXPECTED
        )
    elif isinstance(quantized, PickledTensor):
        found.plain[name] = quantized
        found.notes.append(f"{name} is {_WITHOUT}")
    else:
        found.quantized[name] = quantized


def _quantized(value: Any) -> Quantized | PickledTensor | None:
    if isinstance(value, PickledObject):
        return _of_class(value)
    if isinstance(value, Mapping):
        form = by_names(frozenset(value))
        return None if form is None else Quantized(form, value, None)
    if isinstance(value, list | tuple):
        form = by_position(len(value))
        return None if form is None else Quantized(form, named(form, value), None)
    return None


def _of_class(value: PickledObject) -> Quantized | PickledTensor:
    form = form_of_path(value.path)
    if value.state:
        raise CheckpointError(
            "a NamedTuple of Brevitas has attributes besides its fields",
            found=value.state,
            expected=f"a {form.name} with its fields alone",
        )
    exact = of_length(form, len(value.args))
    if exact is None:
        raise CheckpointError(
            f"a {value.path} has a wrong number of fields",
            found=f"{len(value.args)} fields",
            expected=f"{lengths(form)} fields",
        )
    first, *others = value.args
    if value.path == OLD_INT and isinstance(first, PickledTensor):
        metadata = others[:4]  # whether it was made in training says nothing of its values
        if all(part is None for part in metadata):
            return first
    return Quantized(exact, named(exact, value.args), value.path)


def _is_fields(value: Mapping[Any, Any]) -> bool:
    return all(isinstance(key, str) for key in value) and by_names(frozenset(value)) is not None


def _is_positional(value: Sequence[Any]) -> bool:
    """Return whether a tuple is the fields of a form: tensors, then flags, in its order."""
    form = by_position(len(value))
    if form is None:
        return False
    fields = named(form, value)
    first = fields[form.fields[0]]
    flags = (fields["signed_t"], fields["training_t"])
    numbers = (fields.get("group_size", 0), fields.get("group_dim", 0))
    return (
        isinstance(first, PickledTensor)
        and all(map(_is_flag, flags))
        and all(type(number) is int for number in numbers)
        and all(isinstance(code, tuple | list | None) for code in _codes(fields))
    )


def _codes(fields: Mapping[str, Any]) -> tuple[Any, Any]:
    return fields.get("inf_values"), fields.get("nan_values")


def _is_flag(value: Any) -> bool:
    if isinstance(value, PickledTensor):
        return prod(value.value.shape) == 1
    return isinstance(value, bool)
