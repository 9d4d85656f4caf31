"""Weight-only int8 linear against torch's raw kernel, torchao and plain weights.

Run `python tests/benchmarks/bench_int8_linear.py [--torchao] [--compiled]`. It prints a table of
median milliseconds for a 4096 x 4096 weight with one scale a row.
"""

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from qconfig.tensors import Int8Tensor

SIZE = 4096


def median_ms(function: Callable[[], Any], repeats: int) -> float:
    """Return the median time of a call in milliseconds, after one call to warm up."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torchao", action="store_true", help="measure torchao's eager path too")
    parser.add_argument("--compiled", action="store_true", help="measure both compiled as well")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    qdata = torch.randint(-128, 128, (SIZE, SIZE), dtype=torch.int8)
    scale = torch.rand(SIZE, 1) * 1e-3 + 1e-4
    linear = torch.nn.functional.linear
    names = ["raw kernel", "qconfig", "plain"]
    if options.torchao:
        names.append("torchao")
    if options.compiled:
        names += ["qconfig compiled", *(["torchao compiled"] if options.torchao else [])]
    print("| dtype | M | " + " | ".join(names) + " | qconfig / raw |")
    print("|---" * (len(names) + 3) + "|")
    compiled = torch.compile(linear, dynamic=True)
    for dtype in (torch.bfloat16, torch.float32):
        weight = Int8Tensor(qdata, scale, (1, SIZE), dtype)
        plain = weight.dequantize()
        theirs = _torchao(qdata, scale, dtype) if options.torchao else None
        cast = scale.flatten().to(dtype)
        for rows in (1, 16, 64, 256):
            x = torch.randn(rows, SIZE, dtype=dtype)
            slow = dtype == torch.float32 and rows > 16
            repeats = 15 if rows == 1 else 5
            calls: dict[str, Callable[[], Any] | None] = {
                "raw kernel": None
                if slow
                else lambda x=x, c=cast: torch._weight_int8pack_mm(x, qdata, c),  # type: ignore[misc]
                "qconfig": lambda x=x, w=weight: linear(x, w),  # type: ignore[misc]
                "plain": lambda x=x, w=plain: linear(x, w),  # type: ignore[misc]
                "torchao": lambda x=x, w=theirs: linear(x, w),  # type: ignore[misc]
                "qconfig compiled": lambda x=x, w=weight: compiled(x, w),  # type: ignore[misc]
                "torchao compiled": lambda x=x, w=theirs: compiled(x, w),  # type: ignore[misc]
            }
            with torch.inference_mode():
                chosen = {name: calls[name] for name in names}
                times = {n: None if f is None else median_ms(f, repeats) for n, f in chosen.items()}
            cells = ["-" if times[n] is None else f"{times[n]:.2f}" for n in names]
            raw, ours = times["raw kernel"], times["qconfig"]
            ratio = "-" if raw is None or ours is None else f"{ours / raw:.2f}"
            name = str(dtype).removeprefix("torch.")
            print(f"| {name} | {rows} | {' | '.join(cells)} | {ratio} |")
            sys.stdout.flush()


def _torchao(qdata: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    from torchao.quantization import Int8Tensor as TheirTensor

    tensor: torch.Tensor = TheirTensor(qdata, scale, [1, SIZE], dtype)
    return tensor


if __name__ == "__main__":
    main()
