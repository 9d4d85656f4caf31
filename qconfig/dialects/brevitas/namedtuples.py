"""Brevitas' NamedTuples by their fields, both ways; Brevitas itself is not imported.

`from_fields("IntQuantTensor", q)` reads a NamedTuple `q` of Brevitas, and
`brevitas.quant_tensor.IntQuantTensor(*to_fields(tensor).values())` makes one.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qconfig.dialects.brevitas.fields import named
from qconfig.dialects.brevitas.forms import BY_NAME, Form, by_names, lengths, of_length
from qconfig.dialects.brevitas.tensors import read_tensor
from qconfig.errors import InexactWarning, LayoutError, UsageError, nearest
from qconfig.versioning import registry

if TYPE_CHECKING:
    import torch


def from_fields(class_name: str, fields: Mapping[str, Any] | Sequence[Any]) -> "torch.Tensor":
    """Return our tensor for a NamedTuple of Brevitas.

    Args:
        class_name: `IntQuantTensor`, `FloatQuantTensor`, `GroupwiseIntQuantTensor` or
            `GroupwiseFloatQuantTensor`, which ours have too.
        fields: of the NamedTuple, in its order (6, 11, 9 or 14; the groupwise ones of 0.11 have
            one less), or by name, with or without the suffixes of stored names.

    Returns:
        A tensor of the same class name, with the same values. What a release wrote wrongly is put
        right, and an InexactWarning says so.

    Raises:
        UsageError: there is no such class.
        LayoutError: fields lack, are of a wrong kind, or contradict each other.
    """
    from qconfig.tensors.classes import tensor_class_of

    form, given = _given(class_name, fields)
    read = read_tensor(form, given, class_name)
    if not read.origin.exact:
        said = (*read.origin.changes, *read.origin.ambiguities)
        warnings.warn(f"{class_name}: " + "; ".join(said), InexactWarning, stacklevel=2)
    current = registry.convert(read.layout)
    tensor: torch.Tensor = tensor_class_of(type(current)).from_layout(current)
    return tensor


def to_fields(tensor: "torch.Tensor") -> dict[str, Any]:
    """Return the fields of the NamedTuple that Brevitas 0.12 and 0.13 have for a tensor of ours.

    Args:
        tensor: of one of the four fake-quantized classes, with its value.

    Returns:
        Fields by their stored names, in the order of the NamedTuple. Flags are 0-d bool tensors,
        as Brevitas has them; tensors are those of `tensor`, not copies.

    Raises:
        UsageError: a tensor of another class.
    """
    import torch

    form = BY_NAME.get(type(tensor).__name__)
    if form is None or not hasattr(tensor, "to_layout"):
        raise UsageError(
            "Brevitas has no class for a tensor",
            found=type(tensor).__name__,
            expected="one of " + ", ".join(BY_NAME),
        )
    layout: Any = tensor.to_layout()
    values = {name: _PUBLIC[name](layout) for name in form.fields}
    return {
        name: torch.tensor(value) if type(value) is bool else value
        for name, value in values.items()
    }


def _given(
    class_name: str, fields: Mapping[str, Any] | Sequence[Any]
) -> tuple[Form, Mapping[str, Any]]:
    form = BY_NAME.get(class_name)
    if form is None:
        raise UsageError(
            "Brevitas has no such class of quantized tensors",
            found=class_name,
            expected="one of " + ", ".join(BY_NAME),
            hint=nearest(class_name, BY_NAME),
        )
    if isinstance(fields, Mapping):
        exact = by_names(frozenset(fields))
        if exact is None or exact.name != class_name:
            raise LayoutError(
                f"not the fields of a {class_name}",
                found=sorted(map(str, fields)),
                expected=", ".join(form.fields),
            )
        return exact, fields
    exact = of_length(form, len(fields))
    if exact is None:
        raise LayoutError(
            f"a {class_name} has a wrong number of fields",
            found=f"{len(fields)} fields",
            expected=f"{lengths(form)} fields",
        )
    return exact, named(exact, fields)


_PUBLIC: Mapping[str, Any] = {
    "value": lambda layout: layout.value,
    "scale": lambda layout: layout.scale,
    "zero_point": lambda layout: layout.zero_point,
    "value_": lambda layout: layout.value,
    "scale_": lambda layout: layout.scale,
    "zero_point_": lambda layout: layout.zero_point,
    "bit_width": lambda layout: layout.bit_width,
    "group_size": lambda layout: layout.group_size,
    "group_dim": lambda layout: layout.group_dim,
    "exponent_bit_width": lambda layout: layout.exponent_bit_width,
    "mantissa_bit_width": lambda layout: layout.mantissa_bit_width,
    "exponent_bias": lambda layout: layout.exponent_bias,
    "saturating_t": lambda layout: layout.saturating,
    "inf_values": lambda layout: layout.inf_values,
    "nan_values": lambda layout: layout.nan_values,
    "signed_t": lambda layout: layout.signed,
    "training_t": lambda layout: layout.training,
    "dequant_shape": lambda layout: layout.dequant_shape,
}
