"""The entries of a safetensors header: one tensor's fields, and all ranges together."""

from collections.abc import Mapping
from math import prod
from typing import Any

from attrs import frozen

from qconfig.codec.dtypes import FROM_SAFETENSORS, DType
from qconfig.codec.tensor_names import check_name
from qconfig.errors import ContainerError, json_pointer, nearest
from qconfig.limits import Limits

METADATA_KEY = "__metadata__"
_FIELDS = frozenset({"dtype", "shape", "data_offsets"})
_ADDRESSABLE = 2**63


@frozen
class TensorEntry:
    """One tensor of a header.

    Args:
        dtype: element type.
        shape: dimensions as torch counts them. A header counts the codes of float4_e2m1fn_x2,
            torch the bytes that hold two each: `[3, 8]` there is `(3, 4)` here.
        start: first byte, counted from the start of the data.
        end: the byte after the last.
    """

    dtype: DType
    shape: tuple[int, ...]
    start: int
    end: int


def check_metadata(value: object, limits: Limits) -> dict[str, str]:
    """Return the value of `__metadata__` if it maps names to strings.

    Raises:
        ContainerError: it does not, or breaks a limit.
    """
    if not isinstance(value, dict):
        raise ContainerError(
            f"{METADATA_KEY} is not an object", found=value, expected="an object of strings"
        )
    for key, text in value.items():
        check_name(key, limits, what="metadata key")
        if not isinstance(text, str):
            raise ContainerError(
                f"{METADATA_KEY} has a value that is no string",
                pointer=json_pointer(METADATA_KEY, key),
                found=text,
                expected="a string",
            )
        # A quarter: one character takes at most four bytes.
        if (
            len(text) > limits.metadata_value_bytes // 4
            and (size := len(text.encode())) > limits.metadata_value_bytes
        ):
            raise ContainerError(
                f"{METADATA_KEY} has a value that is too long",
                pointer=json_pointer(METADATA_KEY, key),
                found=f"{size} bytes",
                expected=f"bytes: {limits.describe('metadata_value_bytes')}",
            )
    return value


Form = tuple[DType, tuple[int, ...], int]
"""Dtype and shape as torch counts them, and the bytes that such a tensor takes."""


def parse_entries(content: dict[str, Any], limits: Limits) -> dict[str, TensorEntry]:
    """Return the entries of all tensors, in the order of the header.

    Args:
        content: the JSON values by name. Each is taken out, so that it is freed before the next is
            looked at.
        limits: bounds on names, ranks and dimensions.

    Raises:
        ContainerError: a name or a field breaks the format or a limit.
    """
    # Thousands of tensors have few dtypes and shapes, which are checked once each.
    forms: dict[Any, Form] = {}
    return {n: _parse_entry(n, content.pop(n), forms, limits) for n in list(content)}


def _parse_entry(name: str, fields: Any, forms: dict[Any, Form], limits: Limits) -> TensorEntry:
    check_name(name, limits)
    if type(fields) is not dict or fields.keys() != _FIELDS:
        raise _wrong_fields(name, fields)
    code, sizes, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    form = None
    # Of equal types too: `True` and `1.0` are equal to 1.
    if type(code) is str and type(sizes) is list and _are_sizes(sizes):
        key = (code, *sizes)
        form = forms.get(key)
        if form is None:
            form = forms[key] = _form(name, code, sizes, limits)
    dtype, shape, length = form or _form(name, code, sizes, limits)
    if type(offsets) is not list or len(offsets) != 2 or not _are_sizes(offsets):
        raise ContainerError(
            "data_offsets are not two sizes",
            fqn=name,
            found=offsets,
            expected="[start, end], integers from 0",
        )
    start, end = offsets
    if end - start != length:
        raise ContainerError(
            "the byte range does not fit dtype and shape",
            fqn=name,
            found=f"{end - start} bytes from {start} to {end}",
            expected=f"{length} bytes for {dtype} {shape}",
        )
    return TensorEntry(dtype, shape, start, end)


def _form(name: str, code: Any, sizes: Any, limits: Limits) -> Form:
    dtype = FROM_SAFETENSORS.get(code) if type(code) is str else None
    if dtype is None:
        raise ContainerError(
            "unknown dtype code",
            fqn=name,
            found=code,
            expected=", ".join(sorted(FROM_SAFETENSORS)),
            hint=nearest(str(code)[:16], FROM_SAFETENSORS),
        )
    shape = _shape(name, dtype, sizes, limits)
    return dtype, shape, prod(shape) * dtype.itemsize


