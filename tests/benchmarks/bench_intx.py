"""Intx weights of 4 bits, 32 a group: quantizing and the linear, against torchao 0.18.

Run `python -m tests.benchmarks.bench_intx [--compiled]`. It prints median milliseconds for a
4096 x 4096 weight, all columns measured in turn. `x` is torchao's time divided by ours.
"""

import argparse
import logging
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn.functional import linear

from qconfig.codec.dtypes import DType
from qconfig.configs.choices import IntxChooseQParamsAlgorithm, MappingType
from qconfig.layouts.intx import ActivationQuantization
from qconfig.tensors.intx import IntxUnpackedToInt8Tensor
from qconfig.tensors.intx_quantize import quantize_intx
from tests.benchmarks.timing import row, side_by_side

SIZE = 4096
GROUP = 32
BLOCK = (1, GROUP)
DTYPES = (torch.bfloat16, torch.float32)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiled", action="store_true", help="measure compiled calls as well")
    compiled = parser.parse_args().compiled
    logging.getLogger("torchao").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    quantizing()
    for dtype in DTYPES:
        for dynamic in (False, True):
            products(dtype, dynamic=dynamic, compiled=compiled)


def quantizing() -> None:
    """Print a row for each type, mapping and algorithm."""
    from torchao.quantization import IntxUnpackedToInt8Tensor as Theirs
    from torchao.quantization.quant_primitives import MappingType as TheirMapping
    from torchao.quantization.quantize_.workflows.intx.intx_choose_qparams_algorithm import (
        IntxChooseQParamsAlgorithm as TheirAlgorithm,
    )

    affine, hqq = IntxChooseQParamsAlgorithm.AFFINE, IntxChooseQParamsAlgorithm.HQQ_SCALE_ONLY
    row("dtype", "group", "mapping", "qconfig", "torchao", "x")
    row(*["---"] * 6)
    for dtype in DTYPES:
        weight = torch.randn(SIZE, SIZE, dtype=dtype)
        cells = [(size, m, affine) for size in (GROUP, SIZE) for m in MappingType]
        for size, mapping, algorithm in [*cells, (GROUP, MappingType.SYMMETRIC, hqq)]:
            ours = partial(
                quantize_intx, weight, (1, size), DType.INT4, mapping, algorithm=algorithm
            )
            theirs = partial(
                Theirs.from_hp,
                weight,
                (1, size),
                torch.int4,
                mapping_type=TheirMapping[mapping.value],
                intx_choose_qparams_algorithm=TheirAlgorithm[algorithm.value],
            )
            times = side_by_side({"ours": ours, "theirs": theirs}, 1 if algorithm is hqq else 5)
            name = mapping.value if algorithm is affine else algorithm.value
            values = (times["ours"], times["theirs"])
            row(str(dtype)[6:], size, name, *values, values[1] / values[0])
    print()


def products(dtype: torch.dtype, *, dynamic: bool, compiled: bool) -> None:
    """Print one row for each batch size."""
    from torchao.quantization import IntxUnpackedToInt8Tensor as Theirs

    codes, scale, _ = quantize_intx(torch.randn(SIZE, SIZE, dtype=dtype), BLOCK, DType.INT4)
    kind = ActivationQuantization.INT8_ASYM_PER_TOKEN if dynamic else None
    weight = IntxUnpackedToInt8Tensor(
        codes, scale, DType.INT4, BLOCK, dtype, activation_quantization=kind
    )
    zero_point = torch.zeros_like(scale, dtype=torch.int8)
    how = None if kind is None else kind.value
    theirs: torch.Tensor = Theirs(codes, scale, zero_point, torch.int4, BLOCK, dtype, how)
    torch.compiler.reset()  # the next table must not meet the limit of recompilations
    plain, fast = weight.dequantize(), torch.compile(linear, dynamic=False)
    names = ["qconfig", "torchao", "float weight"]
    if compiled:
        names += ["qconfig compiled", "torchao compiled"]
    row("dtype", "activation", "M", *names, "x")
    row(*["---"] * (len(names) + 4))
    for rows in (1, 16, 64, 256):
        x = torch.randn(rows, SIZE, dtype=dtype)
        calls: dict[str, Callable[[], Any]] = {
            "qconfig": partial(linear, x, weight),
            "torchao": partial(linear, x, theirs),
            "float weight": partial(linear, x, plain),
            "qconfig compiled": partial(fast, x, weight),
            "torchao compiled": partial(fast, x, theirs),
        }
        with torch.inference_mode():
            times = side_by_side({n: calls[n] for n in names}, 5)
        label = "int8" if dynamic else "float"
        ratio = times["torchao"] / times["qconfig"]
        row(str(dtype)[6:], label, rows, *[times[n] for n in names], ratio)
    print()


if __name__ == "__main__":
    main()
