"""The last look at what a pickle gave: a tree of plain data and of values that stand for others.

A pickle can put one list into itself, or ten references to a list into the next one, ten times
over: a few bytes whose printing or walking would never end. Every later reader may recurse, because
depth and size were bounded here.
"""

from collections.abc import Callable, Iterable
from typing import Any

from qconfig.codec.dtypes import DType
from qconfig.codec.pickled_values import (
    PickledEnum,
    PickledFunction,
    PickledObject,
    PickledSubclass,
    PickledTensor,
)
from qconfig.errors import ContainerError
from qconfig.limits import Limits

_ALWAYS, _PER_INSTRUCTION = 100_000, 64

_LEAVES = frozenset({str, int, float, bool, type(None), DType})
_PARTS: dict[type, Callable[[Any], Iterable[Any]]] = {
    dict: lambda value: value.values(),
    list: lambda value: value,
    tuple: lambda value: value,
    PickledTensor: lambda value: (value.attributes,),
    PickledSubclass: lambda value: (value.state,),
    PickledObject: lambda value: (value.args, value.state),
    PickledEnum: lambda value: (value.value,),
    PickledFunction: lambda value: (value.args, value.kwargs, value.bound_to),
}


def check_tree(root: Any, instructions: int, limits: Limits) -> None:
    """Check that a value is a tree of plain data and pickled values, of bounded depth and size.

    Args:
        root: the value. Parts that occur more than once are looked at once.
        instructions: how many instructions described it.
        limits: bounds the depth.

    Raises:
        ContainerError: it contains itself, is too deep, grows too large where its shared parts are
            written out, or a class or storage stands in it as a value.
    """
    most = _ALWAYS + _PER_INSTRUCTION * instructions
    open_ids: set[int] = set()
    sizes: dict[int, int] = {}
    heights: dict[int, int] = {}
    # The sum of a value's parts is taken when it is met the second time.
    todo: list[tuple[Any, bool]] = [(root, False)]
    while todo:
        value, is_second = todo.pop()
        key = id(value)
        if is_second:
            parts = [p for p in _PARTS[type(value)](value) if type(p) not in _LEAVES]
            sizes[key] = 1 + len(value) if type(value) in {dict, list, tuple} else 4
            sizes[key] += sum(sizes[id(p)] for p in parts)
            heights[key] = 1 + max((heights[id(p)] for p in parts), default=0)
            open_ids.discard(key)
            _check_bounds(sizes[key], heights[key], most, limits)
            continue
        if type(value) in _LEAVES or key in sizes:
            continue
        if key in open_ids:
            raise ContainerError("the pickle has a value that contains itself", found=type(value))
        if type(value) not in _PARTS:
            raise ContainerError(
                "the pickle has a class, a function or a storage where a value belongs",
                found=getattr(value, "path", None) or type(value).__name__,
                expected="tensors and plain data",
            )
        open_ids.add(key)
        todo.append((value, True))
        todo.extend((p, False) for p in _PARTS[type(value)](value) if type(p) not in _LEAVES)


def _check_bounds(size: int, height: int, most: int, limits: Limits) -> None:
    if height > limits.pickle_depth:
        raise ContainerError(
            "the pickle nests values too deep",
            found=f"more than {limits.pickle_depth} levels",
            expected=f"levels: {limits.describe('pickle_depth')}",
        )
    if size > most:
        raise ContainerError(
            "the pickle grows too large where its shared values are written out",
            found=f"at least {size} values",
            expected=f"at most {most} values",
        )
