"""Steps that work on some rows at a time give what they give of the whole."""

from collections.abc import Callable

import pytest
import torch

from qconfig.codec import tensor_parts
from qconfig.codec.dtypes import DType
from qconfig.codec.layout_values import present_fields, wrapped
from qconfig.migrations.floatx_tensor_layout import FloatxTensorLayoutV1
from qconfig.migrations.int4_tile_packed_to4d_tensor_layout import Int4TilePackedTo4dTensorLayoutV2
from qconfig.migrations.uintx_tensor_layout import UintxTensorLayoutV1
from qconfig.versioning import Layout, registry

ROWS, COLUMNS = 256, 128


def random(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Return random whole numbers of a type."""
    bounds = torch.iinfo(dtype)
    generator = torch.Generator().manual_seed(7)
    values = torch.randint(bounds.min, bounds.max + 1, shape, generator=generator)
    return values.to(dtype)


def floatx() -> Layout:
    """Return codes of 6 bits in the order of tensor cores."""
    codes = random(torch.uint8, ROWS, COLUMNS * 6 // 8)
    return FloatxTensorLayoutV1(codes, torch.ones(ROWS), 3, 2, DType.BFLOAT16)


def uintx(dim: int) -> Layout:
    """Return codes of 7 bits that share their bytes along a dimension."""
    shards = {}
    for width in (4, 2, 1):
        shape = [ROWS, COLUMNS]
        shape[dim] = shape[dim] * width // 8
        shards[f"int{width}_shard"] = random(torch.uint8, *shape)
    scale = torch.ones(ROWS)
    block, dtype = (1, COLUMNS), DType.FLOAT32
    return UintxTensorLayoutV1(scale, (ROWS, COLUMNS), 7, block, dtype, pack_dim=dim, **shards)


def tiles(rows: int, order: str, *, transposed: bool = False) -> Layout:
    """Return codes as fragments of a GPU, of as many rows or more."""
    shape, block = (rows, COLUMNS), (1, 32)
    return Int4TilePackedTo4dTensorLayoutV2(
        random(torch.int32, ROWS // 8, 8, 32, 1),
        torch.ones(COLUMNS // 32, ROWS, 2, dtype=torch.bfloat16),
        block[::-1] if transposed else block,
        shape[::-1] if transposed else shape,
        DType.BFLOAT16,
        transposed=transposed,
        gpu_order=order,
    )


CASES: dict[str, Callable[[], Layout]] = {
    "floatx": floatx,
    "uintx along rows": lambda: uintx(-1),
    "uintx along columns": lambda: uintx(0),
    "tiles": lambda: tiles(ROWS, "cuda"),
    "tiles of another maker": lambda: tiles(ROWS, "rocm"),
    "tiles with padding": lambda: tiles(ROWS - 6, "cuda"),
    "tiles of another maker with padding": lambda: tiles(ROWS - 10, "rocm"),
    "tiles, transposed": lambda: tiles(ROWS, "cuda", transposed=True),
    "tiles with padding, transposed": lambda: tiles(ROWS - 6, "cuda", transposed=True),
}


def upgraded(layout: Layout) -> dict[str, torch.Tensor]:
    """Return the tensors of today's layout."""
    current = registry.convert(wrapped(layout))
    return {name: getattr(current, name).load() for name in present_fields(current)}


@pytest.mark.parametrize("name", CASES)
def test_parts_are_those_of_the_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit, in many parts and in one."""
    layout = CASES[name]()
    whole = upgraded(layout)
    monkeypatch.setattr(tensor_parts, "PART_BYTES", 1000)
    parts = upgraded(layout)
    assert whole.keys() == parts.keys()
    for field, tensor in whole.items():
        assert torch.equal(tensor, parts[field])
