"""What a pickle of tensors says, as plain data: nothing in it was called, imported or made.

A class, a function or an enum that the pickle names appears as its dotted name, with what the file
gives it. What the names mean, a dialect knows.
"""

from collections.abc import Mapping
from enum import Enum, unique
from typing import Any

from attrs import field, frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor


@unique
class Role(Enum):
    """What a name in a dialect's closed table stands for."""

    TENSOR = "tensor"
    """A subclass of torch.Tensor."""

    OBJECT = "object"
    """A class with fields, or a NamedTuple with arguments."""

    ENUM = "enum"
    """An enum, whose members are pickled by value or by name."""

    FUNCTION = "function"
    """A function, or a method as "<path of its object>.<method>"."""


@frozen
class PickledTensor:
    """A plain tensor or parameter.

    Args:
        value: dtype, shape and elements; its source is the byte range in the file where the tensor
            is contiguous.
        storage: key of the storage, the same for tensors that share memory.
        offset: where the tensor starts in its storage, in elements.
        strides: elements from one index to the next, one per dimension.
        is_parameter: whether it was an nn.Parameter.
        attributes: Python attributes that somebody set on it, by name; rarely any.
    """

    value: LazyTensor
    storage: str
    offset: int
    strides: tuple[int, ...]
    is_parameter: bool = False
    attributes: Mapping[str, Any] = field(factory=dict)

    def __repr__(self) -> str:
        """Return what an error may say of it."""
        return repr(self.value)


@frozen
class PickledSubclass:
    """A tensor of a class with Role.TENSOR.

    Args:
        path: "module.name" as the file has it.
        dtype: of the outer tensor.
        shape: of the outer tensor.
        strides: of the outer tensor, in elements.
        state: the attributes that were pickled, by name.
        is_parameter: whether it was inside an nn.Parameter.
    """

    path: str
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    state: dict[str, Any]
    is_parameter: bool = False

    def __repr__(self) -> str:
        """Return what an error may say of it: its state can be large."""
        return f"a {self.path} of {self.dtype} {self.shape}"


@frozen(eq=False)
class PickledObject:
    """An instance of a class with Role.OBJECT; each is equal to itself alone.

    Args:
        path: "module.name" as the file has it.
        args: positional arguments, which only NamedTuples and the like have.
        state: what was given to set its attributes: a dict by name, or None.
    """

    path: str
    args: tuple[Any, ...] = ()
    state: Any = None

    def __repr__(self) -> str:
        """Return what an error may say of it: its state can be large."""
        return f"a {self.path}"


@frozen
class PickledEnum:
    """A member of an enum with Role.ENUM, by its value or by its name; Python writes either.

    Args:
        path: "module.name" as the file has it.
        value: the member's value, where the file gives that.
        member: the member's name, where the file gives that; then `value` is None.
    """

    path: str
    value: Any = None
    member: str | None = None

    def __repr__(self) -> str:
        """Return what an error may say of it."""
        by_value = f"{self.path}({self.value!r})"
        return by_value if self.member is None else f"{self.path}.{self.member}"


@frozen
class PickledFunction:
    """A function with Role.FUNCTION, as a value. It was not called.

    Args:
        path: "module.name" as the file has it, or "<path of the object>.<method>".
        args: positional arguments that functools.partial keeps for it.
        kwargs: keyword arguments that functools.partial keeps for it.
        bound_to: the object whose method it is.
    """

    path: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(factory=dict)
    bound_to: PickledObject | None = None

    def __repr__(self) -> str:
        """Return what an error may say of it."""
        return self.path
