"""State dicts of quantized tensors to ordinary tensors and back, against torchao 0.18.

Run `python -m tests.benchmarks.bench_flatten`. Times are medians; torchao's functions are measured
at small sizes only, for their cost grows with the square of the number of tensors.
"""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from qconfig.tensors import Int8Tensor
from qconfig.tensors.flatten import flatten_tensors, unflatten_tensors
from tests.benchmarks.timing import row, side_by_side

TORCHAO_LIMIT = 1000
ROWS, COLUMNS = 8, 16


def main() -> None:
    """Measure and print."""
    warnings.simplefilter("ignore")
    from torchao.prototype.safetensors.safetensors_support import (
        flatten_tensor_state_dict,
        unflatten_tensor_state_dict,
    )
    from torchao.quantization import Int8Tensor as TheirTensor

    codes = torch.zeros(ROWS, COLUMNS, dtype=torch.int8)
    scale = torch.ones(ROWS, 1)
    block = (1, COLUMNS)
    names = ["flatten", "unflatten", "torchao flatten", "torchao unflatten"]
    row("tensors", *(f"{n}, us a tensor" for n in names))
    row(*["---"] * (len(names) + 1))
    for count in (250, 500, 1000, 2000, 20000):
        keys = [f"model.layers.{i}.weight" for i in range(count)]
        ours = {key: Int8Tensor(codes, scale, block, torch.float32) for key in keys}
        flat, forms = flatten_tensors(ours)
        calls: dict[str, Callable[[], Any]] = {
            "flatten": partial(flatten_tensors, ours),
            "unflatten": partial(unflatten_tensors, flat, forms),
        }
        if count <= TORCHAO_LIMIT:
            theirs = {key: TheirTensor(codes, scale, [*block], torch.float32) for key in keys}
            data, metadata = flatten_tensor_state_dict(theirs)
            calls["torchao flatten"] = partial(flatten_tensor_state_dict, theirs)
            calls["torchao unflatten"] = partial(unflatten_tensor_state_dict, data, metadata)
        times = side_by_side(calls, 5)
        row(count, *(times[n] / count * 1e3 if n in times else "-" for n in names))


if __name__ == "__main__":
    main()
