"""Quant tensors against Brevitas' NamedTuples and plain tensors.

Run `python -m tests.benchmarks.bench_quant_tensors`. The first table has microseconds of an
operation on small tensors, eager and on one thread: what metadata costs. The second has
milliseconds of compiled functions of quant tensors and of the same arithmetic on plain tensors,
metadata included. All columns of a row are measured in turn.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from qconfig.tensors.quant_tensor import IntQuantTensor
from tests.benchmarks.timing import row, side_by_side

CALLS = 200
TURNS = 41


def main() -> None:
    """Measure and print."""
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    eager_table()
    print()
    torch.set_num_threads(2)
    compiled_table()


def eager_table() -> None:
    """Print a row for each operation: both libraries, and the operation on values alone."""
    from brevitas.quant_tensor import IntQuantTensor as Theirs

    fields = (torch.tensor(0.5), torch.tensor(0.0), torch.tensor(8.0), True, False)
    row("operation", "values alone, us", "Brevitas, us", "qconfig, us", "qconfig to Brevitas")
    row("---", "---:", "---:", "---:", "---:")
    for graph in (False, True):
        value = torch.randint(-100, 100, (8, 16)) * 0.5
        weight = torch.randint(-100, 100, (4, 16)) * 0.5
        value.requires_grad_(graph)
        own, theirs = IntQuantTensor(value, *fields), Theirs(value, *fields)
        own_weight, their_weight = IntQuantTensor(weight, *fields), Theirs(weight, *fields)
        bias = torch.ones(4)
        image, kernel = value.reshape(1, 2, 8, 8), weight.reshape(8, 2, 2, 2)
        own_image, own_kernel = IntQuantTensor(image, *fields), IntQuantTensor(kernel, *fields)
        their_image, their_kernel = Theirs(image, *fields), Theirs(kernel, *fields)
        flat = torch.flatten
        made = {
            "make one": (
                None,
                partial(Theirs, value, *fields),
                partial(IntQuantTensor, value, *fields),
            ),
            "a + b": tuple(partial(_add, t) for t in (value, theirs, own)),
            "a - b": tuple(partial(_sub, t) for t in (value, theirs, own)),
            "a * b": tuple(partial(_mul, t) for t in (value, theirs, own)),
            "linear": (
                partial(functional.linear, value, weight),
                partial(functional.linear, theirs, their_weight),
                partial(functional.linear, own, own_weight),
            ),
            "linear with bias": (
                partial(functional.linear, value, weight, bias),
                partial(functional.linear, theirs, their_weight, bias),
                partial(functional.linear, own, own_weight, bias),
            ),
            "conv2d": (
                partial(functional.conv2d, image, kernel),
                partial(functional.conv2d, their_image, their_kernel),
                partial(functional.conv2d, own_image, own_kernel),
            ),
            "flatten": (partial(flat, image), partial(flat, their_image), partial(flat, own_image)),
            "int()": (None, theirs.int, own.int),
            "a * 2.0": tuple(partial(_double, t) for t in (value, theirs, own)),
        }
        suffix = ", recording gradients" if graph else ""
        for name, (plain, their_call, own_call) in made.items():
            calls = {"theirs": their_call, "ours": own_call}
            if plain is not None:
                calls["plain"] = plain
            found = side_by_side({k: partial(_repeat, c) for k, c in calls.items()}, TURNS)
            times = {k: ms * 1e3 / CALLS for k, ms in found.items()}
            alone = times.get("plain", "")
            row(
                name + suffix,
                alone,
                times["theirs"],
                times["ours"],
                times["ours"] / times["theirs"],
            )


def _repeat(call: Callable[[], Any]) -> None:
    for _ in range(CALLS):
        call()


def _add(tensor: Any) -> Any:
    return tensor + tensor


def _sub(tensor: Any) -> Any:
    return tensor - tensor


def _mul(tensor: Any) -> Any:
    return tensor * tensor


def _double(tensor: Any) -> Any:
    return tensor * 2.0


def compiled_table() -> None:
    """Print a row for each function and size: compiled, with and without metadata."""
    row("function", "size", "plain tensors, ms", "quant tensors, ms", "ratio")
    row("---", "---", "---:", "---:", "---:")
    for size in (64, 1024, 2048):
        value = torch.randint(-100, 100, (size, size)) * 0.5
        weight = torch.randint(-100, 100, (size, size)) * 0.5
        scale = torch.tensor(0.5)
        own = IntQuantTensor(value, scale, 0, 8, signed=True)
        other = IntQuantTensor(weight, scale, 0, 8, signed=True)
        for name, plain, quant in (
            ("add", _plain_add, _quant_add),
            ("linear", _plain_linear, _quant_linear),
            ("quantize, linear, add", _plain_layer, _quant_layer),
        ):
            torch._dynamo.reset()
            plain_compiled = torch.compile(plain, fullgraph=True)
            quant_compiled = torch.compile(quant, fullgraph=True)
            calls = {
                "plain": partial(plain_compiled, value, weight, scale),
                "quant": partial(quant_compiled, own, other)
                if name != "quantize, linear, add"
                else partial(quant_compiled, value, weight, scale),
            }
            times = side_by_side(calls, TURNS)
            row(name, size, times["plain"], times["quant"], times["quant"] / times["plain"])


def _plain_add(a: torch.Tensor, b: torch.Tensor, scale: torch.Tensor) -> Any:
    return a + b, (scale + scale) / 2


def _quant_add(a: Any, b: Any) -> Any:
    total = a + b
    return total.value, total.scale


def _plain_linear(a: torch.Tensor, b: torch.Tensor, scale: torch.Tensor) -> Any:
    return functional.linear(a, b), scale * scale


def _quant_linear(a: Any, b: Any) -> Any:
    result = functional.linear(a, b)
    return result.value, result.scale


def _plain_layer(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> Any:
    codes = (x / scale).round().clamp(-128, 127) * scale
    product = functional.linear(codes, weight)
    return product + product, scale * scale


def _quant_layer(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> Any:
    codes = (x / scale).round().clamp(-128, 127) * scale
    own = IntQuantTensor(codes, scale, 0, 8, signed=True)
    product = functional.linear(own, IntQuantTensor(weight, scale, 0, 8, signed=True))
    total = product + product
    return total.value, total.scale


if __name__ == "__main__":
    main()
