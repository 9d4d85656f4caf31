"""Int8 quantization of a 4096 x 4096 weight against torchao 0.18 eager, and a copy of the weight.

Run `python -m tests.benchmarks.bench_int8_quantize [--compiled]`. Codes and scales are compared
first: they are equal. `--compiled` adds the same steps as a kernel of torch.compile, with the time
that compiling takes.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from qconfig.tensors.int8_quantize import quantize_int8
from tests.benchmarks.timing import row, side_by_side

SIZE = 4096


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiled", action="store_true", help="measure a compiled kernel too")
    compiled = parser.parse_args().compiled
    warnings.simplefilter("ignore")
    from torchao.quantization import Int8Tensor, granularity

    torch.manual_seed(0)
    cases = [
        ("row", (1, SIZE), granularity.PerRow()),
        ("group of 128", (1, 128), granularity.PerGroup(128)),
        ("group of 32", (1, 32), granularity.PerGroup(32)),
        ("tensor", (SIZE, SIZE), granularity.PerTensor()),
        ("column", (SIZE, 1), granularity.PerRow(0)),
    ]
    names = ["torchao", "qconfig", "copy"] + (["compiled"] if compiled else [])
    row("dtype", "scale for each", *names, "torchao / qconfig")
    row(*["---"] * (len(names) + 3))
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        weight = torch.randn(SIZE, SIZE, dtype=dtype)
        for name, block, theirs in cases if dtype == torch.bfloat16 else cases[:2]:
            codes, scale = quantize_int8(weight, block)
            peer = Int8Tensor.from_hp(weight, theirs)
            if not (torch.equal(codes, peer.qdata) and torch.equal(scale, peer.scale)):
                raise SystemExit(f"{dtype} {name}: codes or scales differ from torchao's")
            calls: dict[str, Callable[[], Any]] = {
                "torchao": partial(Int8Tensor.from_hp, weight, theirs),
                "qconfig": partial(quantize_int8, weight, block),
                "copy": weight.clone,
            }
            if compiled and block[0] == 1:
                calls["compiled"] = partial(compiled_quantize, weight.view(-1, block[1]))
            times = side_by_side(calls, 7)
            cells = [times.get(n, "-") for n in names]
            row(str(dtype)[6:], name, *cells, times["torchao"] / times["qconfig"])
    _many()
    if compiled:
        print(f"\nthe first compiled call took {COMPILED_SECONDS[0]:.1f} s")


def _many() -> None:
    """Print what 16 weights of one shape take, dropped one by one as in a checkpoint, and kept."""
    from torchao.quantization import Int8Tensor, granularity

    weights = [torch.randn(SIZE, SIZE, dtype=torch.bfloat16) for _ in range(16)]

    def theirs(weight: torch.Tensor) -> Any:
        return Int8Tensor.from_hp(weight, granularity.PerRow())

    def ours(weight: torch.Tensor) -> Any:
        return quantize_int8(weight, (1, SIZE))

    def dropped(function: Callable[[torch.Tensor], Any]) -> None:
        for weight in weights:
            function(weight)

    def kept(function: Callable[[torch.Tensor], Any]) -> None:
        list(map(function, weights))

    print()
    row("16 weights, bfloat16, row; ms a weight", "torchao", "qconfig", "torchao / qconfig")
    row(*["---"] * 4)
    for name, run in (("results dropped one by one", dropped), ("results kept", kept)):
        times = side_by_side({"torchao": partial(run, theirs), "qconfig": partial(run, ours)}, 5)
        each = {key: value / len(weights) for key, value in times.items()}
        row(name, each["torchao"], each["qconfig"], each["torchao"] / each["qconfig"])


COMPILED_SECONDS: list[float] = []


@torch.compile(dynamic=True)
def _extremes(part: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values = part.float()
    return values.amin(1, keepdim=True), values.amax(1, keepdim=True)


@torch.compile(dynamic=True)
def _codes(part: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    return (part.float() * factor).round().clamp(-128, 127).to(torch.int8)


def compiled_quantize(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize rows with two compiled kernels; the scale between them is rounded in eager."""
    start = time.perf_counter()
    low, high = _extremes(weight)
    largest = torch.maximum(-low, high).to(weight.dtype)
    scale = (largest / 127.5).clamp(min=2.0**-23).float()
    codes = _codes(weight, 1.0 / scale)
    COMPILED_SECONDS.append(time.perf_counter() - start)
    return codes, scale


if __name__ == "__main__":
    main()
