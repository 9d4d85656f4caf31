"""Int8Tensor of torchao 0.15 and later, told apart by the fields that a release added."""

from math import prod
from typing import Any

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.stored import Stored
from qconfig.dialects.torchao.tensors.activation_changes import SMALL_HALVES
from qconfig.dialects.torchao.tensors.arithmetic import following, of_int8_tensor
from qconfig.dialects.torchao.tensors.reading import Context, Fields, Read, origin
from qconfig.dialects.torchao.tensors.values import int8_kwargs
from qconfig.layouts.int8 import Int8TensorLayout
from qconfig.migrations.int8_tensor_layout import (
    Int8TensorLayoutV2,
    Int8TensorLayoutV3,
    Int8TensorLayoutV4,
)
from qconfig.versioning import Layout

_ONE_BATCH = (
    "act_quant_scale has {size} entries, one for each row of a batch of that size: as in torchao, "
    "no other batch is multiplied, and there are no views"
)
_IGNORED = (
    "zero_point: torchao's own products leave out the zero points of weights, which its dequantize "
    "subtracts; here products are those of the dequantized values: an output differs by the sum of "
    "each row's zero points, times their scales and the activations"
)
_NOT_LOOKED_AT = (
    "zero_point: not looked at, since the checkpoint has much of it; where one is not 0, torchao's "
    "own products leave it out, which its dequantize subtracts, and here products are those of the "
    "dequantized values"
)
_ACTIVATIONS = ("act_quant_scale", "act_pre_scale")
_ZERO_POINTS = ("zero_point", "act_quant_zero_point")


def read_int8(stored: Stored, context: Context) -> Read:
    """Read an Int8Tensor: `qdata`, `scale`, `block_size`, and what later releases added.

    Raises:
        ContainerError or UnknownFieldError: fields that no release wrote.
        LayoutError: tensors that do not fit each other.
    """
    fields = Fields(stored)
    newest = "reduce_range" in fields
    has_zero_points = newest or any(name in fields for name in _ZERO_POINTS)
    has_scales = has_zero_points or any(name in fields for name in _ACTIVATIONS)
    shared: dict[str, Any] = {
        "qdata": fields.tensor("qdata"),
        "scale": fields.tensor("scale"),
        "block_size": fields.sizes("block_size"),
        "dtype": fields.dtype,
        "act_quant_kwargs": int8_kwargs(fields.take("act_quant_kwargs", None)),
    }
    if has_scales:
        shared |= {name: fields.optional_tensor(name) for name in _ACTIVATIONS}
    if has_zero_points:
        shared |= {name: fields.optional_tensor(name) for name in _ZERO_POINTS}
    layout: Layout
    if newest:
        reduce_range = fields.optional("reduce_range", bool)
        layout, releases = Int8TensorLayout(**shared, reduce_range=bool(reduce_range)), "0.18"
    elif has_zero_points:
        layout, releases = Int8TensorLayoutV4(**shared), "0.17"
    elif has_scales:
        layout, releases = Int8TensorLayoutV3(**shared), "0.16"
    else:
        layout, releases = Int8TensorLayoutV2(**shared), "0.15"
        if stored.path is None:  # torchao's safetensors begin with 0.16 and leave out what is None
            releases = "0.16"
    fields.done()
    notes: tuple[str, ...] = ()
    kwargs, static = shared["act_quant_kwargs"], shared.get("act_quant_scale")
    if static is not None and prod(static.shape) not in (1, shared["qdata"].shape[-1]):
        notes = (_ONE_BATCH.format(size=prod(static.shape)),)
    if kwargs is not None and not newest and releases != "0.15" and static is None:
        notes += (SMALL_HALVES,) if shared["dtype"] is DType.FLOAT16 else ()
    read = Read(layout, origin(stored, context.releases(releases), changes=notes))
    if _ignores_zero_points(shared):
        read = _noting_zero_points(read, shared["zero_point"], context)
    if kwargs is None or newest:
        return read
    release = (0, 15) if releases == "0.15" else (0, 17)
    return following(read.at_least(5), of_int8_tensor(release))


def _noting_zero_points(read: Read, zero_point: LazyTensor, context: Context) -> Read:
    if not context.looks.allow(zero_point):
        return read.noting(ambiguities=(_NOT_LOOKED_AT,))
    return read.noting(changes=(_IGNORED,)) if bool(zero_point.load().any()) else read


def _ignores_zero_points(shared: dict[str, Any]) -> bool:
    """Return whether torchao's product is one without zero points: all but by groups."""
    zero_point: LazyTensor | None = shared.get("zero_point")
    by_groups = shared["block_size"][-1:] < shared["qdata"].shape[-1:]
    return zero_point is not None and not (by_groups and shared["act_quant_kwargs"] is None)
