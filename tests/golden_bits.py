"""Codes that lie in shards or in the order of tensor cores, read bit by bit."""

from itertools import product
from typing import Any

import torch

_LANE_WORD = 32


def shard_width(name: str) -> int:
    """Return the bits of a shard by its name, int4_shard; 0 for what is none."""
    return int(name[3]) if name.endswith("_shard") else 0


def shard_codes(document: dict[str, Any], name: str, shard: torch.Tensor) -> torch.Tensor:
    """Return the bits that a shard has of each code, at their place in the code."""
    width, shape = shard_width(name), tuple(document["packed_shape"])
    dim = document.get("pack_dim", -1) % len(shape)
    length = shape[dim] * width // 8
    result = torch.zeros(shape, dtype=torch.int64)
    for index in product(*map(range, shape)):
        place, byte = divmod(index[dim], length)
        bits = int(shard[(*index[:dim], byte, *index[dim + 1 :])]) >> (place * width)
        result[index] = bits % 2**width << shard_shift(document, name)
    return result.flatten()


def shard_shift(document: dict[str, Any], name: str) -> int:
    """Return where in a code the bits of a shard begin: those of wider shards come before."""
    return sum(w for w in (4, 2, 1) if w > shard_width(name) and document["bit_width"] & w)


def shard_part(document: dict[str, Any], name: str, codes: torch.Tensor) -> torch.Tensor:
    """Return the bits of whole codes that a shard has."""
    mask = (2 ** shard_width(name) - 1) << shard_shift(document, name)
    return codes & mask


def tensor_core_codes(document: dict[str, Any], packed: torch.Tensor) -> torch.Tensor:
    """Return codes of FP6-LLM's order, element by element."""
    bits = 1 + document["ebits"] + document["mbits"]
    rows, columns = packed.shape[0], packed.shape[1] * 8 // bits
    stored = packed.flatten().tolist()
    result = torch.zeros((rows, columns), dtype=torch.int64)
    for row, column in product(range(rows), range(columns)):
        start, code = 0, 0
        for width in (w for w in (1, 2, 4) if bits & w):
            code = code << width | _part(stored[start:], row, column, columns, width)
            start += rows * columns * width // 8
        result[row, column] = code
    return result.flatten()


def _part(stored: list[int], row: int, column: int, columns: int, width: int) -> int:
    lane = row % 8 * 4 + column % 8 // 2
    tile = row // 64 * (columns // 16) + column // 16
    inside = (row % 64 // 16 * 2 + column % 16 // 8) * 2 + row % 16 // 8
    word, place = divmod((tile * 16 + inside) * 2 + column % 2, _LANE_WORD // width)
    first = (word * 32 + lane) * 4
    value = int.from_bytes(bytes(stored[first : first + 4]), "little")
    per_quarter = _LANE_WORD // width // 4
    from_high = (2, 0, 3, 1)[place % 4] * per_quarter + place // 4
    return value >> (_LANE_WORD - width * (from_high + 1)) & (2**width - 1)
