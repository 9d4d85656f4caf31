"""Which functions of torch are attributes, and which change their first operand in place.

The sets are made once: what looks at the name of a function cannot be compiled.
"""

from types import GetSetDescriptorType, ModuleType
from typing import Any

import torch
from torch.nn import functional

_T = torch.Tensor


def _attributes() -> frozenset[Any]:
    found = []
    for name in dir(_T):
        attribute = _descriptor(name)
        if isinstance(attribute, GetSetDescriptorType):
            found += [attribute.__get__, attribute.__set__]
    return frozenset(found)


def _descriptor(name: str) -> Any:
    return next((vars(c)[name] for c in _T.__mro__ if name in vars(c)), None)


def _in_place(place: type | ModuleType) -> set[Any]:
    names = (n for n in dir(place) if n.endswith("_") and not n.endswith("__"))
    functions = (getattr(place, name, None) for name in names)
    return {f for f in functions if callable(f)}


ATTRIBUTES = _attributes()
"""Getters and setters of the attributes of tensors."""
TRANSPOSITIONS: tuple[Any, ...] = tuple(
    getattr(_T, name).__get__ for name in ("T", "mT", "H", "mH")
)
"""Getters of the attributes that are other orders of the dimensions."""
IN_PLACE: frozenset[Any] = frozenset(
    _in_place(_T) | _in_place(torch) | _in_place(functional) | _in_place(torch.nn.init)
) | frozenset(
    {_T.__iand__, _T.__ior__, _T.__ixor__, _T.__ilshift__, _T.__irshift__, _T.__setitem__}
)
"""Functions that write into their first operand."""


def writes(func: Any) -> bool:
    """Return whether a function writes into its first operand."""
    if isinstance(func, torch._ops.OpOverload):  # noqa: SLF001
        return bool(func._schema.is_mutable)  # noqa: SLF001
    if isinstance(func, torch._ops.OpOverloadPacket):  # noqa: SLF001
        return func.__name__.endswith("_")
    return func in IN_PLACE
