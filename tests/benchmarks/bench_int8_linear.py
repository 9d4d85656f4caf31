"""Weight-only int8 linear against torch's raw kernel, torchao 0.18 and float weights.

Run `python -m tests.benchmarks.bench_int8_linear [--compiled]`. It prints median milliseconds for a
4096 x 4096 weight with one scale a row, all columns measured in turn. `exact scale` is a scale that
bfloat16 holds, as builders make from bfloat16 weights; `any scale` is another.
"""

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn.functional import linear

from qconfig.tensors import Int8Tensor
from tests.benchmarks.timing import row, side_by_side

SIZE = 4096
SLOW_KERNEL_ROWS = 16


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiled", action="store_true", help="measure compiled calls as well")
    compiled = parser.parse_args().compiled
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    for dtype in (torch.bfloat16, torch.float32):
        table(dtype, compiled=compiled)


def table(dtype: torch.dtype, *, compiled: bool) -> None:
    """Print one row for each batch size."""
    qdata = torch.randint(-128, 128, (SIZE, SIZE), dtype=torch.int8)
    exact = (torch.rand(SIZE, 1) * 1e-3 + 1e-4).bfloat16().float()
    weight = Int8Tensor(qdata, exact, (1, SIZE), dtype)
    other = Int8Tensor(qdata, exact * 1.001, (1, SIZE), dtype)
    theirs = torchao_tensor(qdata, exact, dtype)
    fast = torch.compile(linear, dynamic=True)
    plain, scale = weight.dequantize(), exact.flatten().to(dtype)
    heading = True
    for rows in (1, 8, 16, 64, 256):
        x = torch.randn(rows, SIZE, dtype=dtype)
        calls: dict[str, Callable[[], Any]] = {
            "raw kernel": partial(torch._weight_int8pack_mm, x, qdata, scale),
            "qconfig, exact scale": partial(linear, x, weight),
            "qconfig, any scale": partial(linear, x, other),
            "torchao": partial(linear, x, theirs),
            "float weight": partial(linear, x, plain),
        }
        if compiled:
            calls |= {
                "qconfig compiled": partial(fast, x, weight),
                "torchao compiled": partial(fast, x, theirs),
            }
        names = list(calls)
        if dtype == torch.float32 and rows > SLOW_KERNEL_ROWS:
            del calls["raw kernel"]
        with torch.inference_mode():
            times = side_by_side(calls, 15 if rows == 1 else 5)
        if heading:
            row("dtype", "M", *names, "exact / raw", "any / raw")
            row(*["---"] * (len(names) + 4))
            heading = False
        raw = times.get("raw kernel")
        ratios = [times[n] / raw if raw else "-" for n in names[1:3]]
        row(str(dtype)[6:], rows, *[times.get(n, "-") for n in names], *ratios)
    print()


def torchao_tensor(qdata: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return torchao's tensor of the same codes and scales."""
    from torchao.quantization import Int8Tensor as TheirTensor

    tensor: torch.Tensor = TheirTensor(qdata, scale, [1, SIZE], dtype)
    return tensor


if __name__ == "__main__":
    main()