def header_shape(dtype: DType, shape: tuple[int, ...]) -> list[int]:
    """Return the shape that a header gives for torch's `shape`.

    Raises:
        ContainerError: a 0-d tensor of float4_e2m1fn_x2, which has no dimension to double.
    """
    if dtype is not DType.FLOAT4_E2M1FN_X2:
        return list(shape)
    if not shape:
        raise ContainerError(
            "safetensors cannot hold a 0-d tensor of two codes a byte",
            found=f"{dtype} ()",
            expected="at least one dimension",
            hint="reshape it to (1,)",
        )
    return [*shape[:-1], shape[-1] * 2]


def check_coverage(tensors: Mapping[str, TensorEntry], data_start: int, file_size: int) -> None:
    """Check that the tensors cover the data of the file, each byte once.

    Raises:
        ContainerError: two tensors overlap, a byte belongs to none, or the file is cut short.
    """
    position, previous = 0, None
    for name, entry in sorted(tensors.items(), key=_range):
        if entry.start != position:
            overlaps = entry.start < position
            raise ContainerError(
                f"the bytes overlap those of {previous!r}" if overlaps else "a hole in the data",
                fqn=name,
                found=f"data that starts at {entry.start}",
                expected=f"data that starts at {position}",
                hint="the file was written wrongly or edited; fetch it again",
            )
        position, previous = entry.end, name
    if data_start + position != file_size:
        is_short = data_start + position > file_size
        raise ContainerError(
            "the file is cut short" if is_short else "bytes after the last tensor",
            fqn=previous if is_short else None,
            found=f"{file_size} bytes",
            expected=f"{data_start + position} bytes",
            hint="the download or the write was cut off; fetch the file again"
            if is_short
            else "the file was edited or two files were joined; fetch it again",
        )


def _range(item: tuple[str, TensorEntry]) -> tuple[int, int]:
    return item[1].start, item[1].end


def _wrong_fields(name: str, fields: Any) -> ContainerError:
    expected = "an object of dtype, shape and data_offsets"
    if type(fields) is not dict:
        return ContainerError(
            "the entry is not an object", fqn=name, found=fields, expected=expected
        )
    unknown = sorted(fields.keys() - _FIELDS)
    if unknown:
        return ContainerError(
            "the entry has an unknown field",
            fqn=name,
            found=unknown[0],
            expected=expected,
            hint=nearest(unknown[0][:16], _FIELDS),
        )
    missing = ", ".join(sorted(_FIELDS - fields.keys()))
    return ContainerError(f"the entry lacks {missing}", fqn=name, expected=expected)


def _shape(name: str, dtype: DType, sizes: Any, limits: Limits) -> tuple[int, ...]:
    if type(sizes) is not list:
        raise ContainerError(
            "the shape is not a list", fqn=name, found=sizes, expected="a list of sizes"
        )
    if len(sizes) > limits.rank:
        raise ContainerError(
            "the shape has too many dimensions",
            fqn=name,
            found=f"{len(sizes)} dimensions",
            expected=f"dimensions: {limits.describe('rank')}",
        )
    if not _are_sizes(sizes):
        raise ContainerError(
            "a dimension is not a size", fqn=name, found=sizes, expected="integers from 0"
        )
    if sizes and max(sizes) > limits.dimension:
        raise ContainerError(
            "a dimension is too large",
            fqn=name,
            found=sizes,
            expected=f"each dimension: {limits.describe('dimension')}",
        )
    # Torch computes strides as if an empty dimension had one element.
    if prod(sizes if 0 not in sizes else [n or 1 for n in sizes]) >= _ADDRESSABLE // dtype.itemsize:
        raise ContainerError(
            "the shape overflows",
            fqn=name,
            found=sizes,
            expected="fewer than 2**63 bytes, empty dimensions counted as one",
        )
    if dtype is not DType.FLOAT4_E2M1FN_X2:
        return tuple(sizes)
    if not sizes or sizes[-1] % 2:
        raise ContainerError(
            "half a byte left over",
            fqn=name,
            found=sizes,
            expected="a last dimension that is even: F4 packs two codes into a byte",
        )
    return (*sizes[:-1], sizes[-1] // 2)


def _are_sizes(values: list[Any]) -> bool:
    # A loop: this runs twice a tensor, and a generator takes three times as long.
    for value in values:  # noqa: SIM110
        if type(value) is not int or value < 0:
            return False
    return True
