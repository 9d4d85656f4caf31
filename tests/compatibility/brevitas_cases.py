"""Numeric cases of Brevitas' quant tensors: build the inputs, evaluate, describe, compare.

A case names an expression, its inputs, and what Brevitas 0.13.4 made of them. The same code builds
Brevitas' objects, when cases are generated, and ours, when they are tested: a `Family` says which
classes to use. Whatever comes out is described as plain data, and two descriptions are compared.
"""

import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from attrs import frozen
from torch.nn import functional as F  # noqa: N812  # as the expressions have it

Description = Any
INT, FLOAT = "IntQuantTensor", "FloatQuantTensor"
GROUP_INT, GROUP_FLOAT = "GroupwiseIntQuantTensor", "GroupwiseFloatQuantTensor"
_GROUPED = (GROUP_INT, GROUP_FLOAT)
_WIDTHS = {
    INT: ("bit_width",),
    GROUP_INT: ("bit_width",),
    FLOAT: ("exponent_bit_width", "mantissa_bit_width", "exponent_bias"),
    GROUP_FLOAT: ("exponent_bit_width", "mantissa_bit_width", "exponent_bias"),
}


@frozen
class Family:
    """The four classes under test, by the names that cases use, and how to see their storage.

    Args:
        classes: class by name; constructors take Brevitas' public keyword names.
        stored: gives value, scale and zero point of a groupwise tensor in grouped form.
    """

    classes: Mapping[str, type]
    stored: Callable[[Any], tuple[torch.Tensor, torch.Tensor, torch.Tensor]]

    def name(self, value: object) -> str | None:
        """Return which of the four `value` is, or None."""
        return next((n for n, c in self.classes.items() if isinstance(value, c)), None)


def ours() -> Family:
    """Return the classes of this package."""
    from qconfig.tensors.quant_tensor import (
        FloatQuantTensor,
        GroupwiseFloatQuantTensor,
        GroupwiseIntQuantTensor,
        IntQuantTensor,
    )

    return Family(
        {
            INT: IntQuantTensor,
            FLOAT: FloatQuantTensor,
            GROUP_INT: GroupwiseIntQuantTensor,
            GROUP_FLOAT: GroupwiseFloatQuantTensor,
        },
        lambda x: (x.grouped_value, x.grouped_scale, x.grouped_zero_point),
    )


def theirs() -> Family:
    """Return the classes of the installed Brevitas."""
    from brevitas import quant_tensor as peer

    return Family(
        {
            INT: peer.IntQuantTensor,
            FLOAT: peer.FloatQuantTensor,
            GROUP_INT: peer.GroupwiseIntQuantTensor,
            GROUP_FLOAT: peer.GroupwiseFloatQuantTensor,
        },
        lambda x: (x.value_, x.scale_, x.zero_point_),
    )


def load(path: Path) -> dict[str, dict[str, Any]]:
    """Return the cases of a file by id; inputs given by name are looked up in its pool."""
    document = json.loads(path.read_text("utf-8"))
    document |= {part: expand(document[part]) for part in ("pool", "cases") if part in document}
    pool = document.get("pool", {})
    cases = {case["id"]: case for case in document["cases"]}
    for name, case in cases.items():
        if case.get("group") == "autograd":
            cases[name] = gradient_case(case)
            continue
        given = case.get("inputs", {}).items()
        case["inputs"] = {n: pool[d] if isinstance(d, str) else d for n, d in given}
    return cases


# The reference set describes its gradients in words.
_GRADIENTS = {
    "grad_value_sum": "q.value.sum()",
    "grad_mul": "(q * q).value.sum()",
    "grad_view": "q.view(-1).value.sum()",
    "grad_fallback_matmul": "torch.matmul(q, torch.ones(2, 2)).sum()",
}


