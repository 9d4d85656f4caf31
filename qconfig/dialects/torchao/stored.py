"""A tensor as torchao stored it: names and values, whichever file they were in.

Nothing is interpreted here but names: of a class and a function the last part is kept, of an enum
member its name, whether a pickle holds that or its value.
"""

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.pickled_values import (
    PickledEnum,
    PickledFunction,
    PickledObject,
    PickledSubclass,
    PickledTensor,
)
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.tensors.enums import member_name
from qconfig.dialects.torchao.tensors.refused_names import REFUSED_TENSORS
from qconfig.errors import ContainerError

_POSITIONAL: Mapping[str, tuple[str, ...]] = {
    "Float8MMConfig": ("emulate", "use_fast_accum", "pad_inner_dim"),
}
_RENAMED: Mapping[str, str] = {
    "torchao.float8.float8_tensor.Float8Tensor": "Float8TrainingTensor",
}
"""Classes whose names came to mean others, by path: their later names."""


@frozen
class StoredEnum:
    """A member of one of torchao's enums.

    Args:
        name: the enum's class name.
        member: the member's name.
    """

    name: str
    member: str

    def __repr__(self) -> str:
        """Return what an error may say of it."""
        return f"{self.name}.{self.member}"


@frozen
class StoredObject:
    """A granularity, a layout, kwargs: an object that is no tensor.

    Args:
        name: its class name.
        fields: its values, which may be objects again.
    """

    name: str
    fields: Mapping[str, Any] = field(factory=dict)

    def __repr__(self) -> str:
        """Return what an error may say of it: its fields can be large."""
        return f"{self.name}(…)"


@frozen
class StoredFunction:
    """A function that a tensor names, to quantize activations with.

    Args:
        name: its name; of a method with that of its class, `_ActQuantizer.dynamic_quantize`.
        kwargs: arguments that are bound to it.
        bound_to: the object of a method.
    """

    name: str
    kwargs: Mapping[str, Any] = field(factory=dict)
    bound_to: StoredObject | None = None

    def __repr__(self) -> str:
        """Return what an error may say of it."""
        return self.name


@frozen
class Stored:
    """A tensor subclass of torchao's.

    Args:
        name: class name without its module.
        path: module and name as a pickle has them; None where the file says the name alone.
        dtype: element type that the tensor shows; None where the file does not say.
        shape: shape that it shows; None where the file does not say.
        fields: LazyTensor, Stored, DType, StoredEnum, StoredObject, StoredFunction, plain values.
        turned: fields that are tensors whose elements lie in memory as those of the tensor with its
            last two dimensions exchanged; files of safetensors have none.
    """

    name: str
    path: str | None
    dtype: DType | None
    shape: tuple[int, ...] | None
    fields: Mapping[str, Any] = field(factory=dict)
    turned: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        """Return what an error may say of it: its fields can be large."""
        return f"{self.name}(…)"


def stored_from_pickle(value: PickledSubclass) -> Stored:
    """Return a tensor subclass of a pickle, and what is inside it.

    Raises:
        ContainerError: a value of an enum that it never had, a tensor whose elements do not lie in
            rows, or arguments where the class has none.
    """
    name = _RENAMED.get(value.path, _last(value.path))
    if value.path in REFUSED_TENSORS:
        return Stored(name, value.path, value.dtype, value.shape)
    turned = frozenset(key for key, item in value.state.items() if _is_turned(item))
    fields = _fields(value.state)
    return Stored(name, value.path, value.dtype, value.shape, fields, turned)


def _is_turned(value: Any) -> bool:
    """Return whether a tensor has columns without gaps and no rows without gaps, as after t()."""
    if not isinstance(value, PickledTensor) or len(value.value.shape) < 2:
        return False
    *leading, rows, columns = value.value.shape
    *outer, down, across = value.strides
    step = rows * columns
    for extent, stride in zip(reversed(leading), reversed(outer), strict=True):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return rows > 1 and columns > 1 and (down, across) == (1, rows)


def _fields(state: Mapping[str, Any]) -> dict[str, Any]:
    fields = {}
    for key, value in state.items():
        try:
            fields[key] = _value(value)
        except ContainerError as error:
            raise error.at(pointer_prefix=f"/{key}") from None
    return fields


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_value(item) for item in value)
    return _READERS.get(type(value), _same)(value)


def _same(value: Any) -> Any:
    return value


def _plain(value: PickledTensor) -> LazyTensor:
    return value.value


def _member(value: PickledEnum) -> StoredEnum:
    return StoredEnum(_last(value.path), member_name(value.path, value.value, value.member))


def _object(value: PickledObject) -> StoredObject:
    name = _last(value.path)
    names = _POSITIONAL.get(name, ())
    if len(value.args) > len(names):
        raise ContainerError(
            f"{name} has too many arguments",
            found=value.args,
            expected=f"at most {len(names)}: {', '.join(names) or 'none'}",
        )
    state = {} if value.state is None else value.state
    if not isinstance(state, Mapping):
        raise ContainerError(f"the state of {name} has no names", found=state, expected="a dict")
    given = dict(zip(names, value.args, strict=False))
    return StoredObject(name, _fields(given | dict(state)))


def _function(value: PickledFunction) -> StoredFunction:
    if value.args:
        raise ContainerError(
            f"{value.path} is bound to arguments without names",
            found=value.args,
            expected="arguments by name",
        )
    kwargs = _fields(value.kwargs)
    owner = value.bound_to
    if owner is None:
        return StoredFunction(_last(value.path), kwargs)
    name = ".".join(value.path.split(".")[-2:])
    return StoredFunction(name, kwargs, _object(owner))


def _last(path: str) -> str:
    return path.rpartition(".")[2]


_READERS: Mapping[type, Callable[[Any], Any]] = {
    PickledEnum: _member,
    PickledFunction: _function,
    PickledObject: _object,
    PickledSubclass: stored_from_pickle,
    PickledTensor: _plain,
}
