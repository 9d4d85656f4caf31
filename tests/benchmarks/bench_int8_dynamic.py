"""Int8 linear with activations quantized as they come, against torchao 0.18 and float weights.

Run `python -m tests.benchmarks.bench_int8_dynamic [--compiled] [--without-vnni] [--asymmetric]`. It
prints median milliseconds for a 4096 x 4096 weight with one scale a row, one scale a token, all
columns measured in turn. `--without-vnni` turns torch's oneDNN integer product off, as it is on
processors that lack VNNI: there `torch._int_mm` is a loop of scalar steps. `--kernels` prints the
exact products alone, by kernel.
"""

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn.functional import linear

from qconfig.builders.base import builder_of
from qconfig.configs.choices import MappingType
from qconfig.configs.int8 import Int8DynamicActivationInt8WeightConfig
from qconfig.tensors import int8_matmul
from tests.benchmarks.timing import row, side_by_side

SIZE = 4096
BATCHES = (1, 16, 64, 256)
SLOW_REPEATS = 3


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiled", action="store_true", help="measure compiled calls as well")
    parser.add_argument("--without-vnni", action="store_true", help="as on older processors")
    parser.add_argument("--asymmetric", action="store_true", help="zero points of activations")
    parser.add_argument("--kernels", action="store_true", help="measure integer products alone")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    if options.kernels:
        kernels()
        return
    with torch.backends.mkldnn.flags(enabled=not options.without_vnni):
        for dtype in (torch.bfloat16, torch.float32):
            table(dtype, options)


def table(dtype: torch.dtype, options: argparse.Namespace) -> None:
    """Print one row for each batch size."""
    ours, theirs, plain = weights(dtype, asymmetric=options.asymmetric)
    fast = torch.compile(linear, dynamic=True)
    heading = True
    for rows in BATCHES:
        x = torch.randn(rows, SIZE, dtype=dtype)
        calls: dict[str, Callable[[], Any]] = {
            "qconfig": partial(linear, x, ours),
            "torchao": partial(linear, x, theirs),
            "float weight": partial(linear, x, plain),
        }
        if options.compiled:
            calls |= {
                "qconfig compiled": partial(fast, x, ours),
                "torchao compiled": partial(fast, x, theirs),
            }
        names = list(calls)
        slow = options.without_vnni or rows == BATCHES[-1]
        with torch.inference_mode():
            check_close(calls["qconfig"](), calls["torchao"]())
            times = side_by_side(calls, SLOW_REPEATS if slow else 9)
        if heading:
            row("dtype", "M", *names, "torchao / qconfig")
            row(*["---"] * (len(names) + 3))
            heading = False
        row(str(dtype)[6:], rows, *times.values(), times["torchao"] / times["qconfig"])
    print()


def kernels() -> None:
    """Print the time of each exact product of codes for each batch size."""
    right = torch.randint(-128, 128, (SIZE, SIZE), dtype=torch.int8)
    names = ("single", "unsigned", "signed", "blocked")
    row("M", *names)
    row(*["---"] * (len(names) + 1))
    for rows in (1, 4, 8, 16, 64, 256):
        left = torch.randint(-128, 128, (rows, SIZE), dtype=torch.int8)
        calls = {n: partial(getattr(int8_matmul, f"_{n}"), left, right) for n in names}
        row(rows, *side_by_side(calls, 9).values())


def weights(
    dtype: torch.dtype, *, asymmetric: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return one weight as ours, as torchao's and as floats."""
    from torchao.quantization import Int8Tensor, granularity
    from torchao.quantization.quant_primitives import MappingType as TheirMapping
    from torchao.quantization.quantize_.workflows.int8.int8_tensor import QuantizeTensorToInt8Kwargs

    mapping = MappingType.ASYMMETRIC if asymmetric else MappingType.SYMMETRIC
    config = Int8DynamicActivationInt8WeightConfig(act_mapping_type=mapping)
    plain = torch.randn(SIZE, SIZE, dtype=dtype)
    theirs: torch.Tensor = Int8Tensor.from_hp(
        plain,
        granularity.PerRow(),
        act_quant_kwargs=QuantizeTensorToInt8Kwargs(
            granularity.PerRow(), TheirMapping[mapping.name]
        ),
    )
    return builder_of(config).build(config, plain), theirs, plain


def check_close(found: torch.Tensor, expected: torch.Tensor) -> None:
    """End the run if two results differ by more than roundings."""
    error = (found.double() - expected.double()).abs().max() / expected.double().abs().max()
    if error > 2.0**-6:
        raise SystemExit(f"results differ by {float(error):.2g} of the largest")


if __name__ == "__main__":
    main()
