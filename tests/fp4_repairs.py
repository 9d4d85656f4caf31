"""Make the fields of MX and NVFP4 layouts that strategies draw fit each other."""

from collections.abc import Callable
from typing import Any

import attrs
from hypothesis import strategies as st

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.layouts.block_scaled import swizzled_shape
from qconfig.versioning import Entry

Draw = Callable[[Any], Any]
_SHOWN = ["float16", "bfloat16", "float32", "float64"]


def tile_mx(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Make codes, scales and blocks of an MX layout fit."""
    element, block = values["elem_dtype"].value, draw(st.sampled_from([4, 32]))
    packed = bool(values.get("pack_fp6")) and element.startswith("fp6")
    shape = _shape(draw, block)
    columns = shape[-1]
    if "fp4" in element or "float4" in element:
        columns //= 2
    elif packed:
        columns = columns * 3 // 4
    stored = element if element.startswith("float8") else "uint8"
    codes = TensorSpec(DType(stored), (*shape[:-1], columns))
    values["data" if entry.version <= 2 else "qdata"] = codes
    values["block_size"] = block
    values["dtype"] = DType(draw(st.sampled_from(_SHOWN)))
    if values.get("act_quant_kwargs") is not None:
        values["act_quant_kwargs"] = attrs.evolve(values["act_quant_kwargs"], block_size=block)
    if values.get("is_swizzled_scales"):
        shape = shape[-2:]
        values["qdata"] = TensorSpec(codes.dtype, (*shape[:-1], columns))
    name = "scale_e8m0" if entry.version <= 3 else "scale"
    dtype = DType.UINT8 if entry.version == 1 else DType.FLOAT8_E8M0FNU
    values[name] = TensorSpec(dtype, _scale(shape, block, values, flat=entry.version <= 2))


def tile_nvfp4(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Make codes and both kinds of scales of an NVFP4 layout fit."""
    shape = _shape(draw, 16)
    if values.get("is_swizzled_scales"):
        shape = shape[-2:]
    codes = TensorSpec(DType.UINT8, (*shape[:-1], shape[-1] // 2))
    values["data" if entry.version == 1 else "qdata"] = codes
    values["block_size"] = 16
    values["dtype"] = DType(draw(st.sampled_from(_SHOWN)))
    flat = entry.version <= 2 and bool(values.get("is_swizzled_scales"))
    name = "scale_e4m3" if entry.version <= 2 else "scale"
    values[name] = TensorSpec(DType.FLOAT8_E4M3FN, _scale(shape, 16, values, flat=flat))
    if values.get("per_tensor_scale") is not None:
        each = draw(st.sampled_from([(), (*shape[:-2], 1, 1)]))
        values["per_tensor_scale"] = TensorSpec(DType.FLOAT32, each)
    if values.get("act_per_tensor_scale") is not None:
        values["act_per_tensor_scale"] = TensorSpec(DType.FLOAT32, ())


def _shape(draw: Draw, block: int) -> tuple[int, ...]:
    leading = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    return (*leading, block * draw(st.integers(1, 3)))


def _scale(
    shape: tuple[int, ...], block: int, values: dict[str, Any], *, flat: bool
) -> tuple[int, ...]:
    found = (*shape[:-1], shape[-1] // block)
    if values.get("is_swizzled_scales"):
        found = swizzled_shape(shape, block)
    total = 1
    for size in found:
        total *= size
    return (total,) if flat else found
