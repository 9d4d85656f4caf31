"""Make the fields of uintx, NF4 and floatx layouts that strategies draw fit each other."""

from collections.abc import Callable
from math import prod
from typing import Any

import attrs
from hypothesis import strategies as st

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec
from qconfig.layouts.uintx import UintxZeroPointDomain
from qconfig.versioning import Entry

Draw = Callable[[Any], Any]
_SHOWN = st.sampled_from(["float16", "bfloat16", "float32", "float64"]).map(DType)


def tile_uintx(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Make codes, blocks, scales and zero points of a uintx layout fit."""
    shape = values["qdata"].shape if entry.version > 1 else _shards(draw, values)
    block = [draw(st.sampled_from([b for b in range(1, n + 1) if n % b == 0])) for n in shape]
    values["block_size"], values["dtype"] = tuple(block), draw(_SHOWN)
    blocks = tuple(n // b for n, b in zip(shape, block, strict=True))
    if entry.version == 1 and draw(st.booleans()):
        blocks = tuple(n for n in blocks if n != 1)
    for name in ("scale", "zero_point"):
        if values.get(name) is not None:
            values[name] = attrs.evolve(values[name], shape=blocks)
    if values.get("zero_point_domain") is UintxZeroPointDomain.FLOAT and "zero_point" in values:
        values["zero_point"] = attrs.evolve(values["zero_point"], dtype=draw(_SHOWN))
    if values.get("act_pre_scale") is not None:
        values["act_pre_scale"] = attrs.evolve(values["act_pre_scale"], shape=shape[-1:])


def _shards(draw: Draw, values: dict[str, Any]) -> tuple[int, ...]:
    sizes = [draw(st.integers(1, 3)) for _ in range(draw(st.integers(2, 3)))]
    dim = values.get("pack_dim", -1)
    dim = dim if -len(sizes) <= dim < len(sizes) else -1
    if "pack_dim" in values:
        values["pack_dim"] = dim
    for bits in (4, 2, 1):
        values.pop(f"int{bits}_shard", None)
        if values["bit_width"] & bits:
            shard = [bits * n if i == dim % len(sizes) else n for i, n in enumerate(sizes)]
            values[f"int{bits}_shard"] = TensorSpec(DType.UINT8, tuple(shard))
    sizes[dim] *= 8
    values["packed_shape"] = tuple(sizes)
    return tuple(sizes)


def tile_nf4(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Make codes, scales and divisors of an NF4 layout fit."""
    block, group, groups = (draw(st.integers(1, 4)) for _ in range(3))
    shape = (2 * groups, block * group)
    values["block_size"], values["scaler_block_size"] = block, group
    values["shape"], values["dtype"] = shape, draw(_SHOWN)
    sizes = {
        "quantized_data": prod(shape) // 2,
        "quantized_scalers": prod(shape) // block,
        "quantization_factor": prod(shape) // block // group,
    }
    for name, size in sizes.items():
        values[name] = attrs.evolve(values[name], shape=(size,))


def tile_floatx(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Make bits, codes and scales of a floatx layout fit."""
    values["ebits"] = draw(st.integers(1, 6))
    values["mbits"] = draw(st.integers(0, 6 - values["ebits"]))
    values["dtype"] = draw(_SHOWN)
    if entry.version == 1:
        rows, columns = (64 * draw(st.integers(1, 2)) for _ in range(2))
        bits = 1 + values["ebits"] + values["mbits"]
        values["packed_floatx_data"] = TensorSpec(DType.UINT8, (rows, columns * bits // 8))
        values["scale"] = attrs.evolve(values["scale"], shape=(rows,))
        return
    shape = values["qdata"].shape
    scale = tuple(draw(st.sampled_from([1, n])) for n in shape)
    values["scale"] = attrs.evolve(values["scale"], shape=scale)
