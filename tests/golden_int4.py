"""What int4 codes in kernels' orders and stored blocks mean, element by element.

The places of codes are those of the kernels' own loops; the library moves whole dimensions.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from qconfig.codec import strict_json

Document = dict[str, Any]
Tensors = dict[str, torch.Tensor]
Place = tuple[int, int]

_CPU_TILES = {"avx512": 64, "avx2": 32, "pairs_64": 64, "pairs_32": 32, "pairs_16": 16}
_FACTORS = ("bias", "act_pre_scale")


def give_sense(tensors: Tensors) -> None:
    """Replace elements that have to be indices, or words of many different codes."""
    for name in ("packed_weight", "qdata"):
        if name in tensors and tensors[name].dtype == torch.int32:
            words = torch.arange(tensors[name].numel(), dtype=torch.int64) * 0x9E3779B1 % 2**32
            words = torch.where(words < 2**31, words, words - 2**32)
            tensors[name] = words.to(torch.int32).view(tensors[name].shape)
    if "bsr_values" in tensors:
        starts, places = tensors["bsr_crow_indices"], tensors["bsr_col_indices"]
        rows, stored = len(starts) - 1, len(places)
        starts.copy_(torch.tensor([i * stored // rows for i in range(rows + 1)]))
        for first, stop in zip(starts.tolist(), starts.tolist()[1:], strict=False):
            places[first:stop] = torch.arange(stop - first)


def is_rearranged(case: Path) -> bool:
    """Say if the layout of a golden document is one of those here."""
    return strict_json.loads(case.read_bytes())["type"] in _KINDS


def today(case: Path, tensors: Tensors) -> dict[str, Any]:
    """Return the elements of all tensors as the current layout has to hold them, as lists.

    Args:
        case: golden document of the layout.
        tensors: its inner tensors by field, and others beside them.
    """
    document = strict_json.loads(case.read_bytes())
    rest = {name: tensors[name].tolist() for name in _FACTORS if name in tensors}
    rest |= {name: t.tolist() for name, t in tensors.items() if name.startswith("layer.")}
    return _KINDS[document["type"]](document, tensors) | rest


def cpu_places(rows: int, columns: int, order: str) -> Iterator[list[Place]]:
    """Yield row and column of both codes of each byte of the CPU kernel, the low half first.

    Args:
        rows: N.
        columns: K.
        order: avx512, avx2, pairs_64, pairs_32 or pairs_16.
    """
    size = _CPU_TILES[order]
    for start in range(0, rows, size):
        count = min(size, rows - start)
        for k in range(columns):
            for d in range(count // 2):
                pair = (2 * d, 2 * d + 1)
                if count == size and order in {"avx512", "avx2"}:
                    pair = (d, d + size // 2)
                yield [(start + row, k) for row in pair]


def gpu_places(rows: int, columns: int, tiles: int, order: str) -> Iterator[list[Place]]:
    """Yield row and column of the eight codes of each word of the GPU kernel, low bits first.

    Args:
        rows: N with padding, a multiple of 8, or of 16 for rocm.
        columns: K with padding, a multiple of 16 * tiles.
        tiles: inner_k_tiles, 2, 4 or 8.
        order: cuda or rocm.
    """
    lanes, high = (64, 16) if order == "rocm" else (32, 8)
    for top in range(0, rows, high):
        for left in range(0, columns, 16 * tiles):
            for lane in range(lanes):
                for inner in range(0, tiles, 2):
                    even = []
                    for i in range(4):
                        base = left + 16 * (inner + i // 2)
                        if order == "rocm":
                            even.append((top + lane % 16, base + 4 * (lane // 16) + 2 * (i % 2)))
                        else:
                            even.append((top + lane // 4, base + 2 * (lane % 4) + 8 * (i % 2)))
                    yield even + [(row, column + 1) for row, column in even]


def codes_at(places: Iterator[list[Place]], stored: torch.Tensor) -> dict[Place, int]:
    """Return all codes by row and column.

    Args:
        places: of the codes in each unit.
        stored: the units, bytes or words.
    """
    units = zip(places, stored.flatten().tolist(), strict=True)
    return {place: unit >> 4 * i & 15 for at, unit in units for i, place in enumerate(at)}


def _tinygemm(document: Document, tensors: Tensors) -> dict[str, Any]:
    """Return signed pairs, scales and zero points of codes in the order of a tinygemm kernel."""
    packed = tensors["packed_weight" if document["version"] == 1 else "qdata"]
    shape: Any = document.get("shape")
    block = document["block_size"]
    transposed = document["transposed"]
    if packed.dim() == 4:
        outer, inner = packed.shape[1], packed.shape[3]
        tiles = 2 * inner
        padded = (8 * packed.shape[0], 16 * tiles * outer)
        rows, columns = shape[::-1] if transposed else shape
        codes = codes_at(gpu_places(*padded, tiles, document["gpu_order"]), packed)
    else:
        rows, columns = packed.shape[0], 2 * packed.shape[1]
        codes = codes_at(cpu_places(rows, columns, document["cpu_order"]), packed)
    group = min(max(block), columns)
    size = next(n for n in range(group, 0, -1) if group % n == 0 and columns % n == 0)
    signed = [[codes[n, k] - 8 for k in range(columns)] for n in range(rows)]
    bytes_ = [[_byte(row[k], row[k + 1]) for k in range(0, columns, 2)] for row in signed]
    pairs = tensors["scale_and_zero"]
    parts: list[Any] = [
        [[pairs[k // group, n, i].item() for n in range(rows)] for k in range(0, columns, size)]
        for i in (0, 1)
    ]
    if transposed:
        bytes_, *parts = (
            [list(row) for row in zip(*part, strict=True)] for part in (bytes_, *parts)
        )
    return {"qdata": bytes_, "scale": parts[0], "zero_point": parts[1]}


def _byte(low: int, high: int) -> int:
    value = (low & 15) | (high & 15) << 4
    return value - 256 if value > 127 else value


def _words(document: Document, tensors: Tensors) -> dict[str, Any]:
    """Return codes, scales and zero points of eight codes a word."""
    packed = tensors["packed_weight" if document["version"] == 1 else "qdata"]
    codes = [[word >> 4 * i & 15 for word in row for i in range(8)] for row in packed.tolist()]
    if "scale_and_zero" in tensors:
        scale, zero = tensors["scale_and_zero"].unbind(-1)
    else:
        scale, zero = tensors["scale"], tensors["zero" if "zero" in tensors else "zero_point"]
    return {"qdata": codes, "scale": scale.t().tolist(), "zero_point": zero.t().tolist()}


def _halves(document: Document, tensors: Tensors) -> dict[str, Any]:
    """Return codes and scales of two signed codes a byte."""
    nibbles = [[b >> s & 15 for b in row for s in (0, 4)] for row in tensors["int_data"].tolist()]
    codes = [[n - 16 if n > 7 else n for n in row] for row in nibbles]
    return {"qdata": codes, "scale": tensors["scale"].view(-1, 1).tolist()}


def _blocks(document: Document, tensors: Tensors) -> dict[str, Any]:
    """Return codes, scales and zero points of stored blocks."""
    starts, places = (tensors[f"bsr_{n}_indices"].tolist() for n in ("crow", "col"))
    _, height, width = tensors["bsr_values"].shape
    dense = torch.zeros(document["shape"], dtype=torch.int8)
    for i in range(len(starts) - 1):
        for stored in range(starts[i], starts[i + 1]):
            rows, left = slice(i * height, (i + 1) * height), places[stored] * width
            dense[rows, left : left + width] = tensors["bsr_values"][stored]
    fields = {"qdata": dense.tolist()}
    for name in ("scale", "zero_point"):
        if name in tensors:
            fields[name] = tensors[name].view(-1, 1).tolist()
    return fields


_KINDS: dict[str, Callable[[Document, Tensors], dict[str, Any]]] = {
    "BlockSparseTensorLayout": _blocks,
    "CutlassInt4PackedTensorLayout": _halves,
    "Int4OpaqueTensorLayout": _tinygemm,
    "Int4PlainInt32TensorLayout": _words,
    "Int4TilePackedTo4dTensorLayout": _tinygemm,
}
