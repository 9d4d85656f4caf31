"""The metadata of one tensor in torchao's safetensors files: a JSON text and its values.

A text is `{"_type", "_data", "_tensor_data_names"}`. Values that JSON lacks are objects with
`_type` and `_data`. torchao looks `_type` up among its classes and calls what it finds; here names
are compared with closed tables and nothing is called.
"""

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from qconfig.codec import strict_json
from qconfig.codec.dtypes import DType
from qconfig.dialects.torchao.stored import StoredEnum, StoredObject
from qconfig.dialects.torchao.tensors.enums import ENUMS
from qconfig.errors import (
    ContainerError,
    DocumentSyntaxError,
    FieldError,
    QconfigError,
    UnknownFieldError,
    UnknownNameError,
    json_pointer,
    nearest,
    raise_problems,
)

TYPE, DATA, DATA_NAMES = "_type", "_data", "_tensor_data_names"

OBJECTS: Mapping[str, tuple[str, ...]] = {
    "Float8MMConfig": ("emulate", "use_fast_accum", "pad_inner_dim"),
    "PerAxis": ("axis",),
    "PerBlock": ("block_size",),
    "PerGroup": ("group_size",),
    "PerRow": ("dim",),
    "PerTensor": (),
    "PerToken": (),
    "QuantizeTensorToFloat8Kwargs": (
        *("float8_dtype", "granularity", "mm_config", "hp_value_lb", "hp_value_ub"),
        "kernel_preference",
    ),
    "QuantizeTensorToInt8Kwargs": ("granularity", "mapping_type", "reduce_range"),
    "QuantizeTensorToMXKwargs": (
        *("elem_dtype", "block_size", "scaling_mode", "kernel_preference", "is_swizzled_scales"),
        *("gemm_kernel_choice", "pack_fp6"),
    ),
    "QuantizeTensorToNVFP4Kwargs": (
        *("block_size", "is_swizzled_scales", "use_triton_kernel", "use_dynamic_per_tensor_scale"),
    ),
}
"""Objects that tensors carry, with their fields in all releases."""

_DTYPE = "torch.dtype"
_DTYPE_FIELDS = frozenset(
    {"activation_dtype", "dtype", "elem_dtype", "float8_dtype", "orig_dtype", "target_dtype"}
)
_NAMES = {dtype.value: dtype for dtype in DType}


@frozen
class Description:
    """What the metadata says about one tensor.

    Args:
        type: class name.
        data: its attributes.
        parts: names of its inner tensors; None where the release did not write them.
    """

    type: str
    data: Mapping[str, Any] = field(factory=dict)
    parts: tuple[str, ...] | None = None


def read_description(text: str) -> Description:
    """Return what a JSON text of the metadata says about a tensor.

    Raises:
        ContainerError: the text is no JSON object of torchao's form.
        FieldError, UnknownFieldError, UnknownNameError, DocumentErrors: values that torchao does
            not write; all of them at once, with pointers into the text.
    """
    try:
        content = strict_json.loads(text)
    except DocumentSyntaxError as error:
        raise ContainerError(error.message, found=error.found, hint=error.hint) from None
    if not isinstance(content, dict) or not isinstance(content.get(TYPE), str):
        raise ContainerError(
            "not the description of a tensor",
            found=content,
            expected=f'an object with "{TYPE}", the name of a class',
        )
    problems: list[QconfigError] = [
        UnknownFieldError(
            "unknown field",
            pointer=json_pointer(key),
            found=key,
            expected=f"{TYPE}, {DATA} or {DATA_NAMES}",
        )
        for key in content.keys() - {TYPE, DATA, DATA_NAMES}
    ]
    data, parts = content.get(DATA, {}), content.get(DATA_NAMES)
    if not isinstance(data, dict):
        problems.append(
            FieldError(f"{DATA} is not an object", pointer=json_pointer(DATA), found=data)
        )
        data = {}
    if parts is not None and not _are_names(parts):
        problems.append(
            FieldError(
                f"{DATA_NAMES} is not a list of names",
                pointer=json_pointer(DATA_NAMES),
                found=parts,
                expected="names of inner tensors, each once",
            )
        )
        parts = []
    values = {}
    for key, value in data.items():
        values[key] = _value(value, key, json_pointer(DATA, key), problems)
    raise_problems(problems)
    return Description(content[TYPE], values, None if parts is None else tuple(parts))


def _are_names(value: Any) -> bool:
    names = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return names and len(set(value)) == len(value)


def _value(value: Any, name: str, pointer: str, problems: list[QconfigError]) -> Any:
    if isinstance(value, list):
        return [_value(v, name, f"{pointer}/{i}", problems) for i, v in enumerate(value)]
    if isinstance(value, str):
        return _text(value, name)
    if not isinstance(value, dict):
        return value
    try:
        return _object(value, pointer, problems)
    except QconfigError as error:
        problems += [p.at(pointer_prefix=pointer) for p in error.problems]
        return None


def _text(value: str, name: str) -> Any:
    """Return the dtype that a text names, where one has a place; else the text.

    Some writers put dtypes down as text, and torchao keeps them so. It writes fp6, for which torch
    has no dtype, as text itself.
    """
    plain = value.removeprefix("torch.")
    is_dtype = plain in _NAMES and (name in _DTYPE_FIELDS or plain != value)
    return _NAMES[plain] if is_dtype else value


def _object(value: Mapping[str, Any], pointer: str, problems: list[QconfigError]) -> Any:
    kind = value.get(TYPE)
    if not isinstance(kind, str) or value.keys() - {TYPE, DATA, "_version"}:
        raise FieldError(
            "not a value of torchao's",
            found=value,
            expected=f'an object with "{TYPE}" and "{DATA}"',
        )
    data = value.get(DATA, {})
    if kind == _DTYPE:
        return _member(kind, data, _NAMES)
    if kind in ENUMS:
        return StoredEnum(kind, _member(kind, data, {m: m for m in ENUMS[kind].values()}))
    fields = OBJECTS.get(kind)
    if fields is None:
        known = sorted({_DTYPE, *ENUMS, *OBJECTS})
        raise UnknownNameError(
            "unknown type",
            pointer=json_pointer(TYPE),
            found=kind,
            expected="one of " + ", ".join(known),
            hint=nearest(kind, known),
        )
    if not isinstance(data, dict):
        raise FieldError(f"{DATA} is not an object", pointer=json_pointer(DATA), found=data)
    problems += [
        UnknownFieldError(
            f"{kind} has no such field",
            pointer=pointer + json_pointer(DATA, key),
            found=key,
            expected=", ".join(fields) or "no fields",
            hint=nearest(key, fields),
        )
        for key in data
        if key not in fields
    ]
    return StoredObject(
        kind,
        {
            key: _value(inner, key, pointer + json_pointer(DATA, key), problems)
            for key, inner in data.items()
        },
    )


def _member(kind: str, name: Any, members: Mapping[str, Any]) -> Any:
    if not isinstance(name, str) or name not in members:
        raise UnknownNameError(
            f"unknown {kind}",
            pointer=json_pointer(DATA),
            found=name,
            expected="one of " + ", ".join(members),
            hint=nearest(str(name), members),
        )
    return members[name]
