"""The fields of a NamedTuple of Brevitas, checked one by one."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from qconfig.codec.dtypes import DType
from qconfig.codec.pickled_values import PickledTensor
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.brevitas.forms import Form, public_name
from qconfig.errors import LayoutError

if TYPE_CHECKING:
    import torch

_NUMBERS = frozenset({"bit_width", "exponent_bit_width", "mantissa_bit_width", "exponent_bias"})
_VALUES = frozenset({"value", "value_"})
_FLAGS = frozenset({"saturating_t", "signed_t", "training_t"})
_INTS = frozenset({"group_size", "group_dim"})
_WHOLE = frozenset({DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64})
_MOST_CODES = 1024
_MOST_DIMENSIONS = 15


def checked_fields(form: Form, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a form as its layout has them.

    Args:
        form: says which fields there are.
        fields: by stored or public name: tensors of a pickle or of torch, LazyTensors, numbers
            and plain data.

    Returns:
        LazyTensors, bools for flags, ints, tuples of texts.

    Raises:
        LayoutError: a field has a value of a wrong kind; named by its pointer.
    """
    return {name: _checked(name, _given(name, fields)) for name in form.fields}


def _given(name: str, fields: Mapping[str, Any]) -> Any:
    return fields[name] if name in fields else fields[public_name(name)]


def named(form: Form, values: Sequence[Any]) -> dict[str, Any]:
    """Return positional fields by their names; there are as many as the form has."""
    return dict(zip(form.fields, values, strict=True))


def _checked(name: str, value: Any) -> Any:
    if name in _FLAGS:
        return _flag(name, value)
    if name in _INTS:
        if type(value) is not int:
            raise _wrong(name, value, "an integer")
        return value
    if name in ("inf_values", "nan_values"):
        return _codes(name, value)
    if name == "dequant_shape":
        return _shape(name, value)
    return _tensor(name, value)


def lazy_of(value: Any) -> LazyTensor | None:
    """Return a tensor of a pickle or of torch as a lazy one; None for anything else."""
    if isinstance(value, PickledTensor):
        return value.value
    if isinstance(value, LazyTensor):
        return value
    if value is None or isinstance(value, bool | int | float | str | tuple | list | dict):
        return None
    import torch

    if not isinstance(value, torch.Tensor):
        return None
    return LazyTensor.of(value.contiguous())


def _tensor(name: str, value: Any) -> LazyTensor:
    lazy = lazy_of(value)
    if lazy is None and type(value) in (int, float) and name not in _VALUES:
        lazy = _number(name, value)
    if lazy is None:
        hint = None
        if value is None and name in _VALUES:
            hint = "it is what Brevitas keeps of an activation for export; save the tensor itself"
        raise _wrong(name, value, "a tensor", hint)
    if lazy.dtype in _WHOLE and name not in _VALUES:
        lazy = _as_float(name, lazy)
    if not lazy.dtype.is_float:
        raise _wrong(name, lazy, "a tensor of floating-point numbers")
    if name in _NUMBERS and prod(lazy.shape) != 1:
        raise _wrong(name, lazy, "one number")
    return lazy


def _as_float(name: str, lazy: LazyTensor) -> LazyTensor:
    """Return whole numbers, which Brevitas takes wherever it takes others, as float32."""
    whole = lazy.load()
    found = whole.float()
    if not bool((found.to(whole.dtype) == whole).all()):
        raise _wrong(name, lazy, "numbers that float32 holds")
    return LazyTensor.of(found)


def _number(name: str, value: float) -> LazyTensor:
    import torch

    try:
        return LazyTensor.of(torch.tensor(float(value), dtype=torch.float32))
    except (OverflowError, RuntimeError):
        raise _wrong(name, value, "a number that float32 holds") from None


def _flag(name: str, value: Any) -> bool:
    if type(value) is bool:
        return value
    if value is None and name == "training_t":
        return False  # 0.8 to 0.10 had none where a tensor was made by hand
    lazy = lazy_of(value)
    if lazy is None:
        raise _wrong(name, value, "a tensor of one flag")
    if prod(lazy.shape) != 1:
        raise _wrong(name, lazy, "a tensor of one flag")
    number = _item(lazy)
    if number not in (0, 1):
        raise _wrong(name, number, "true or false; or 1 or 0, where .to() has cast it")
    return bool(number == 1)


def number_of(lazy: LazyTensor) -> float:
    """Return the one element of a tensor.

    Raises:
        ContainerError, StorageError: its file cannot be read.
    """
    return float(_item(lazy))


def _item(lazy: LazyTensor) -> Any:
    tensor: torch.Tensor = lazy.load()
    if lazy.dtype is DType.BOOL:
        return bool(tensor.reshape(()))
    return tensor.reshape(()).item()


def _codes(name: str, value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    if type(value) not in (tuple, list) or len(value) > _MOST_CODES:
        raise _wrong(name, value, "a tuple of mantissas in binary digits, or nothing")
    if not all(type(code) is str for code in value):
        raise _wrong(name, value, "texts of binary digits")
    return tuple(value)


def _shape(name: str, value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    # torch.Size is a tuple.
    if not isinstance(value, tuple | list) or len(value) > _MOST_DIMENSIONS:
        raise _wrong(name, value, f"a shape of at most {_MOST_DIMENSIONS} dimensions")
    if not all(type(n) is int and 0 <= n < 2**48 for n in value):
        raise _wrong(name, value, "sizes of dimensions")
    return tuple(value)


def _wrong(name: str, found: Any, expected: str, hint: str | None = None) -> LayoutError:
    return LayoutError(
        f"{name} is of a wrong kind",
        pointer=f"/{name}",
        found=found,
        expected=expected,
        hint=hint,
    )
