"""Rows of a quantized embedding."""

from typing import Any

from torch.nn import functional

from qconfig.errors import QuantTensorError, UnsupportedOperationError
from qconfig.tensors.quant_tensor.copies import is_quant
from qconfig.tensors.quant_tensor.dispatch import run_on_values
from qconfig.tensors.quant_tensor.kept_metadata import KEPT, is_per_tensor, kept
from qconfig.tensors.quant_tensor.rules import Rule


def _embedding(
    func: Any,
    input: Any,  # noqa: A002
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    if max_norm is not None and is_quant(weight):
        raise UnsupportedOperationError(
            f"{type(weight).__name__} does not support max_norm: it would change values in place "
            "and leave their metadata behind",
            hint="leave out max_norm",
        )
    value = run_on_values(func, (input, weight, padding_idx, max_norm, *args), kwargs)
    if not is_quant(weight):
        return value
    if not is_per_tensor(weight):
        raise QuantTensorError(
            "an embedding needs one scale and one zero point for all rows",
            found=f"scale of shape {tuple(weight.scale.shape)}, "
            f"zero point of shape {tuple(weight.zero_point.shape)}",
            expected="one entry each",
            hint="look rows up in weight.value, or index the weight: weight[rows]",
        )
    return kept(weight, value)


EMBEDDINGS = (
    Rule(
        "embedding(rows, w)",
        (functional.embedding,),
        _embedding,
        KEPT,
        "an error where there are several scales or zero points",
    ),
)
