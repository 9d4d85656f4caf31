"""The functions of torch that are one operator, and the rule of the operator that does nothing."""

from typing import Any

import torch

from qconfig.tensors.quant_tensor.calls import on_tensor
from qconfig.tensors.quant_tensor.rules import Rule

T = torch.Tensor

SUM = (T.add, T.__add__, torch.add)
DIFFERENCE = (T.sub, T.__sub__, torch.sub, T.subtract, torch.subtract)
PRODUCT = (T.mul, T.__mul__, torch.mul, T.multiply, torch.multiply)
QUOTIENT = (
    T.div,
    T.__truediv__,
    torch.div,
    T.true_divide,
    torch.true_divide,
    T.divide,
    torch.divide,
)
NEGATION = (T.neg, T.__neg__, torch.neg, T.negative, torch.negative)
ABSOLUTE = (T.abs, T.__abs__, torch.abs, T.absolute, torch.absolute)


@on_tensor
def _same(_: Any, tensor: Any) -> Any:
    return tensor


POSITIVE = Rule(
    "+a",
    (T.positive, T.__pos__, torch.positive),
    _same,
    {
        "scale": "scale",
        "zero_point": "zp",
        "bit_width": "bits",
        "signed": "signed",
        "training": "training",
    },
)
"""The same tensor."""
