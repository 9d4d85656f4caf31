"""Values that tensors of torchao carry, as ours: enum members, granularities, kwargs."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

import attrs

from qconfig.codec.dtypes import DType
from qconfig.configs.choices import KernelPreference, MappingType, ScaleCalculationMode
from qconfig.configs.float8 import Float8MMConfig
from qconfig.configs.granularity import PerAxis, PerBlock, PerGroup, PerRow, PerTensor, PerToken
from qconfig.dialects.torchao.stored import StoredEnum, StoredObject
from qconfig.errors import ContainerError, QconfigError, UnknownFieldError, json_pointer, nearest
from qconfig.layouts.activation import QuantizeTensorToInt8Kwargs
from qconfig.layouts.float8 import QuantizeTensorToFloat8Kwargs
from qconfig.layouts.mx import MXElementType, QuantizeTensorToMXKwargs
from qconfig.layouts.nvfp4 import QuantizeTensorToNVFP4Kwargs
from qconfig.migrations.mx_tensor_layout import (
    MXElementTypeV1,
    MXGemmKernelChoice,
    QuantizeTensorToMXKwargs013,
)
from qconfig.migrations.nvfp4_tensor_layout import NVFP4MMConfig

_ENUMS: Mapping[str, type[StrEnum]] = {
    "KernelPreference": KernelPreference,
    "MappingType": MappingType,
    "MXGemmKernelChoice": MXGemmKernelChoice,
    "NVFP4MMConfig": NVFP4MMConfig,
    "ScaleCalculationMode": ScaleCalculationMode,
}
_RENAMED = {("KernelPreference", "FBGEMM"): "MSLK"}
_NEWEST_ELEMENTS = {"fp4_e2m1": "float4_e2m1fn_x2"}
_OLDEST_ELEMENTS = {new: old for old, new in _NEWEST_ELEMENTS.items()}


def member(value: Any, kind: type[StrEnum]) -> Any:
    """Return the member of one of our enums that a stored member is.

    Args:
        value: a StoredEnum.
        kind: the enum.

    Raises:
        ContainerError: another enum, or a member that ours does not have.
    """
    name = kind.__name__
    if isinstance(value, StoredEnum) and value.name == name:
        found = _RENAMED.get((name, value.member), value.member)
        if found in kind.__members__:
            return kind[found]
    raise ContainerError(
        f"not a {name} that is known", found=value, expected=", ".join(kind.__members__)
    )


def element_type(value: Any) -> MXElementType:
    """Return the element type of MX codes, which torchao names by a dtype or, of fp6, a string."""
    text = value.value if isinstance(value, DType) else value
    if isinstance(text, str):
        text = _NEWEST_ELEMENTS.get(text, text)
        if text in {kind.value for kind in MXElementType}:
            return MXElementType(text)
    raise ContainerError(
        "not an element type of MX",
        found=value,
        expected=", ".join(kind.value for kind in MXElementType),
    )


def old_element_type(value: Any) -> MXElementTypeV1:
    """Return the element type of MX codes by the names of torchao 0.4 to 0.12."""
    text = element_type(value).value
    return MXElementTypeV1(_OLDEST_ELEMENTS.get(text, text))


def granularity(value: Any) -> Any:
    """Return a granularity of ours. Raises ContainerError for anything else."""
    return _of(value, _GRANULARITIES)


def mm_config(value: Any) -> Float8MMConfig | None:
    """Return how a float8 product is computed; None stays None."""
    result: Float8MMConfig | None = None if value is None else _of(value, _FLOAT8_MM_CONFIG)
    return result


def int8_kwargs(value: Any) -> QuantizeTensorToInt8Kwargs | None:
    """Return how an activation is quantized to int8; None stays None."""
    return None if value is None else _of(value, _INT8_KWARGS)


def float8_kwargs(value: Any) -> QuantizeTensorToFloat8Kwargs | None:
    """Return how an activation is quantized to float8; None stays None."""
    return None if value is None else _of(value, _FLOAT8_KWARGS)


def nvfp4_kwargs(value: Any) -> QuantizeTensorToNVFP4Kwargs | None:
    """Return how an activation is quantized to NVFP4; None stays None."""
    return None if value is None else _of(value, _NVFP4_KWARGS)


def mx_kwargs(value: Any) -> QuantizeTensorToMXKwargs | None:
    """Return how an activation is quantized to MX since 0.15; None stays None."""
    return None if value is None else _of(value, _MX_KWARGS)


def mx_kwargs_013(value: Any) -> QuantizeTensorToMXKwargs013 | None:
    """Return how an activation is quantized to MX in 0.13 and 0.14; None stays None."""
    return None if value is None else _of(value, _MX_KWARGS_013)


def _of(value: Any, classes: Mapping[str, type]) -> Any:
    """Return the object of ours for a stored one of one of these classes, by its name there."""
    name = value.name if isinstance(value, StoredObject) else ""
    cls = classes.get(name)
    if cls is None:
        raise ContainerError(
            "not an object of that place", found=value, expected=" or ".join(classes)
        )
    known = attrs.fields_dict(cls)
    given = {}
    for key, item in value.fields.items():
        if key not in known:
            raise UnknownFieldError(
                f"{name} has a field that no known release wrote",
                pointer=json_pointer(key),
                found=key,
                expected=", ".join(known),
                hint=nearest(key, known),
            )
        try:
            given[key] = _CONVERTERS.get(key, _plain)(item)
        except QconfigError as error:
            raise error.at(pointer_prefix=json_pointer(key)) from None
    needed = [n for n, f in known.items() if f.default is attrs.NOTHING and n not in given]
    if needed:
        raise ContainerError(
            f"{name} has no {needed[0]}", found=sorted(given), expected=", ".join(needed)
        )
    return cls(**given)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, StoredEnum) and value.name in _ENUMS:
        return member(value, _ENUMS[value.name])
    return value


_GRANULARITIES: Mapping[str, type] = {
    cls.__name__: cls for cls in (PerTensor, PerRow, PerAxis, PerGroup, PerToken, PerBlock)
}
_FLOAT8_MM_CONFIG = {"Float8MMConfig": Float8MMConfig}
_INT8_KWARGS = {"QuantizeTensorToInt8Kwargs": QuantizeTensorToInt8Kwargs}
_FLOAT8_KWARGS = {"QuantizeTensorToFloat8Kwargs": QuantizeTensorToFloat8Kwargs}
_NVFP4_KWARGS = {"QuantizeTensorToNVFP4Kwargs": QuantizeTensorToNVFP4Kwargs}
_MX_KWARGS = {"QuantizeTensorToMXKwargs": QuantizeTensorToMXKwargs}
_MX_KWARGS_013 = {"QuantizeTensorToMXKwargs": QuantizeTensorToMXKwargs013}
_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "elem_dtype": element_type,
    "granularity": granularity,
    "mm_config": mm_config,
}
