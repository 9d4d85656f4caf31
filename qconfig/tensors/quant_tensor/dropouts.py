"""Dropout: nothing in evaluation; in training, a coarser grid."""

from typing import Any

from torch.nn import functional

from qconfig.tensors.quant_tensor.calls import on_tensor
from qconfig.tensors.quant_tensor.dispatch import run_on_values
from qconfig.tensors.quant_tensor.kept_metadata import KEPT, kept
from qconfig.tensors.quant_tensor.metadata_moves import remade
from qconfig.tensors.quant_tensor.rules import Rule


@on_tensor
def _dropout(
    func: Any,
    tensor: Any,
    p: float = 0.5,
    training: bool = True,  # noqa: FBT001, FBT002
    inplace: bool = False,  # noqa: FBT001, FBT002
) -> Any:
    value = run_on_values(func, (tensor, p, training), {})
    if not training or p == 0:
        return kept(tensor, value)
    if p == 1 or not tensor.is_symmetric:
        return value
    scale = tensor.scale / (1 - p)
    return remade(tensor, value=value, scale=scale, zero_point=tensor.zero_point)


@on_tensor
def _alpha_dropout(
    func: Any,
    tensor: Any,
    p: float = 0.5,
    training: bool = False,  # noqa: FBT001, FBT002
    inplace: bool = False,  # noqa: FBT001, FBT002
) -> Any:
    value = run_on_values(func, (tensor, p, training), {})
    return value if training else kept(tensor, value)


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
