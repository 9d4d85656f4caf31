"""What is asserted of a result: that it matches an expectation, and that it is consistent."""

from collections.abc import Mapping
from typing import Any

import torch

from tests.compatibility.brevitas_cases import FLOAT, GROUP_FLOAT, GROUP_INT, INT, Family, tensor

# Numbers, whose type means nothing.
_WIDTHS = ("bit_width", "exponent_bias")
# Products and means sum in an order of their own; all else is the same bits.
REORDERED = ("linear", "conv", "matmul", " @ ", "pool", "interpolate", "mean")


def tolerance(case: Mapping[str, Any]) -> float:
    """Return the relative difference that values of `case` may have."""
    given = case.get("tolerance")
    if given is not None:
        return float(given)
    return 1e-6 if any(word in case["expr"] for word in REORDERED) else 0.0


def differences(want: Any, got: Any, rtol: float = 0.0, at: str = "") -> list[str]:
    """Return where `got` departs from `want`; what `want` does not mention may be anything.

    An expectation is a description as `describe` makes it, with these besides: `{"any_of": [...]}`
    where several answers are right, `{"values": ...}` for a plain tensor or any quant tensor with
    these values, `bit_width_at_least`.
    """
    if isinstance(want, dict):
        return _dict_differences(want, got, rtol, at)
    if isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        pairs = enumerate(zip(want, got, strict=True))
        return [d for i, (w, g) in pairs for d in differences(w, g, rtol, f"{at}[{i}]")]
    if want is None and _no_gradient(got, want):
        return []
    return [] if _same(want, got) else [f"{at}: expected {_short(want)}, found {_short(got)}"]


def _dict_differences(want: dict[str, Any], got: Any, rtol: float, at: str) -> list[str]:
    if "any_of" in want:
        tries = [differences(each, got, rtol, at) for each in want["any_of"]]
        return [] if not all(tries) else min(tries, key=len)
    if _no_gradient(want, got):
        return []
    if not isinstance(got, dict) or "error" in want or "error" in got:
        both = isinstance(got, dict) and "error" in want and "error" in got
        return [] if both else [f"{at}: expected {_short(want)}, found {_short(got)}"]
    if "data" in want:
        return _tensor_differences(want, got, rtol, at)
    problems: list[str] = []
    for key, expected in want.items():
        if key == "values":
            problems += differences(expected, got.get("value", got), rtol, f"{at}.value")
        elif key == "bit_width_at_least":
            if "bit_width" in got and got["bit_width"]["data"] < expected:
                problems.append(f"{at}.bit_width: expected >= {expected}, found {got['bit_width']}")
        elif key not in got:
            problems.append(f"{at}.{key}: missing")
        else:
            problems += differences(expected, got[key], rtol, f"{at}.{key}")
    return problems


def _no_gradient(zeros: Any, nothing: Any) -> bool:
    # What does not depend on a leaf has the gradient None or zeros, as it was computed.
    is_tensor = isinstance(zeros, dict) and "data" in zeros
    return nothing is None and is_tensor and not tensor(zeros).any()


def _same(want: Any, got: Any) -> bool:
    if isinstance(got, dict) and got.get("type") == "Tensor" and got["shape"] == []:
        got = got["data"]  # a property may be a number or a 0-d tensor
    return bool(want == got)


def _short(value: Any) -> str:
    if isinstance(value, dict) and "error" in value:
        return f"{value['error']['type']}({value['error']['message'][:90]!r})"
    return str(value)[:200]


def _tensor_differences(
    want: Mapping[str, Any], got: Mapping[str, Any], rtol: float, at: str
) -> list[str]:
    if "data" not in got:
        return [f"{at}: expected a tensor, found {got.get('type')}"]
    problems = [
        f"{at}.{key}: expected {want[key]}, found {got[key]}"
        for key in ("dtype", "shape")
        if want[key] != got[key] and not (key == "dtype" and at.endswith(_WIDTHS))
    ]
    if want["shape"] != got["shape"]:
        return problems
    a, b = tensor(want).double(), tensor(got).double()
    if not torch.allclose(a, b, rtol=rtol, atol=rtol, equal_nan=True):
        problems.append(f"{at}: expected {want['data']}, found {got['data']}")
    return problems


def inconsistencies(value: Any, family: Family) -> list[str]:
    """Return what is wrong with a quant tensor in itself; a plain tensor has nothing to be wrong.

    Metadata must broadcast to the shape without enlarging it; a valid tensor gives integers (or
    minifloats) of its own shape, in range, that stand for its value; an invalid one refuses to.
    """
    kind = family.name(value)
    if kind is None:
        parts = value if isinstance(value, list | tuple) else ()
        return [p for each in parts for p in inconsistencies(each, family)]
    shape, problems = value.value.shape, []
    for name in ("scale", "zero_point"):
        field = getattr(value, name).shape
        try:
            fits = torch.broadcast_shapes(field, shape) == shape
        except RuntimeError:
            fits = False
        # One element is a number, whatever its rank.
        if not fits and field.numel() != 1:
            problems.append(f"{name} {tuple(field)} does not fit {tuple(shape)}")
    if kind in (GROUP_INT, GROUP_FLOAT) and tuple(value.dequant_shape) != tuple(shape):
        problems.append(f"dequant_shape {value.dequant_shape} for {tuple(shape)}")
    problems += [
        f"{name} is {getattr(value, name)!r}"
        for name in ("signed", "training")
        if not isinstance(getattr(value, name), bool)
    ]
    if problems or not shape.numel():
        return problems
    return _payload_problems(value, kind)


def _payload_problems(value: Any, kind: str) -> list[str]:
    payload = value.int if kind in (INT, GROUP_INT) else value.minifloat
    if not bool(value.is_valid):
        try:
            payload()
        except (RuntimeError, ValueError):
            return []
        return ["an invalid tensor gave its payload"]
    codes, shape = payload().double(), value.value.shape
    if codes.shape != shape:
        return [f"payload {tuple(codes.shape)} for {tuple(shape)}"]
    scale, shift = value.scale.double(), value.zero_point.double()
    if kind in (FLOAT, GROUP_FLOAT):
        shift = torch.zeros(())
    else:
        bits = value.bit_width.double()
        low = -(2 ** (bits - 1)) if value.signed else torch.zeros(())
        high = 2 ** (bits - 1) - 1 if value.signed else 2**bits - 1
        binary = bool((bits < 2).all())
        if not binary and bool(((codes < low) | (codes > high)).any()):
            return [f"integers out of range for {value.bit_width} bits"]
    gap = ((codes - shift) * scale - value.value.double()).abs()
    # A valid value lies nearer to its own step than to another; minifloats are themselves steps.
    allowed = 0.51 * scale.abs() if kind in (INT, GROUP_INT) else 0.01 * value.value.double().abs()
    return [] if bool((gap <= allowed + 1e-6).all()) else ["payload stands for other values"]
