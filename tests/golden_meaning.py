"""What bytes of retired layouts mean today, read bit by bit and without the library's steps."""

from pathlib import Path

import torch

from qconfig.codec import strict_json
from tests import golden_bits

RENAMED = {
    "int_data": "qdata",
    "float8_data": "qdata",
    "data": "qdata",
    "packed_weight": "qdata",
    "scale_e8m0": "scale",
    "scale_e4m3": "scale",
    "int4_shard": "qdata",
    "int2_shard": "qdata",
    "int1_shard": "qdata",
    "packed_floatx_data": "qdata",
    "value_": "value",
    "scale_": "scale",
    "zero_point_": "zero_point",
}


def today(case: Path, name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Return an inner tensor as the current layout has to hold it, in one row.

    Args:
        case: golden document of the layout.
        name: field of the tensor, as the document names it.
        tensor: its elements.
    """
    document = strict_json.loads(case.read_bytes())
    kind, version = document["type"], document["version"]
    flat = tensor.flatten()
    if golden_bits.shard_width(name):
        return golden_bits.shard_codes(document, name, tensor)
    if name == "packed_floatx_data":
        return golden_bits.tensor_core_codes(document, tensor)
    if kind == "MXTensorLayout" and name == "scale_e8m0":
        return flat.view(torch.uint8).view(torch.float8_e8m0fnu)
    first_is_high = (kind == "NVFP4TensorLayout" and version <= 2) or (
        kind == "MXTensorLayout" and version <= 3 and "fp4" in _element(document)
    )
    if name in ("data", "qdata") and first_is_high:
        return torch.tensor([b % 16 * 16 + b // 16 for b in flat.tolist()])
    if name in ("data", "qdata") and document.get("pack_fp6") and "fp6" in _element(document):
        return torch.tensor([c for g in flat.view(-1, 3).tolist() for c in _four_codes(*g)])
    return flat


def part_of(case: Path, name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Return what a retired field holds of a current inner tensor: of codes, a shard some bits."""
    if not golden_bits.shard_width(name):
        return tensor
    return golden_bits.shard_part(strict_json.loads(case.read_bytes()), name, tensor)


def _element(document: dict) -> str:
    return document["elem_dtype"].replace("float4", "fp4")


def _four_codes(first: int, second: int, low: int) -> tuple[int, int, int, int]:
    """Return four codes of 6 bits; their low bits lie in the third byte, in the order 1 2 4 3."""
    return (
        first // 16 * 4 + low // 64,
        first % 16 * 4 + low // 16 % 4,
        second % 16 * 4 + low % 4,
        second // 16 * 4 + low // 4 % 4,
    )
