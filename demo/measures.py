"""What is measured of weights: sizes, and the noise that quantization adds."""

import re
from math import log10, prod
from typing import Any

import torch

from qconfig import Int8Tensor

# Weights of one encoder layer, and the columns under which the table shows them.
_COLUMNS = {
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "attention out",
    "intermediate.dense": "mlp up",
    "output.dense": "mlp down",
}
_WEIGHT = re.compile(r"encoder\.layer\.(\d+)\.(.+)\.weight")


def sqnr_db(original: torch.Tensor, quantized: torch.Tensor) -> float:
    """Return the signal-to-quantization-noise ratio in dB: 10 log10(sum w^2 / sum (w - q)^2)."""
    signal = original.double()
    noise = signal - quantized.double()
    return 10 * log10(float(signal.square().sum()) / float(noise.square().sum()))


def sqnr_of_all(
    original: dict[str, torch.Tensor], loaded: dict[str, torch.Tensor]
) -> dict[str, float]:
    """Return the SQNR of every quantized weight, dequantized, against the float weight, in dB."""
    return {
        name: sqnr_db(original[name], tensor.dequantize())
        for name, tensor in loaded.items()
        if isinstance(tensor, Int8Tensor)
    }


def sqnr_table(ratios: dict[str, float]) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of a table with one row an encoder layer."""
    rows: dict[str, dict[str, str]] = {}
    for name, ratio in ratios.items():
        found = _WEIGHT.fullmatch(name)
        layer, part = found.groups() if found else (name, "")
        rows.setdefault(layer, {})[part] = f"{ratio:.2f}"
    body = [[key, *(row.get(part, "") for part in _COLUMNS)] for key, row in sorted(rows.items())]
    return ["layer", *_COLUMNS.values()], body


def size_rows(before: Any, after: Any) -> list[list[str]]:
    """Return rows of megabytes and bits per weight, from what `inspect_checkpoint` found."""
    old = {t.fqn: t for t in before.tensors}
    quantized = [t for t in after.tensors if t.layout is not None]
    embeddings = [t for t in after.tensors if t.fqn.startswith("embeddings.")]
    rest = [t for t in after.tensors if t not in quantized and t not in embeddings]
    parts = {
        "attention and MLP weights": quantized,
        "embeddings": embeddings,
        "biases, norms, pooler": rest,
        "all": list(after.tensors),
    }
    rows = []
    for title, tensors in parts.items():
        count = sum(prod(t.shape) for t in tensors)
        sizes = [sum(old[t.fqn].bytes for t in tensors), sum(t.bytes for t in tensors)]
        cells = [f"{size / 1e6:.2f}" for size in sizes]
        rows.append([title, f"{count:,}", *cells, *(f"{8 * size / count:.2f}" for size in sizes)])
    return rows


def unequal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> list[str]:
    """Return the names whose codes or scales differ by a single bit, or that one side lacks."""
    names = {n for d in (first, second) for n, t in d.items() if isinstance(t, Int8Tensor)}
    return sorted(n for n in names if not _same_bits(first.get(n), second.get(n)))


def _same_bits(first: Any, second: Any) -> bool:
    if not isinstance(first, Int8Tensor) or not isinstance(second, Int8Tensor):
        return False
    return first.block_size == second.block_size and all(
        a.dtype == b.dtype and torch.equal(a.view(torch.uint8), b.view(torch.uint8))
        for a, b in ((first.qdata, second.qdata), (first.scale, second.scale))
    )
