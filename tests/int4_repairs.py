"""How to make random fields of retired int4 and sparse layouts fit each other."""

from collections.abc import Callable
from typing import Any

import attrs
from hypothesis import strategies as st

from qconfig.codec.dtypes import DType
from qconfig.versioning import Entry

Draw = Callable[[Any], Any]

_SHOWN = st.sampled_from([DType(f) for f in ("float16", "bfloat16", "float32", "float64")])


def _reshape(values: dict[str, Any], **shapes: tuple[int, ...]) -> None:
    """Give tensors that are there other shapes."""
    for name, shape in shapes.items():
        if values.get(name) is not None:
            values[name] = attrs.evolve(values[name], shape=shape)


def pack_for_cpu(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Give rows by sixteen, and no weights of the kernel that is refused."""
    rows, columns = draw(st.sampled_from([16, 32])), draw(st.sampled_from([2, 4, 8]))
    group = draw(st.sampled_from([1, 2, columns]))
    shape, block = (rows, columns), (1, group)
    if values.get("transposed"):
        shape, block = shape[::-1], block[::-1]
    values["dtype"], values["block_size"] = draw(_SHOWN), block
    name = "packed_weight" if entry.version == 1 else "qdata"
    _reshape(
        values,
        **{name: (rows, columns // 2)},
        scale_and_zero=(columns // group, rows, 2),
        act_pre_scale=shape[-1:],
    )
    if entry.version > 1:
        values["shape"] = shape
    if entry.version > 2:
        values["qdata"] = attrs.evolve(values["qdata"], dtype=DType.UINT8)
        for name in ("qzeros", "compensation", "act_mapping_type"):
            values.pop(name, None)


def pack_for_gpu(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Give whole tiles with a padding, and groups that may end in it."""
    rows, columns = draw(st.integers(1, 16)), 2 * draw(st.integers(1, 32))
    inner = draw(st.sampled_from([1, 2, 4]))
    outer = -(-columns // (32 * inner))
    group = draw(st.sampled_from([16, 32]))
    shape, block = (rows, columns), (1, group)
    if values.get("transposed"):
        shape, block = shape[::-1], block[::-1]
    values["dtype"], values["block_size"], values["shape"] = draw(_SHOWN), block, shape
    name = "packed_weight" if entry.version == 1 else "qdata"
    _reshape(
        values,
        **{name: (2, outer, 32, inner)},
        scale_and_zero=(outer * 32 * inner // group, 16, 2),
        act_pre_scale=shape[-1:],
    )


def pack_words(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Give words of eight codes, one kind of scales, and zero points that are known."""
    first = "packed_weight" if entry.version == 1 else "qdata"
    rows, words = values[first].shape[-2:]
    columns, group = 8 * words, draw(st.sampled_from([1, 2, 4, 8]))
    values["dtype"], values["block_size"] = draw(_SHOWN), (1, group)
    groups = (columns // group, rows)
    _reshape(
        values,
        **{first: (rows, words)},
        scale_and_zero=(*groups, 2),
        scale=groups,
        zero=groups,
        zero_point=groups,
        act_pre_scale=(columns,),
    )
    if entry.version > 1:
        values["shape"] = (rows, columns)
        is_float = DType.parse(values["zero_point"].dtype).is_float
        values["zero_point_domain"] = "FLOAT" if is_float else "INT"
    elif values.get("scale_and_zero") is not None:
        values.pop("scale", None)
        values.pop("zero", None)


def pack_halves(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Give one scale a row."""
    rows, half = values["int_data"].shape
    values["dtype"], values["block_size"] = draw(_SHOWN), (1, 2 * half)
    _reshape(values, scale=draw(st.sampled_from([(rows,), (rows, 1)])))


def store_blocks(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Give as many rows of blocks as there are numbers for, and one scale a row."""
    _, height, width = values["bsr_values"].shape
    rows, across = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    stored, shape = draw(st.integers(1, rows * across)), (rows * height, across * width)
    values["shape"], values["dtype"] = shape, draw(_SHOWN)
    values["block_size"] = (1, shape[1])
    _reshape(
        values,
        bsr_values=(stored, height, width),
        bsr_crow_indices=(rows + 1,),
        bsr_col_indices=(stored,),
        scale=shape[:1],
        zero_point=shape[:1],
    )


INT4_REPAIRS: dict[str, Callable[[Draw, Entry, dict[str, Any]], None]] = {
    "BlockSparseTensorLayout": store_blocks,
    "CutlassInt4PackedTensorLayout": pack_halves,
    "Int4OpaqueTensorLayout": pack_for_cpu,
    "Int4PlainInt32TensorLayout": pack_words,
    "Int4TilePackedTo4dTensorLayout": pack_for_gpu,
}
