"""Values of torchao's JSON that have no parts: numbers, texts, dtypes and enum members."""

from enum import Enum
from typing import Any

from qconfig.codec.dtypes import DType
from qconfig.dialects.torchao.forms import DTYPE

_PLAIN = (type(None), bool, int, float, str)


def is_leaf(value: Any) -> bool:
    """Return whether a value has no parts."""
    return type(value) in _PLAIN or isinstance(value, Enum)


def leaf(value: Any) -> Any:
    """Return a value without parts as JSON in torchao's form: an enum member by its name."""
    if isinstance(value, DType):
        return {"_type": DTYPE, "_data": value.value}
    if isinstance(value, Enum):
        return {"_type": type(value).__name__, "_data": value.name}
    return value
