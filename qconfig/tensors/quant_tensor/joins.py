"""Joining quant tensors: `cat`. Metadata has to agree, or lies along the dimension of joining."""

from collections.abc import Callable
from typing import Any

import torch

from qconfig.errors import QuantTensorError
from qconfig.tensors.quant_tensor.dispatch import run_on_values
from qconfig.tensors.quant_tensor.fields import is_real
from qconfig.tensors.quant_tensor.metadata_moves import aligned, remade
from qconfig.tensors.quant_tensor.operands import first_entries
from qconfig.tensors.quant_tensor.rules import Rule

_CLOSE = 1e-5
_SHOWN = {
    "scale": "scales",
    "zero_point": "zero points",
    "bit_width": "bit widths",
    "exponent_bit_width": "exponent bit widths",
    "mantissa_bit_width": "mantissa bit widths",
    "exponent_bias": "exponent biases",
    "signed": "signs",
}


def _cat(kind: str) -> Callable[..., Any]:
    def apply(func: Any, tensors: Any, *args: Any, **options: Any) -> Any:
        tensors = tuple(tensors)
        if "out" in options or any(getattr(type(t), "kind", "") != kind for t in tensors):
            return run_on_values(func, (tensors, *args), options)
        if len(tensors) == 1:
            return tensors[0]
        training = any(t.training for t in tensors)
        _check_formats(tensors)
        value = func([t.value for t in tensors], *args, **options)
        dim = args[0] if args else options.get("dim", options.get("axis", 0))
        rank = value.dim()
        scale = _joined("scale", tensors, dim % rank, rank, training=training)
        zero_point = _joined("zero_point", tensors, dim % rank, rank, training=training)
        result = {"value": value, "scale": scale, "zero_point": zero_point, "training": training}
        if all(t.is_symmetric for t in tensors):
            return remade(tensors[0], **result)
        cls, first = type(tensors[0]), tensors[0]
        numbers = {name: first.number(name) for name in cls.fields.numbers}
        return cls.made(**(first.inner_attributes | numbers | result))

    return apply


def _check_formats(tensors: tuple[Any, ...]) -> None:
    first, cls = tensors[0], type(tensors[0])
    for other in tensors[1:]:
        for name in cls.fields.numbers:
            own, wanted = first.number(name), other.number(name)
            if isinstance(own, int) and isinstance(wanted, int):
                if own != wanted:
                    raise _different(name, own, wanted)
            else:
                _check_equal(name, getattr(first, name), getattr(other, name), 0.0)
        for name in cls.fields.attributes:
            own, wanted = first.inner_attributes[name], other.inner_attributes[name]
            if own != wanted and name != "training":
                raise _different(name, own, wanted)


def _joined(
    name: str, tensors: tuple[Any, ...], dim: int, rank: int, *, training: bool
) -> torch.Tensor:
    fields: list[torch.Tensor] = [getattr(t, name) for t in tensors]
    sizes = [t.logical_shape[dim] for t in tensors]
    varied = [f.numel() != 1 and aligned(f, rank).shape[dim] != 1 for f in fields]
    if not training and not all(v or n == 1 for v, n in zip(varied, sizes, strict=True)):
        for field in fields[1:]:
            _check_equal(name, fields[0], field, _CLOSE if name == "scale" else 0.0)
    if any(varied):
        return _concatenated(fields, sizes, dim, rank)
    if not training:
        return fields[0]
    total = fields[0]
    for field in fields[1:]:
        total = total + field
    return total / len(fields)


def _concatenated(
    fields: list[torch.Tensor], sizes: list[int], dim: int, rank: int
) -> torch.Tensor:
    fields = [f.reshape(()) if f.numel() == 1 else aligned(f, rank) for f in fields]
    shape = [1] * rank
    for field in fields:
        for i, size in enumerate(field.shape):
            shape[i] = max(shape[i], size)
    parts = []
    for field, size in zip(fields, sizes, strict=True):
        shape[dim] = size
        parts.append(field.expand(shape))
    return torch.cat(parts, dim)


def _check_equal(name: str, own: torch.Tensor, other: torch.Tensor, rtol: float) -> None:
    if own is other:
        return
    with torch.no_grad():
        if is_real(own) and is_real(other):
            if own.shape == other.shape and torch.equal(own, other):
                return
            if not torch.isclose(own, other, rtol, 0).all():
                raise _different(name, first_entries(own), first_entries(other))
            return
        equal = torch.isclose(own, other, rtol, 0).all()
        torch._assert_async(equal, f"the {_SHOWN[name]} of joined tensors differ")  # noqa: SLF001


def _different(name: str, own: Any, other: Any) -> QuantTensorError:
    return QuantTensorError(
        f"the {_SHOWN.get(name, name)} of joined tensors differ",
        found=f"{own} and {other}",
        expected="one for all; scales and zero points may differ in training, and along the "
        "dimension of joining",
        hint="quantize all alike, or join their .value",
    )


_FUNCTIONS = (torch.cat, torch.concat, torch.concatenate)
_AGREE = "an error where they differ; of one tensor: that tensor; plain, unless all are "
_METADATA = {
    "value": "joined",
    "scale": "that of all, joined if it varies along dim; in training the mean",
    "zero_point": "as scale",
    "training": "any training",
}

INT_JOINS = (
    Rule(
        "cat(tensors, dim)",
        _FUNCTIONS,
        _cat("int"),
        _METADATA | {"bit_width": "that of all", "signed": "that of all"},
        f"{_AGREE}IntQuantTensors",
    ),
)
FLOAT_JOINS = (
    Rule(
        "cat(tensors, dim)",
        _FUNCTIONS,
        _cat("float"),
        _METADATA
        | {
            "exponent_bit_width": "that of all",
            "mantissa_bit_width": "that of all",
            "exponent_bias": "that of all",
            "saturating": "that of all",
            "inf_values": "that of all",
            "nan_values": "that of all",
            "signed": "that of all",
        },
        f"{_AGREE}FloatQuantTensors",
    ),
)
