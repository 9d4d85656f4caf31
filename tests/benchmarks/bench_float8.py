"""Float8 products and quantization of a 4096 x 4096 weight against torchao 0.18.

Run `python -m tests.benchmarks.bench_float8 [--compiled]`. It prints median milliseconds, all
columns measured in turn. Weight-only: one scale a row, and tiles of 128 x 128 on our side, for
which torchao has no kernel on the CPU. Dynamic: one scale a row of the weight and a token of the
activation; torchao's product there is `torch._scaled_mm`. Codes and scales of the quantizers are
compared first: they are equal.
"""

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn.functional import linear

from qconfig.layouts.float8 import QuantizeTensorToFloat8Kwargs
from qconfig.tensors.float8 import Float8Tensor
from qconfig.tensors.float8_quantize import quantize_float8
from tests.benchmarks.timing import row, side_by_side

SIZE = 4096
BATCHES = (1, 16, 64, 256)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiled", action="store_true", help="measure compiled calls as well")
    compiled = parser.parse_args().compiled
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    for dtype in (torch.bfloat16, torch.float32):
        weight_only(dtype, compiled=compiled)
        dynamic(dtype, compiled=compiled)
    quantizing()


def weight_only(dtype: torch.dtype, *, compiled: bool) -> None:
    """Print the weight-only product for each batch size."""
    weight = torch.randn(SIZE, SIZE, dtype=dtype)
    ours, tiled = packed(weight, (1, SIZE)), packed(weight, (128, 128))
    theirs = torchao_tensor(ours, dynamic=False)
    print(f"\nweight-only, {str(dtype)[6:]}, ms")
    table(
        {"qconfig": ours, "torchao": theirs, "float": weight, "qconfig tiles": tiled},
        dtype,
        compiled=compiled,
    )


def dynamic(dtype: torch.dtype, *, compiled: bool) -> None:
    """Print the product of quantized activations for each batch size."""
    weight = torch.randn(SIZE, SIZE, dtype=dtype)
    kwargs = QuantizeTensorToFloat8Kwargs()
    ours = packed(weight, (1, SIZE)).with_fields(act_quant_kwargs=kwargs)
    theirs = torchao_tensor(ours, dynamic=True)
    print(f"\ndynamic activations, {str(dtype)[6:]}, ms")
    table({"qconfig": ours, "torchao": theirs, "float": weight}, dtype, compiled=compiled)


def table(weights: dict[str, torch.Tensor], dtype: torch.dtype, *, compiled: bool) -> None:
    """Print one row for each batch size, the first two columns compared."""
    fast = torch.compile(linear, dynamic=True)
    names = list(weights)
    columns = [*names, *(["qconfig compiled", "torchao compiled"] if compiled else [])]
    row("M", *columns, "torchao / qconfig")
    row(*["---"] * (len(columns) + 2))
    for rows in BATCHES:
        x = torch.randn(rows, SIZE, dtype=dtype)
        calls: dict[str, Callable[[], Any]] = {
            name: partial(linear, x, weight) for name, weight in weights.items()
        }
        if compiled:
            calls |= {f"{n} compiled": partial(fast, x, weights[n]) for n in names[:2]}
        with torch.inference_mode():
            times = side_by_side(calls, 5)
        row(rows, *times.values(), times["torchao"] / times["qconfig"])


def packed(weight: torch.Tensor, block: tuple[int, int]) -> Float8Tensor:
    """Return our tensor of a weight."""
    codes, scale = quantize_float8(weight, block)
    return Float8Tensor(codes, scale, block, weight.dtype)


def torchao_tensor(ours: Float8Tensor, *, dynamic: bool) -> torch.Tensor:
    """Return torchao's tensor of the same codes and scales."""
    from torchao.float8.inference import Float8MMConfig
    from torchao.quantization import Float8Tensor as Theirs
    from torchao.quantization.quantize_.workflows import QuantizeTensorToFloat8Kwargs as Kwargs

    tensor: torch.Tensor = Theirs(
        ours.qdata,
        ours.scale,
        list(ours.block_size),
        Float8MMConfig(),
        Kwargs() if dynamic else None,
        dtype=ours.dtype,
    )
    return tensor


def quantizing() -> None:
    """Print what quantizing takes for each granularity."""
    from torchao.quantization import Float8Tensor as Theirs
    from torchao.quantization import granularity

    cases = {
        "row": ((1, SIZE), granularity.PerRow()),
        "tensor": ((SIZE, SIZE), granularity.PerTensor()),
        "tile of 128": ((128, 128), granularity.PerBlock((128, 128))),
        "group of 128": ((1, 128), granularity.PerGroup(128)),
    }
    print("\nquantizing, ms")
    row("dtype", "scale for each", "torchao", "qconfig", "torchao / qconfig")
    row(*["---"] * 5)
    for dtype in (torch.bfloat16, torch.float32):
        weight = torch.randn(SIZE, SIZE, dtype=dtype)
        for name, (block, peer) in cases.items():
            codes, scale = quantize_float8(weight, block)
            theirs = Theirs.from_hp(weight, torch.float8_e4m3fn, peer)
            same = torch.equal(codes.view(torch.uint8), theirs.qdata.view(torch.uint8))
            if not (same and torch.equal(scale, theirs.scale)):
                raise SystemExit(f"{dtype} {name}: codes or scales differ from torchao's")
            times = side_by_side(
                {
                    "torchao": partial(Theirs.from_hp, weight, torch.float8_e4m3fn, peer),
                    "qconfig": partial(quantize_float8, weight, block),
                },
                5,
            )
            row(str(dtype)[6:], name, *times.values(), times["torchao"] / times["qconfig"])


if __name__ == "__main__":
    main()