def gradient_case(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return a case of the reference set's group `autograd` in the form of the others."""
    given, result = case["inputs"], case["result"]
    numbers = {n: given[n] for n in ("value", "scale", "zero_point", "bit_width")}
    flags = {n: given[n] for n in ("signed", "training")}
    grads = {f"q.{n}": result[f"grad_{n}"] for n in ("value", "scale")}
    return {
        "id": case["id"],
        "verdict": case["verdict"],
        "expr": _GRADIENTS[case["id"]],
        "inputs": {"q": {"type": INT, **expand(numbers), **flags}},
        "grad": {"q": ["value", "scale"]},
        "result": {"grads": {n: g if g is None else expand(g, "value") for n, g in grads.items()}},
    }


# Under these names a file may have bare numbers for a float32 tensor.
_TENSORS = {
    *("value", "scale", "zero_point", "value_storage", "scale_storage", "zero_point_storage"),
    *("minifloat", "values", *_WIDTHS[INT], *_WIDTHS[FLOAT]),
}


def expand(data: Any, name: str = "") -> Any:
    """Return `data` of a file with all tensors as dtype, shape and data."""
    if isinstance(data, dict):
        return {k: v if k in ("options", "steps") else expand(v, k) for k, v in data.items()}
    if name in _TENSORS and isinstance(data, int | float | str | list):
        return {"dtype": "torch.float32", "shape": _shape(data), "data": data}
    return [expand(each) for each in data] if isinstance(data, list) else data


def shorten(data: Any, name: str = "") -> Any:
    """Return what `expand` gives back as `data`."""
    if isinstance(data, dict):
        bare = name in _TENSORS and data.get("dtype") == "torch.float32"
        if bare and data.keys() == {"dtype", "shape", "data"} and 0 not in data["shape"]:
            return data["data"]
        return {key: shorten(each, key) for key, each in data.items()}
    return [shorten(each) for each in data] if isinstance(data, list) else data


def _shape(data: Any) -> list[int]:
    return [len(data), *_shape(data[0])] if isinstance(data, list) else []


def tensor(described: Mapping[str, Any]) -> torch.Tensor:
    """Return the tensor that `described` (dtype, shape, data) stands for."""
    dtype = getattr(torch, described["dtype"].removeprefix("torch."))
    flat = [float(v) if isinstance(v, str) else v for v in _flat(described["data"])]
    return torch.tensor(flat, dtype=dtype).reshape(described["shape"])


def _flat(data: Any) -> Iterator[Any]:
    if isinstance(data, list):
        for each in data:
            yield from _flat(each)
    else:
        yield data


def build(described: Mapping[str, Any], family: Family, grad: Sequence[str] = ()) -> Any:
    """Return the input that `described` stands for; the fields in `grad` are made to require it."""
    kind = described["type"]
    if kind == "Tensor":
        return tensor(described).requires_grad_("" in grad)
    suffix = "_storage" if kind in _GROUPED else ""
    fields = {n: tensor(described[n + suffix]) for n in ("value", "scale", "zero_point")}
    fields |= {name: tensor(described[name]) for name in _WIDTHS[kind]}
    for name in grad:
        fields[name].requires_grad_()
    flags: dict[str, Any] = {n: described[n] for n in ("signed", "training")}
    if "saturating" in described:
        flags["saturating"] = described["saturating"]
        flags |= {n: _tuple(described[n]) for n in ("inf_values", "nan_values")}
    if kind in _GROUPED:
        flags |= {n: described[n] for n in ("group_size", "group_dim")}
        flags["dequant_shape"] = _tuple(described["dequant_shape"])
    made = family.classes[kind](**fields, **flags)
    if grad:
        _LEAVES[id(made)] = fields
    return made


# Leaves of the inputs of the case at hand: classes may hand out aliases of what they were given.
_LEAVES: dict[int, dict[str, torch.Tensor]] = {}


def _tuple(value: list[Any] | None) -> tuple[Any, ...] | None:
    return None if value is None else tuple(value)


def outcome(case: Mapping[str, Any], family: Family, names: Mapping[str, Any] | None = None) -> Any:
    """Return what the expression of `case` gives, or the exception that it raises.

    Args:
        case: expr, inputs, and for gradients `grad`, the fields to differentiate by input.
        family: whose classes to build.
        names: what the expression may use beside torch, F, T, the classes and the inputs.
    """
    grad: Mapping[str, list[str]] = case.get("grad", {})
    _LEAVES.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            inputs = {n: build(d, family, grad.get(n, ())) for n, d in case["inputs"].items()}
            scope = {"torch": torch, "F": F, "T": torch.tensor, **family.classes, **(names or {})}
            out = eval(case["expr"], scope | inputs)  # noqa: S307  # the repository's own
            return _differentiated(out, inputs, grad) if grad else out
        except Exception as error:  # noqa: BLE001  # any exception is a result
            return error


def _differentiated(out: Any, inputs: Any, grad: Mapping[str, list[str]]) -> dict[str, Any]:
    leaves = {
        f"{n}.{field}": _LEAVES[id(inputs[n])][field] if field else inputs[n]
        for n, fields in grad.items()
        for field in fields
    }
    grads = torch.autograd.grad(out, list(leaves.values()), allow_unused=True)
    return {"loss": out.detach(), "grads": dict(zip(leaves, grads, strict=True))}


def evaluate(
    case: Mapping[str, Any], family: Family, names: Mapping[str, Any] | None = None
) -> Description:
    """Return the description of the outcome of `case`."""
    return describe(outcome(case, family, names), family)


def _error(error: Exception) -> Description:
    return {"error": {"type": type(error).__name__, "message": str(error).split("\n", 1)[0]}}


def describe(value: Any, family: Family) -> Description:
    """Return `value` as plain data, in the form of the reference set."""
    kind = family.name(value)
    if kind is not None:
        return {"type": kind, **_describe_fields(value, kind, family)}
    if isinstance(value, torch.Tensor):
        return {"type": "Tensor", **_plain(value)}
    if isinstance(value, list | tuple):
        items = [describe(v, family) for v in value]
        return {"type": type(value).__name__, "len": len(items), "items": items}
    if isinstance(value, dict):
        return {name: describe(each, family) for name, each in value.items()}
    if isinstance(value, Exception):
        return _error(value)
    return str(value) if isinstance(value, torch.dtype) else value


def _describe_fields(value: Any, kind: str, family: Family) -> dict[str, Description]:
    got: dict[str, Description] = {}
    if kind in _GROUPED:
        stored = zip(("value", "scale", "zero_point"), family.stored(value), strict=True)
        got |= {f"{name}_storage": _plain(field) for name, field in stored}
        got |= {n: getattr(value, n) for n in ("group_size", "group_dim")}
        got["dequant_shape"] = _list(value.dequant_shape)
    for name in ("value", "scale", "zero_point", *_WIDTHS[kind]):
        got[name] = _attempt(partial(_field, value, name))
    if kind in (FLOAT, GROUP_FLOAT):
        got["saturating"] = _scalar(value.saturating)
        got |= {n: _list(getattr(value, n)) for n in ("inf_values", "nan_values")}
        got["minifloat"] = _attempt(lambda: _plain(value.minifloat()))
    got |= {n: _scalar(getattr(value, n)) for n in ("signed", "training")}
    got["is_valid"] = _attempt(lambda: _scalar(value.is_valid))
    got["int"] = _attempt(lambda: _plain(value.int()))
    return got


def _field(value: Any, name: str) -> Description:
    return _plain(getattr(value, name))


def _attempt(make: Callable[[], Description]) -> Description:
    try:
        return make()
    except Exception as error:  # noqa: BLE001  # any exception is a result
        return _error(error)


def _list(values: Sequence[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)


def _scalar(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) else value


def _plain(value: torch.Tensor) -> dict[str, Any]:
    value = value.detach().cpu()
    return {"dtype": str(value.dtype), "shape": list(value.shape), "data": _json(value.tolist())}


def _json(data: Any) -> Any:
    if isinstance(data, list):
        return [_json(v) for v in data]
    if isinstance(data, float) and not math.isfinite(data):
        return str(data)
    return data
