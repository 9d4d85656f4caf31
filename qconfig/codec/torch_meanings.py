"""What the names and calls in a pickle of torch.save stand for: tables in place of code."""

from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve, frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.pickled_values import (
    PickledEnum,
    PickledFunction,
    PickledObject,
    PickledSubclass,
    PickledTensor,
    Role,
)
from qconfig.codec.torch_pickle_names import LAYOUTS, TORCH_NAMES, UNREAD, Known
from qconfig.codec.torch_storages import Storage, Storages
from qconfig.errors import ContainerError, nearest
from qconfig.limits import Limits

_PLAIN_KINDS = frozenset({Known.PLAIN_TENSOR, Known.PLAIN_PARAMETER, Known.PLAIN_BUFFER})
_MODEL = "the file may hold a whole model; load it where it was made and save its state_dict"
_OURS = "a tensor of qconfig: torch.load it, with qconfig imported, and qconfig.save_checkpoint it"
_NEVER = "nothing in the file has run; whoever loads it with weights_only=False runs what it names"


@frozen
class NamedClass:
    """A class of the dialect's table, before it is called.

    Args:
        path: "module.name" as the file has it.
        role: Role.TENSOR, Role.OBJECT or Role.ENUM.
    """

    path: str
    role: Role


class TorchMeanings:
    """The meanings for `pickle_machine`: torch's names, and those of one dialect.

    Args:
        names: the dialect's closed table, from "module.name" to what the name stands for.
        storages: of the archive.
        limits: bounds on the work that one instruction can ask for again and again.
    """

    def __init__(self, names: Mapping[str, Role], storages: Storages, limits: Limits) -> None:
        self._names = names
        self._storages = storages
        self._work_left = limits.pickle_operations
        self._most_work = limits.describe("pickle_operations")
        # By identity, and kept alive by it: an instance takes its state once.
        self._stateless: dict[int, Any] = {}
        self.attributes: dict[int, tuple[dict[Any, Any], dict[str, Any]]] = {}
        self._calls: dict[Known, Callable[[tuple[Any, ...]], Any]] = {
            Known.ORDERED_DICT: self._ordered_dict,
            Known.PARTIAL: self._partial,
            Known.GETATTR: self._getattr,
            Known.TENSOR_V2: self._tensor_v2,
            Known.TENSOR_V3: self._tensor_v3,
            Known.PARAMETER: self._parameter,
            Known.PARAMETER_WITH_STATE: self._parameter_with_state,
            Known.FROM_TYPE: self._from_type,
            Known.LAYOUT: _layout,
            Known.DEVICE: _device,
            Known.SIZE: self._size,
        }

    def name(self, path: str) -> Any:
        """Return what stands for a class or function.

        Raises:
            ContainerError: it is neither torch's own nor in the dialect's table.
        """
        known = TORCH_NAMES.get(path)
        if known is not None:
            return known
        role = self._names.get(path)
        if role is Role.FUNCTION:
            return PickledFunction(path)
        if role is not None:
            return NamedClass(path, role)
        raise ContainerError(
            "the file names something that is not read",
            found=path,
            expected="a class or function of a closed table",
            hint=self._hint(path),
        )

    def _hint(self, path: str) -> str:
        if path in UNREAD:
            return UNREAD[path]
        if path.startswith(("torch.nn.modules.", "transformers.", "__main__.")):
            return _MODEL
        if path.startswith("qconfig."):
            return _OURS
        return nearest(path, [n for n in self._names if path.startswith(n[:8])]) or _NEVER

    def call(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        """Return what stands for the result of a call.

        Raises:
            ContainerError: nothing is known of such a call.
        """
        if type(function) is Known and function in self._calls:
            return self._calls[function](arguments)
        if type(function) is NamedClass and function.role is Role.ENUM and len(arguments) == 1:
            return PickledEnum(function.path, arguments[0])
        return self.new(function, arguments)

    def new(self, kind: Any, arguments: tuple[Any, ...]) -> Any:
        """Return what stands for a new instance of a class.

        Raises:
            ContainerError: it is no class with Role.OBJECT.
        """
        if type(kind) is not NamedClass or kind.role is not Role.OBJECT:
            raise ContainerError(
                "the pickle calls something that is not read as a call",
                found=_named(kind),
                expected="a function of torch's that makes a tensor, or a class of a closed table",
            )
        made = PickledObject(kind.path, arguments)
        self._stateless[id(made)] = made
        return made

    def set_state(self, value: Any, state: Any) -> None:
        """Note the state of an instance. It has none yet.

        Raises:
            ContainerError: the value takes no state, or has one already.
        """
        if self._stateless.pop(id(value), None) is None:
            raise ContainerError(
                "the pickle sets the state of what has none, or has it already",
                found=_named(value),
                expected="an object, an OrderedDict or a functools.partial, once each",
            )
        # The pickle may already refer to the instance, so it is filled in and not replaced.
        if type(value) is dict:
            self.attributes[id(value)] = (value, self._attributes(state))
        elif type(value) is PickledObject:
            object.__setattr__(value, "state", state)
        else:
            args, kwargs = _partial_state(value, state)
            object.__setattr__(value, "args", args)
            object.__setattr__(value, "kwargs", kwargs)

    def refer(self, identity: Any) -> Storage:
        """Return the storage of a persistent id.

        Raises:
            ContainerError: it is none, or the archive does not hold it.
        """
        return self._storages.find(identity)

    def _spend(self, amount: int) -> None:
        self._work_left -= amount
        if self._work_left < 0:
            raise ContainerError(
                "the pickle copies its values too often",
                found=f"{amount} values more",
                expected=f"values: {self._most_work}",
            )

    def _ordered_dict(self, arguments: tuple[Any, ...]) -> dict[Any, Any]:
        if arguments:
            raise _arguments(Known.ORDERED_DICT, arguments)
        made: dict[Any, Any] = {}
        self._stateless[id(made)] = made
        return made

    def _partial(self, arguments: tuple[Any, ...]) -> PickledFunction:
        match arguments:
            case (PickledFunction(args=(), bound_to=None) as function,) if not function.kwargs:
                made = PickledFunction(function.path)
                self._stateless[id(made)] = made
                return made
        raise _arguments(Known.PARTIAL, arguments)

    def _getattr(self, arguments: tuple[Any, ...]) -> PickledEnum | PickledFunction:
        match arguments:
            case (NamedClass(path=path, role=Role.ENUM), str() as member) if _is_name(member):
                return PickledEnum(path, member=member)
            case (PickledObject(path=path) as owner, str() as method) if _is_name(method):
                if self._names.get(f"{path}.{method}") is Role.FUNCTION:
                    return PickledFunction(f"{path}.{method}", bound_to=owner)
                raise ContainerError(
                    "the file names something that is not read",
                    found=f"{path}.{method}",
                    expected="a method of a closed table",
                    hint=_NEVER,
                )
        raise _arguments(Known.GETATTR, arguments)

    def _tensor_v2(self, arguments: tuple[Any, ...]) -> PickledTensor:
        match arguments:
            case (
                Storage(dtype=DType() as dtype) as storage,
                offset,
                shape,
                strides,
                _,
                hooks,
                *rest,
            ):
                _check_extras(hooks, rest)
                return self._storages.tensor(storage, dtype, offset, shape, strides)
        raise _arguments(Known.TENSOR_V2, arguments)

    def _tensor_v3(self, arguments: tuple[Any, ...]) -> PickledTensor:
        match arguments:
            case (
                Storage(dtype=None) as storage,
                offset,
                shape,
                strides,
                _,
                hooks,
                DType() as dtype,
                *rest,
            ):
                _check_extras(hooks, rest)
                return self._storages.tensor(storage, dtype, offset, shape, strides)
        raise _arguments(Known.TENSOR_V3, arguments)

    def _parameter(self, arguments: tuple[Any, ...]) -> PickledTensor | PickledSubclass:
        match arguments:
            case (PickledTensor() | PickledSubclass() as data, bool(), hooks):
                _check_extras(hooks, ())
                return evolve(data, is_parameter=True)
        raise _arguments(Known.PARAMETER, arguments)

    def _parameter_with_state(self, arguments: tuple[Any, ...]) -> PickledTensor:
        match arguments:
            case (PickledTensor() as data, bool(), hooks, state):
                _check_extras(hooks, ())
                return evolve(data, is_parameter=True, attributes=self._attributes(state))
        raise _arguments(Known.PARAMETER_WITH_STATE, arguments)

    def _from_type(self, arguments: tuple[Any, ...]) -> PickledTensor | PickledSubclass:
        match arguments:
            case (
                Known.WRAPPER_SUBCLASS,
                NamedClass(path=path, role=Role.TENSOR),
                (
                    NamedClass(path=own),
                    DType() as dtype,
                    shape,
                    strides,
                    int(),
                    layout,
                    str(),
                    bool(),
                ),
                state,
            ) if own == path:
                _check_strided(layout)
                return self._subclass(path, dtype, shape, strides, state)
            case (Known() as rebuild, Known() as kind, tuple() as inner, state) if (
                rebuild in self._calls and kind in _PLAIN_KINDS
            ):
                made = self._calls[rebuild](inner)
                if type(made) is PickledTensor:
                    is_parameter = made.is_parameter or kind is Known.PLAIN_PARAMETER
                    attributes = self._attributes(state)
                    return evolve(made, is_parameter=is_parameter, attributes=attributes)
        raise _arguments(Known.FROM_TYPE, arguments)

    def _subclass(
        self, path: str, dtype: DType, shape: Any, strides: Any, state: Any
    ) -> PickledSubclass:
        shape, strides = self._storages.dimensions(shape), self._storages.dimensions(strides)
        fields = self._attributes(state)
        # nn.Parameter marks a subclass with this attribute and leaves its class as it is.
        is_parameter = fields.pop("_is_param", False) is True
        return PickledSubclass(path, dtype, shape, strides, fields, is_parameter)

    def _attributes(self, state: Any) -> dict[str, Any]:
        """Return a state as attributes by name: `__dict__`, or a pair of that and the slots."""
        parts = state if type(state) is tuple and len(state) == 2 else (state,)
        merged: dict[str, Any] = {}
        for part in parts:
            if part is None:
                continue
            if type(part) is not dict:
                raise ContainerError(
                    "the pickle has a state that is no attributes by name",
                    found=type(part).__name__,
                    expected="a dict",
                )
            self._spend(len(part))
            for name, value in part.items():
                if type(name) is not str or name in merged:
                    raise ContainerError(
                        "the pickle has a state with a wrong name",
                        found=name,
                        expected="texts, each of them once",
                    )
                merged[name] = value
        return merged

    def _size(self, arguments: tuple[Any, ...]) -> tuple[int, ...]:
        match arguments:
            case (list() as numbers,) if len(numbers) <= 64:
                return self._storages.dimensions(tuple(numbers))
            case (tuple() as numbers,):
                return self._storages.dimensions(numbers)
        raise _arguments(Known.SIZE, arguments)


def _layout(arguments: tuple[Any, ...]) -> str:
    match arguments:
        case (str() as name,) if name in LAYOUTS:
            return name
    raise _arguments(Known.LAYOUT, arguments)


def _device(arguments: tuple[Any, ...]) -> str:
    match arguments:
        case (str() as kind,) if type(kind) is str:
            return kind
        case (str() as kind, int() as index) if type(kind) is str and type(index) is int:
            return f"{kind}:{index}"
    raise _arguments(Known.DEVICE, arguments)


def _partial_state(function: PickledFunction, state: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    match state:
        case (PickledFunction(path=path), tuple() as args, dict() as kwargs, rest) if (
            path == function.path and not rest
        ):
            return args, kwargs
    raise ContainerError(
        "the pickle has a functools.partial with a wrong state",
        found=_named(state),
        expected="its function, a tuple, a dict and nothing else",
    )


def _is_name(text: Any) -> bool:
    return type(text) is str and text.isidentifier() and not text.startswith("_")


def _check_strided(layout: Any) -> None:
    if layout != "torch.strided":
        raise ContainerError(
            "the pickle has a tensor of another memory layout than strided",
            found=_named(layout),
            expected="torch.strided",
        )


def _check_extras(hooks: Any, rest: Any) -> None:
    if hooks is not None and (type(hooks) is not dict or hooks):
        raise ContainerError(
            "the pickle has a tensor with hooks", found=_named(hooks), expected="an empty dict"
        )
    flags = rest[0] if rest else None
    if len(rest) > 1 or (flags is not None and type(flags) is not dict):
        raise ContainerError(
            "the pickle has a tensor with unknown arguments",
            found=", ".join(map(_named, rest[:8])),
            expected="nothing behind the hooks, or a dict of flags",
        )
    if flags:
        raise ContainerError(
            "the pickle has a tensor that is to be conjugated or negated",
            found=list(flags)[:4],
            expected="no flags",
            hint="call resolve_conj() and resolve_neg() and save it again",
        )


def _named(value: Any) -> str:
    """Return in words what a value is, without printing what it holds."""
    if isinstance(value, Known):
        return value.value
    path = getattr(value, "path", None)
    return path if isinstance(path, str) else type(value).__name__


def _arguments(function: Known, arguments: tuple[Any, ...]) -> ContainerError:
    return ContainerError(
        f"the pickle calls {function.value} with arguments that it does not take",
        found=", ".join(map(_named, arguments[:8])) or "nothing",
        expected="what torch.save writes there",
    )
