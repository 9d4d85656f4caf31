"""Check the tensors of a layout against the patterns its class declares."""

from typing import Any

from qconfig.errors import LayoutError, QconfigError
from qconfig.versioning.fields import info_of, tensor_fields


def check_tensors(layout: Any) -> None:
    """Check dtype and shape of every tensor field; equal dimension names must agree.

    Raises:
        LayoutError: naming the first field that contradicts its pattern or an earlier field.
    """
    sizes: dict[str, tuple[int, str]] = {}
    for field in tensor_fields(type(layout)):
        value = getattr(layout, field.name)
        if value is None and field.default is None:
            continue
        _check_one(field.name, value, info_of(field).tensor, sizes)


def _check_one(name: str, value: Any, pattern: Any, sizes: dict[str, tuple[int, str]]) -> None:
    dtype = str(getattr(value, "dtype", None)).removeprefix("torch.")
    if dtype not in pattern.allowed:
        raise _error(name, "has a wrong dtype", dtype, " or ".join(pattern.allowed))
    shape, dims = tuple(value.shape), pattern.dimensions
    expected = f"shape ({', '.join(dims)})"
    leading = dims[:1] if dims and dims[0].startswith("*") else ()
    trailing = dims[len(leading) :]
    if len(shape) < len(trailing) or (not leading and len(shape) != len(trailing)):
        raise _error(name, "has a wrong number of dimensions", shape, expected)
    split = len(shape) - len(trailing)
    pairs: list[tuple[str, Any]] = [(leading[0], shape[:split])] if leading else []
    pairs += zip(trailing, shape[split:], strict=True)
    for dim, size in pairs:
        if dim == "_":
            continue
        known, owner = (
            (int(dim), "the layout") if dim.isdigit() else sizes.setdefault(dim, (size, name))
        )
        if known != size:
            raise _error(
                name, f"has a wrong size for {dim}", shape, f"{dim} = {known}, as in {owner}"
            )


def _error(name: str, what: str, found: object, expected: str) -> QconfigError:
    return LayoutError(f"{name} {what}", pointer=f"/{name}", found=found, expected=expected)
