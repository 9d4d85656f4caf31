"""Int4 weights against torchao 0.18's for CPUs, torch's raw kernel and float weights.

Run `python -m tests.benchmarks.bench_int4 [--compiled] [--size N] [--quantize] [--parts]`. It
prints median milliseconds for a 4096 x 4096 weight, all columns measured in turn. torchao's own
Int4Tensor has no CPU kernel; its prototype Int4OpaqueTensor calls torch's.
"""

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn.functional import linear

from qconfig.builders.base import builder_of
from qconfig.codec.dtypes import DType
from qconfig.configs import Int4WeightOnlyConfig
from qconfig.configs.choices import Int4ChooseQParamsAlgorithm
from qconfig.tensors import int4_codes, int4_linear, int4_prepack
from qconfig.tensors.int4 import Int4Tensor
from tests.benchmarks.timing import row, side_by_side

GROUPS = (32, 128)
SLOW_KERNEL_ROWS = 16


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiled", action="store_true", help="measure compiled calls as well")
    parser.add_argument("--size", type=int, default=4096, help="rows and columns of the weight")
    parser.add_argument("--quantize", action="store_true", help="measure quantizing only")
    parser.add_argument("--parts", action="store_true", help="measure kernels and conversions only")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    for dtype in (torch.bfloat16, torch.float32):
        if chosen.quantize:
            quantizing(dtype, chosen.size)
        elif chosen.parts:
            parts(dtype, chosen.size)
        else:
            products(dtype, chosen.size, compiled=chosen.compiled)
        print()


def products(dtype: torch.dtype, size: int, *, compiled: bool) -> None:
    """Print one row for each group size and batch size."""
    fast = torch.compile(linear, dynamic=True)
    heading = True
    for group in GROUPS:
        plain = torch.randn(size, size, dtype=dtype) * 0.02
        weight, theirs = build(plain, group), torchao_tensor(plain, group)
        for rows in (1, 16, 64, 256):
            x = torch.randn(rows, size, dtype=dtype)
            calls: dict[str, Callable[[], Any]] = {
                "qconfig": partial(linear, x, weight),
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
                calls = {n: c for n, c in calls.items() if not n.startswith("torchao")}
            with torch.no_grad():
                times = side_by_side(calls, 15 if rows == 1 else 5)
            if heading:
                row("dtype", "group", "M", *names)
                row(*["---"] * (len(names) + 3))
                heading = False
            row(str(dtype)[6:], group, rows, *[times.get(n, "-") for n in names])


def parts(dtype: torch.dtype, size: int) -> None:
    """Print torch's kernel against rows of values, and what making its form and values takes."""
    row("dtype", "group", "M", "kernel", "rows of values", "making the form", "all values")
    row(*["---"] * 7)
    for group in GROUPS:
        weight = build(torch.randn(size, size).bfloat16() * 0.02, group)
        fields = (weight.qdata, weight.scale.t(), weight.zero_point.t())
        for rows in (1, 4, 8, 16, 32, 64):
            x = torch.randn(rows, size, dtype=dtype)
            form = int4_prepack.prepacked(*fields)
            kernel = torch.ops.aten._weight_int4pack_mm_for_cpu
            calls: dict[str, Callable[[], Any]] = {
                "rows": partial(int4_linear._by_rows, x, *fields),
                "form": partial(int4_prepack._packed, weight.qdata),
                "values": partial(int4_codes.dequantize, *fields, dtype),
            }
            if form is not None:
                pair = form.scale_and_zero.to(dtype)
                calls["kernel"] = partial(kernel, x, form.codes, group, pair)
            times = side_by_side(calls, 5)
            shown = [times.get(n, "-") for n in ("kernel", "rows", "form", "values")]
            row(str(dtype)[6:], group, rows, *shown)


def quantizing(dtype: torch.dtype, size: int) -> None:
    """Print how long quantizing takes."""
    row("dtype", "group", "algorithm", "qconfig", "torchao", "ratio")
    row(*["---"] * 6)
    plain = torch.randn(size, size, dtype=dtype) * 0.02
    for algorithm in Int4ChooseQParamsAlgorithm:
        for group in GROUPS:
            calls: dict[str, Callable[[], Any]] = {
                "qconfig": partial(build, plain, group, algorithm),
                "torchao": partial(torchao_tensor, plain, group, algorithm.value),
            }
            times = side_by_side(calls, 3 if algorithm.value == "TINYGEMM" else 1)
            ratio = times["torchao"] / times["qconfig"]
            row(str(dtype)[6:], group, algorithm.value, *times.values(), ratio)


def build(
    plain: torch.Tensor,
    group: int,
    algorithm: Int4ChooseQParamsAlgorithm = Int4ChooseQParamsAlgorithm.TINYGEMM,
) -> Int4Tensor:
    """Return our tensor of a weight."""
    config = Int4WeightOnlyConfig(group_size=group, int4_choose_qparams_algorithm=algorithm)
    built = builder_of(config).build(config, plain)
    if not isinstance(built, Int4Tensor):
        raise TypeError(DType.parse(plain.dtype))
    return built


def torchao_tensor(plain: torch.Tensor, group: int, algorithm: str = "TINYGEMM") -> torch.Tensor:
    """Return torchao's tensor for CPUs."""
    from torchao.prototype.quantization.int4 import Int4OpaqueTensor
    from torchao.quantization.quantize_.workflows import Int4ChooseQParamsAlgorithm as Algorithm

    tensor: torch.Tensor = Int4OpaqueTensor.from_hp(plain, [1, group], Algorithm[algorithm])
    return tensor


if __name__ == "__main__":
    main()
