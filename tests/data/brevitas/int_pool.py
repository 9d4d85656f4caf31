"""Integer quant tensors that the cases name."""

from typing import Any

import torch

from tests.data.brevitas.rows import iq, numbered

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}
WIDTHS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16)


def _extremes(bits: int, *, signed: bool) -> list[float]:
    low = -(2 ** (bits - 1)) if signed else 0
    high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
    return [float(low), float(high)] if bits == 1 else [float(low), 0.0, 1.0, float(high)]


POOL: dict[str, Any] = {
    "a": iq([[2, -4], [6, 9]], 0.5),
    "b": iq([[1, 2], [-3, 4]], 0.5),
    "d4": iq([[1, -2], [3, -8]], 0.5, bits=4),
    "qt": iq([[3, -1], [5, 7]], 0.25),
    "u": iq([[0, 4], [8, 255]], 0.5, signed=False),
    "u4": iq([[0, 4], [8, 15]], 0.5, bits=4, signed=False),
    "v": iq([[1, 2], [3, 4]], 0.5, signed=False),
    "z": iq([[2, 4], [6, 255]], 0.5, 2.0, signed=False),
    "z3": iq([[0, 3], [5, 7]], 0.5, 3.0, signed=False),
    "zs": iq([[-128, 4], [6, 127]], 0.5, -5.0),
    "zs4": iq([[-8, 7], [1, 0]], 0.5, 2.0, bits=4),
    "p0": iq([[2, -4], [6, 9]], [[0.5], [0.25]]),
    "p0b": iq([[1, 2], [-3, 4]], [[0.5], [0.25]]),
    "p0c": iq([[1, 2], [-3, 4]], [[0.125], [2.0]]),
    "p1": iq([[2, -4], [6, 9]], [[0.5, 0.25]]),
    "pv": iq([[2, -4], [6, 9]], [0.5, 0.25]),
    "pz": iq([[2, 4], [6, 9]], [[0.5], [0.25]], [[1.0], [3.0]], signed=False),
    "pz0": iq([[2, 4], [6, 9]], 0.5, [[1.0], [3.0]], signed=False),
    "r1": iq([[2, -4], [6, 9]], [0.5]),
    "r2": iq([[2, -4], [6, 9]], [[0.5]], [[1.0]]),
    "at": iq([[2, -4], [6, 9]], 0.5, training=True),
    "bt": iq([[3, -1], [5, 7]], 0.25, training=True),
    "lb": iq([[1, -2], [3, 2]], 0.5, bits=3.7),
    "lb1": iq([[1, -2], [3, 2]], 0.5, bits=[4.0]),
    "s0": iq(3, 0.5),
    "s1": iq([3], 0.5),
    "s1z": iq([3], 0.5, 1.0),
    "e0": iq(torch.zeros(0, 3).tolist(), 0.5),
    "vec": iq([1, -2, 3, 4], 0.25),
    "c3": iq(numbered((2, 3, 2)), 0.5),
    "c4": iq(numbered((2, 4, 2)), 0.5),
    "c3p": iq(numbered((2, 3, 2)), [[[0.5], [0.25], [1.0]]]),
    "c3p0": iq(numbered((2, 3, 2)), [[[0.5]], [[0.25]]]),
    "seq": iq(numbered((1, 2, 6)), 0.5),
    "seqp": iq(numbered((1, 2, 6)), [[[0.5], [0.25]]]),
    "img": iq(numbered((1, 2, 4, 4)), 0.5),
    "ims": iq(numbered((1, 2, 2, 2)), 0.5),
    "imgu": iq(numbered((1, 2, 4, 4), 16, 0), 0.25, bits=4, signed=False),
    "imgp": iq(numbered((1, 2, 4, 4)), [[[[0.5]], [[0.25]]]]),
    "imgz": iq(numbered((1, 2, 4, 4), 16, 0), 0.5, 3.0, signed=False),
    "imgl": iq(numbered((1, 2, 4, 4), 4, 0), 0.5, 9.0, bits=4, signed=False),
    "img4": iq(numbered((1, 4, 2, 2)), 0.5),
    "img4p": iq(numbered((1, 4, 2, 2)), [[[[0.5]], [[0.25]], [[1.0]], [[2.0]]]]),
    "imgb": iq(numbered((2, 1, 5, 5)), 0.5),
    "vol": iq(numbered((1, 1, 2, 4, 4)), 0.5),
    "off": iq([[1, 3], [-2, 10]], 0.7),
    "w": iq([[2, -4], [6, 1], [0, 4]], 0.25, bits=4),
    "wp": iq([[2, -4], [6, 1], [0, 4]], [[0.25], [0.5], [1.0]], bits=4),
    "wz": iq([[2, -4], [6, 1], [0, 4]], 0.25, 1.0, bits=4),
    "wu": iq([[2, 4], [6, 1], [0, 15]], 0.25, bits=4, signed=False),
    "bacc": iq([3, -5, 10], 0.125, bits=16),
    "bacc32": iq([3, -5, 1000], 0.125, bits=32),
    "baccp": iq([3, -5, 10], [0.125, 0.25, 0.5], bits=16),
    "both": iq([3, -5, 10], 0.5, bits=8),
    "k1": iq(numbered((3, 2, 3), 7, 3), 0.25, bits=4),
    "k1t": iq(numbered((2, 3, 3), 7, 3), 0.25, bits=4),
    "k1p": iq(numbered((3, 2, 3), 7, 3), [[[0.25]], [[0.5]], [[1.0]]], bits=4),
    "k2": iq(numbered((3, 2, 2, 2), 7, 3), 0.25, bits=4),
    "k2p": iq(numbered((3, 2, 2, 2), 7, 3), [[[[0.25]]], [[[0.5]]], [[[1.0]]]], bits=4),
    "k2g": iq(numbered((4, 1, 2, 2), 7, 3), 0.25, bits=4),
    "k2z": iq(numbered((3, 2, 2, 2), 7, 0), 0.25, 2.0, bits=4),
    "k2t": iq(numbered((2, 3, 2, 2), 7, 3), 0.25, bits=4),
    "k2tp": iq(numbered((2, 3, 2, 2), 7, 3), [[[[0.25]], [[0.5]], [[1.0]]]], bits=4),
    "k3": iq(numbered((2, 1, 2, 2, 2), 7, 3), 0.25, bits=4),
    "k3t": iq(numbered((1, 2, 2, 2, 2), 7, 3), 0.25, bits=4),
    "wv": iq([[1, -2, 3, 4], [0, 7, -8, 1]], 0.5, bits=4),
    "emb": iq([[1, -2], [3, 4], [-5, 6]], 0.25),
    "embz": iq([[1, 2], [3, 4], [5, 6]], 0.25, 2.0, signed=False),
    "t": torch.tensor([[0.25, 1.0], [-1.0, 3.0]]),
    "f3": torch.tensor([1.0, 2.0, 0.5]),
    "ids": torch.tensor([[1, 0], [2, 2]]),
    "row": torch.tensor([[0.5, -1.5]]),
}
for _name, _dtype in DTYPES.items():
    POOL[f"a_{_name}"] = iq([[2, -4], [6, 9]], 0.5, dtype=_dtype)
    POOL[f"b_{_name}"] = iq([[1, 2], [-3, 4]], 0.5, dtype=_dtype)
    POOL[f"p_{_name}"] = iq([[2, -4], [6, 9]], [[0.5], [0.25]], dtype=_dtype)
for _bits in WIDTHS:
    POOL[f"n{_bits}s"] = iq(_extremes(_bits, signed=True), 0.5, bits=float(_bits))
    POOL[f"n{_bits}u"] = iq(_extremes(_bits, signed=False), 0.5, bits=float(_bits), signed=False)
