"""Dropout: nothing in evaluation; in training, a coarser grid."""

from typing import Any

from torch.nn import functional

from qconfig.tensors.quant_tensor.dispatch import is_quant, run_on_values
from qconfig.tensors.quant_tensor.kept_metadata import KEPT, kept
from qconfig.tensors.quant_tensor.metadata_moves import remade
from qconfig.tensors.quant_tensor.rules import Rule


def _dropout(
    func: Any, input: Any, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Any:
    value = run_on_values(func, (input, p, training), {})
    if not is_quant(input) or (training and not (p < 1 and input.is_symmetric)):
        return value
    if not training or p == 0:
        return kept(input, value)
    scale = input.scale / (1 - p)
    return remade(input, value=value, scale=scale, zero_point=input.zero_point)


def _alpha_dropout(
    func: Any, input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Any:
    value = run_on_values(func, (input, p, training), {})
    return value if training or not is_quant(input) else kept(input, value)


DROPOUTS = (
    Rule(
        "dropout, dropout2d, dropout3d",
        (functional.dropout, functional.dropout2d, functional.dropout3d),
        _dropout,
        KEPT | {"scale": "scale; in training scale / (1 - p)"},
        "in training, plain unless zp is 0 and p below 1",
    ),
    Rule(
        "alpha_dropout",
        (functional.alpha_dropout,),
        _alpha_dropout,
        KEPT,
        "plain in training",
    ),
)
