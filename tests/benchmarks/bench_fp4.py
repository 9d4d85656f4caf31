"""MX and NVFP4 against torchao 0.18: quantizing a 4096 x 4096 weight, and its linear.

Run `python -m tests.benchmarks.bench_fp4 [--compiled] [--size N]`. Codes, scales and values are
compared first: they are equal. torchao multiplies quantized activations on GPUs of one kind only,
so that NVFP4 is measured with weights alone, and MX in torchao's emulation, which does not compile.
"""

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn.functional import linear

from qconfig.configs.choices import KernelPreference, ScaleCalculationMode
from qconfig.layouts.mx import MXElementType, QuantizeTensorToMXKwargs
from qconfig.tensors.mx import MXTensor
from qconfig.tensors.mx_quantize import quantize_mx
from qconfig.tensors.nvfp4 import NVFP4Tensor
from qconfig.tensors.nvfp4_quantize import per_tensor_scale_of, quantize_nvfp4
from tests.benchmarks.timing import row, side_by_side

ROWS = (1, 16, 64, 256)
RCEIL = ScaleCalculationMode.RCEIL
FP4, FP8 = MXElementType.FLOAT4_E2M1FN_X2, MXElementType.FLOAT8_E4M3FN


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiled", action="store_true", help="measure torchao compiled too")
    parser.add_argument("--size", type=int, default=4096, help="rows and columns of the weight")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    row("quantize, ms", "dtype", "torchao", "qconfig", "torchao / qconfig")
    row(*["---"] * 5)
    for dtype in (torch.bfloat16, torch.float32):
        weight = torch.randn(options.size, options.size, dtype=dtype)
        for name, (ours, theirs) in quantizers(weight).items():
            times = side_by_side({"torchao": theirs, "qconfig": ours}, 5)
            ratio = times["torchao"] / times["qconfig"]
            row(name, str(dtype)[6:], times["torchao"], times["qconfig"], ratio)
    print()
    names = ["torchao", *(["compiled"] if options.compiled else []), "qconfig", "float"]
    row("linear, ms", "dtype", "M", *names, "torchao / qconfig")
    row(*["---"] * (len(names) + 4))
    for dtype in (torch.bfloat16, torch.float32):
        weight = torch.randn(options.size, options.size, dtype=dtype)
        for name, (ours, theirs) in tensors(weight).items():
            compare(name, ours, theirs)
            for rows in ROWS:
                x = torch.randn(rows, options.size, dtype=dtype)
                calls: dict[str, Callable[[], Any]] = {
                    "torchao": partial(linear, x, theirs),
                    "qconfig": partial(linear, x, ours),
                    "float": partial(linear, x, weight),
                }
                if options.compiled and (fast := compiled(x, theirs)) is not None:
                    calls["compiled"] = fast
                with torch.no_grad():
                    times = side_by_side(calls, 5)
                cells = [times.get(n, "-") for n in names]
                row(name, str(dtype)[6:], rows, *cells, times["torchao"] / times["qconfig"])


def compiled(x: torch.Tensor, weight: Any) -> Callable[[], Any] | None:
    """Return the compiled linear, or None where it does not compile: MX of torchao 0.18."""
    call = partial(torch.compile(linear), x, weight)
    try:
        with torch.no_grad():
            call()
    except torch._dynamo.exc.BackendCompilerFailed as error:
        if "float8_e8m0fnu" not in str(error):
            raise
        return None
    return call


def quantizers(weight: torch.Tensor) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Return ours and torchao's by name."""
    from torchao.prototype.mx_formats.config import ScaleCalculationMode as TheirMode
    from torchao.prototype.mx_formats.mx_tensor import MXTensor as TheirMX
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor as TheirNVFP4

    second = per_tensor_scale_of(weight)
    found: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "NVFP4": (
            partial(quantize_nvfp4, weight, second),
            partial(TheirNVFP4.to_nvfp4, weight, per_tensor_scale=second),
        )
    }
    for element in (FP4, FP8):
        kind = getattr(torch, element.value)
        found[f"MX {element.value}"] = (
            partial(quantize_mx, weight, element, 32, RCEIL),
            partial(TheirMX.to_mx, weight, kind, 32, TheirMode.RCEIL),
        )
    return found


def tensors(weight: torch.Tensor) -> dict[str, tuple[Any, Any]]:
    """Return our tensor and torchao's by name."""
    from torchao.prototype.mx_formats.config import ScaleCalculationMode as TheirMode
    from torchao.prototype.mx_formats.mx_tensor import MXTensor as TheirMX
    from torchao.prototype.mx_formats.mx_tensor import QuantizeTensorToMXKwargs as TheirKwargs
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor as TheirNVFP4

    second = per_tensor_scale_of(weight)
    codes, scale = quantize_nvfp4(weight, second)
    found: dict[str, tuple[Any, Any]] = {
        "NVFP4 weight only": (
            NVFP4Tensor(codes, scale, 16, weight.dtype, per_tensor_scale=second),
            TheirNVFP4.to_nvfp4(weight, per_tensor_scale=second),
        )
    }
    for element in (FP4, FP8):
        kind = getattr(torch, element.value)
        codes, scale = quantize_mx(weight, element, 32, RCEIL)
        kwargs = QuantizeTensorToMXKwargs(element, 32, RCEIL, KernelPreference.EMULATED)
        ours = MXTensor(codes, scale, element, 32, weight.dtype, act_quant_kwargs=kwargs)
        their_kwargs = TheirKwargs(kind, 32, TheirMode.RCEIL)
        theirs = TheirMX.to_mx(weight, kind, 32, TheirMode.RCEIL, act_quant_kwargs=their_kwargs)
        found[f"MX {element.value} dynamic"] = (ours, theirs)
    return found


def compare(name: str, ours: Any, theirs: Any) -> None:
    """Stop where values differ."""
    if not torch.equal(ours.dequantize(), theirs.dequantize()):
        raise SystemExit(f"{name}: values differ from torchao's")


if __name__ == "__main__":
    main()
