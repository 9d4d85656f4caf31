"""Modules that torchao put in place of linears: their state_dict has plain tensors only.

`Int8DynActInt4WeightLinear` (8da4w) of every release has `weight`, int8 codes from -8 to 7 of shape
(N, K), and `scales` and `zeros` of shape (N, K/g); it quantizes each token of an activation to int8
with a zero point, and multiplies with `(weight - zeros) * scales`.
"""

from collections.abc import Iterator, Mapping

from attrs import frozen

from qconfig.checkpoints.origin import Origin
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.tensors import activation_changes as changes
from qconfig.dialects.torchao.tensors.arithmetic import of_swapped_module
from qconfig.dialects.torchao.tensors.reading import Read
from qconfig.migrations.intx_unpacked_to_int8_tensor_layout import (
    InputQuantFunction,
    IntxUnpackedToInt8TensorLayoutV1,
)

_WEIGHT, _SCALES, _ZEROS, _BIAS = "weight", "scales", "zeros", "bias"
_SHOWN_BY_NAMES = (
    "the file has plain tensors: that weight, scales and zeros are those of an "
    "Int8DynActInt4WeightLinear, which quantizes activations, is known by their names and types"
)
_NO_BIAS = "the file has no bias: up to 0.9 torchao's module left out that of the linear"


@frozen
class Swapped:
    """The weight of a module that was put in place of a linear.

    Args:
        fqn: name of the weight.
        read: the weight.
        names: tensors of the state_dict that it was made of.
    """

    fqn: str
    read: Read
    names: tuple[str, ...]


def swapped_modules(plain: Mapping[str, LazyTensor]) -> tuple[Swapped, ...]:
    """Return the weights of swapped modules among the plain tensors of a state_dict.

    Args:
        plain: tensors by name.

    Raises:
        LayoutError: tensors with such names and types that do not fit each other.
    """
    return tuple(_swapped(plain))


def _swapped(plain: Mapping[str, LazyTensor]) -> Iterator[Swapped]:
    for fqn, codes in plain.items():
        module, _, last = fqn.rpartition(".")
        prefix = f"{module}." if module else ""
        scales, zeros = plain.get(prefix + _SCALES), plain.get(prefix + _ZEROS)
        if last != _WEIGHT or codes.dtype is not DType.INT8 or scales is None or zeros is None:
            continue
        rows = codes.shape[:-1]
        if len(codes.shape) != 2 or scales.shape != zeros.shape or scales.shape[:-1] != rows:
            continue
        groups = scales.shape[-1]
        if not groups or codes.shape[-1] % groups or not scales.dtype.is_float:
            continue
        layout = IntxUnpackedToInt8TensorLayoutV1(
            codes,
            scales,
            (1, codes.shape[-1] // groups),
            scales.dtype,
            zero_point=zeros,
            quant_min=-8,
            quant_max=7,
            input_quant_func=InputQuantFunction.INT8_ASYMM_PER_TOKEN,
        )
        origin = Origin(
            "Int8DynActInt4WeightLinear",
            "0.3 and later",
            changes=(changes.SWAPPED_ZERO_POINTS, changes.PRODUCT),
            ambiguities=(_SHOWN_BY_NAMES,)
            if prefix + _BIAS in plain
            else (_SHOWN_BY_NAMES, _NO_BIAS),
        )
        read = Read(layout, origin).at_least(3).with_fields(arithmetic=of_swapped_module())
        yield Swapped(fqn, read, (fqn, prefix + _SCALES, prefix + _ZEROS))
