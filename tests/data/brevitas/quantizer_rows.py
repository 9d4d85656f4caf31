"""Cases of Brevitas' quantizers, and of the modules that work on quant tensors.

A quantizer's case names the class of `brevitas.quant` and the options that it is given with `let`.
`wq`: a `QuantLinear` or `QuantConv2d` without bias whose weight is W, in eval mode, and its
`quant_weight()`. `act`: a `QuantIdentity` that returns quant tensors, in eval mode; `calibrated`:
the same after a step of training on each of `steps`.
"""

import inspect
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from brevitas import nn as qnn
from brevitas.inject import ExtendedInjector
from brevitas.quant import (
    fixed_point,
    float_quant_fnuz,
    float_quant_ocp,
    mx_quant_ocp,
    scaled_int,
    shifted_scaled_int,
)
from brevitas.quant import float as float_quant
from brevitas.quant_tensor import IntQuantTensor

from tests.compatibility import brevitas_cases as cases
from tests.data.brevitas.rows import iq, numbered

NAMES = (
    "exprs use torch, F = torch.nn.functional, T = torch.tensor, the four classes and the inputs; "
    "a bare number or list is a float32 tensor; nan, inf and -inf are strings"
)
_MODULES = (
    fixed_point,
    float_quant,
    float_quant_fnuz,
    float_quant_ocp,
    mx_quant_ocp,
    scaled_int,
    shifted_scaled_int,
)
QUANTIZERS = {
    name: found
    for module in _MODULES
    for name, found in inspect.getmembers(module, inspect.isclass)
    if issubclass(found, ExtendedInjector)
}

_W = [[1.0, -0.5, 0.25, 0.1], [0.05, -0.9, 0.3, 0.7]]
_W5 = [[1.0, -0.5, 0.25, 0.1, 3.0], [0.05, -0.9, 0.3, 0.7, -0.001], [12.0, 5.0, -7.5, 0.0, 0.3]]
WEIGHTS: dict[str, torch.Tensor] = {
    "W": torch.tensor(_W),
    "W5": torch.tensor(_W5),
    "Wpos": torch.tensor(_W).abs() + 0.5,
    "Wneg": -torch.tensor(_W).abs() - 0.25,
    "Wzero": torch.tensor([[0.0, 0.0, 0.0], [1.0, -2.0, 0.5]]),
    "Wbig": torch.tensor([[1e4, -3e-5, 17.0], [0.5, 2.5, -1.5]]),
    "Wbf": torch.tensor(_W, dtype=torch.bfloat16),
    "Wd": torch.tensor(_W, dtype=torch.float64),
    "Wconv": torch.tensor(numbered((3, 2, 2, 2))) / 7,
}
ACTS: dict[str, torch.Tensor] = {
    "x": torch.tensor(_W5),
    "x3": torch.tensor(numbered((2, 3, 5))) / 3,
    "x4": torch.tensor(numbered((1, 4, 2, 2))) / 3,
}

_WIDTHS: dict[str, dict[str, Any]] = {
    "": {},
    "bits_4": {"bit_width": 4},
    "bits_2": {"bit_width": 2},
    "bits_6": {"bit_width": 6},
}
_ROUNDINGS = ("ROUND", "FLOOR", "CEIL", "ROUND_TO_ZERO")
_SMALL = {
    "e3m2": {"bit_width": 6, "exponent_bit_width": 3, "mantissa_bit_width": 2},
    "e2m3": {"bit_width": 6, "exponent_bit_width": 2, "mantissa_bit_width": 3},
    "e2m1": {"bit_width": 4, "exponent_bit_width": 2, "mantissa_bit_width": 1},
    "e5m2": {"bit_width": 8, "exponent_bit_width": 5, "mantissa_bit_width": 2},
}


def _integers() -> list[tuple[str, str, str, dict[str, Any]]]:
    rows = []
    for name in (
        "Int8WeightPerTensorFloat",
        "Int8WeightPerChannelFloat",
        "Int8WeightPerTensorFixedPoint",
        "Int8WeightPerChannelFixedPoint",
        "ShiftedUint8WeightPerTensorFloat",
        "ShiftedUint8WeightPerChannelFloat",
    ):
        rows += [(f"{name}_{n}", name, "W", options) for n, options in _WIDTHS.items()]
        rows += [(f"{name}_{w}", name, w, {}) for w in ("W5", "Wpos", "Wneg", "Wzero", "Wbf", "Wd")]
        rows.append((f"{name}_narrow", name, "W", {"narrow_range": "Shifted" not in name}))
        rows.append((f"{name}_conv", name, "Wconv", {}))
        for rounding in _ROUNDINGS[1:]:
            options = {"float_to_int_impl_type": rounding, "bit_width": 4}
            rows.append((f"{name}_{rounding.lower()}", name, "W", options))
    symmetric = "Int8WeightPerTensorFloat"
    rows.append((f"{symmetric}_wide", symmetric, "W", {"narrow_range": False, "bit_width": 4}))
    rows.append(
        (f"{symmetric}_const", symmetric, "W", {"scaling_impl_type": "CONST", "scaling_init": 0.5})
    )
    for name in ("Int8WeightPerTensorFloatMSE", "Int8WeightPerChannelFloatMSE"):
        rows += [(f"{name}_{b}", name, "W5", {"bit_width": b}) for b in (4, 8)]
    rows.append(("shifted_mse", "ShiftedUint8WeightPerTensorFloatMSE", "W5", {"bit_width": 4}))
    return rows


def _floats() -> list[tuple[str, str, str, dict[str, Any]]]:
    rows = []
    for kind in ("OCP", "FNUZ"):
        for form in ("e4m3", "e5m2"):
            for grain in ("PerTensor", "PerChannel"):
                name = f"Fp8{form}{kind}Weight{grain}Float"
                rows += [(f"{name}_{w}", name, w, {}) for w in ("W", "W5", "Wbig", "Wzero", "Wbf")]
    for form in ("e4m3", "e5m2"):
        rows.append((f"finite_{form}", f"Fp8{form}WeightPerTensorFloat", "W5", {}))
        rows.append((f"unscaled_{form}", f"Fp8{form}OCPWeight", "Wbig", {}))
    for form, options in _SMALL.items():
        if form == "e5m2":
            continue
        for grain in ("PerTensor", "PerChannel"):
            name = f"FpOCPWeight{grain}Float"
            rows += [(f"{name}_{form}_{w}", name, w, options) for w in ("W", "W5", "Wbig")]
    return rows


def _groups() -> list[tuple[str, str, str, dict[str, Any]]]:
    rows = []
    for size in (2, 3, 4, 8):
        group = {"group_size": size}
        rows += [
            (f"mx_int_{size}", "MXInt8Weight", "W5", group),
            (f"mx_int4_{size}", "MXInt8Weight", "W5", {**group, "bit_width": 4}),
            (f"mx_uint_{size}", "ShiftedMXUInt8Weight", "W5", group),
            (f"mx_e4m3_{size}", "MXFloat8e4m3Weight", "W5", group),
        ]
        for form, options in _SMALL.items():
            rows.append((f"mx_{form}_{size}", "MXFloat8e4m3Weight", "W5", {**options, **group}))
    for w in ("Wpos", "Wneg", "Wzero", "Wbf", "Wbig"):
        rows.append((f"mx_e2m1_{w}", "MXFloat8e4m3Weight", w, {**_SMALL["e2m1"], "group_size": 2}))
        rows.append((f"mx_int_{w}", "MXInt8Weight", w, {"group_size": 2}))
    for dim in (0, 1):
        rows.append(
            (f"mx_dim_{dim}", "MXFloat8e4m3Weight", "W5", {"group_size": 2, "group_dim": dim})
        )
        rows.append(
            (f"mx_int_dim_{dim}", "MXInt8Weight", "W5", {"group_size": 2, "group_dim": dim})
        )
    return rows


def _activations() -> list[tuple[str, str, str, dict[str, Any]]]:
    rows = []
    for x, dims in (("x", (1, 0, -1)), ("x3", (1, 2, -1)), ("x4", (1, -1))):
        for dim in dims:
            group = {"group_size": 2, "group_dim": dim}
            rows.append((f"act_int_{x}_{dim}", "MXInt8Act", x, group))
            rows.append((f"act_e4m3_{x}_{dim}", "MXFloat8e4m3Act", x, group))
            options = {**_SMALL["e2m1"], **group}
            rows.append((f"act_e2m1_{x}_{dim}", "MXFloat8e4m3Act", x, options))
    for b in (4, 8):
        signed = {"min_val": -3.0, "max_val": 3.0, "bit_width": b}
        rows.append((f"act_minmax_{b}", "Int8ActPerTensorFloatMinMaxInit", "x", signed))
        unsigned = {"max_val": 4.0, "bit_width": b}
        rows.append((f"act_max_{b}", "Uint8ActPerTensorFloatMaxInit", "x", unsigned))
        rows.append((f"act_pot_{b}", "Int8ActPerTensorFixedPointMinMaxInit", "x", signed))
    rows.append(("act_unscaled_e4m3", "Fp8e4m3OCPAct", "x", {}))
    rows.append(("act_unscaled_e5m2", "Fp8e5m2FNUZAct", "x", {}))
    return rows


STEPS = [
    (torch.tensor(numbered((3, 4), modulus, offset)) / 4).tolist()
    for modulus, offset in ((13, 6), (17, 5), (11, 8))
]


def _calibrated() -> list[tuple[str, str, str, dict[str, Any]]]:
    rows = []
    for name in (
        "Int8ActPerTensorFloat",
        "Uint8ActPerTensorFloat",
        "ShiftedUint8ActPerTensorFloat",
        "Int8ActPerTensorFixedPoint",
        "Uint8ActPerTensorFixedPoint",
        "ShiftedUint8ActPerTensorFixedPoint",
        "Fp8e4m3OCPActPerTensorFloat",
        "Fp8e5m2FNUZActPerTensorFloat",
    ):
        rows += [
            (f"{name}_{steps}", name, "x", {"collect_stats_steps": steps}) for steps in (1, 3, 300)
        ]
        if "Fp8" not in name:
            options = {"collect_stats_steps": 3, "bit_width": 4}
            rows.append((f"{name}_3_bits_4", name, "x", options))
    return rows


def _trained(name: str, x: torch.Tensor, options: Mapping[str, Any]) -> Any:
    layer = qnn.QuantIdentity(QUANTIZERS[name].let(**options), return_quant_tensor=True)
    layer.train()
    for step in STEPS:
        layer(torch.tensor(step))
    return layer.eval()(x).detach()


def _weight(name: str, weight: torch.Tensor, options: Mapping[str, Any]) -> Any:
    quantizer = QUANTIZERS[name].let(**options)
    if weight.dim() == 4:
        out, inner, *kernel = weight.shape
        layer = qnn.QuantConv2d(inner, out, kernel, bias=False, weight_quant=quantizer)
    else:
        layer = qnn.QuantLinear(
            weight.shape[1], weight.shape[0], bias=False, weight_quant=quantizer, dtype=weight.dtype
        )
    with torch.no_grad():
        layer.weight.copy_(weight)
    layer.weight_quant.init_tensor_quant()
    return layer.eval().quant_weight()


def _activation(name: str, x: torch.Tensor, options: Mapping[str, Any]) -> Any:
    layer = qnn.QuantIdentity(QUANTIZERS[name].let(**options), return_quant_tensor=True)
    return layer.eval()(x)


_IMAGES: dict[str, IntQuantTensor] = {
    "img": iq(numbered((1, 2, 4, 4), 200, 100), 0.5),
    "imgu": iq(numbered((1, 2, 4, 4), 16, 0), 0.25, bits=4, signed=False),
    "imgz": iq(numbered((1, 1, 4, 4), 16, 0), 0.5, 3.0, bits=4, signed=False),
    "imgp": iq(numbered((1, 2, 4, 4), 200, 100), [[[[0.5]], [[0.25]]]]),
    "imgbf": iq(numbered((1, 1, 2, 2)), 0.5, dtype=torch.bfloat16),
}


def _truncated() -> list[tuple[str, str]]:
    rows = []
    for x in _IMAGES:
        for rounding in ("round", "floor", "ceil", "round_to_zero"):
            for bits in (2, 4, 8):
                if x != "img" and (bits == 2 or rounding == "round_to_zero"):
                    continue
                made = (
                    f"qnn.TruncAvgPool2d(2, bit_width={bits}, float_to_int_impl_type='{rounding}')"
                )
                rows.append((f"trunc_{x}_{rounding}_{bits}", f"run({made}, {x})"))
        rows.append((f"trunc_{x}_default", f"run(qnn.TruncAvgPool2d(2), {x})"))
        rows.append(
            (f"trunc_{x}_stride", f"run(qnn.TruncAvgPool2d(2, stride=1, bit_width=4), {x})")
        )
        adaptive = "qnn.TruncAdaptiveAvgPool2d({}, bit_width=4, float_to_int_impl_type='{}')"
        if x != "imgbf":
            for size, rounding in (("(1, 1)", "floor"), ("(2, 2)", "round"), ("(2, 1)", "ceil")):
                made = adaptive.format(size, rounding)
                name = f"trunc_adaptive_{x}_{rounding}"
                rows.append((name, f"run({made}, {x})"))
        twice = "run(qnn.TruncAvgPool2d(2), run(qnn.TruncAvgPool2d(2), {0}))"
        if x != "imgbf":
            rows.append((f"trunc_twice_{x}", twice.format(x)))
    rows += [
        (
            "trunc_again",
            "(lambda m: [run(m, imgz), run(m, imgz)])(qnn.TruncAvgPool2d(2, bit_width=4))",
        ),
        ("trunc_plain", "run(qnn.TruncAvgPool2d(2, return_quant_tensor=False), img.value)"),
        ("trunc_values", "run(qnn.TruncAvgPool2d(2, bit_width=4, return_quant_tensor=False), img)"),
        (
            "trunc_adaptive_values",
            "run(qnn.TruncAdaptiveAvgPool2d(1, return_quant_tensor=False), img)",
        ),
    ]
    return rows


def quantizer_cases() -> list[dict[str, Any]]:
    """Return the cases, as they are written."""
    family = cases.theirs()
    made = []
    for name, quantizer, given, options in [*_integers(), *_floats(), *_groups(), *_activations()]:
        kind = "act" if given in ACTS else "wq"
        value = (ACTS if given in ACTS else WEIGHTS)[given]
        run = _activation if given in ACTS else _weight
        text = "".join(f", {k}={v!r}" for k, v in options.items())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = cases.describe(run(quantizer, value, options), family)
        case: dict[str, Any] = {
            "id": name.strip("_"),
            "verdict": "reference",
            "expr": f"{kind}({quantizer}, W{text})",
        }
        case["inputs"] = {"W": cases.describe(value, family)}
        made.append({**case, "quantizer": quantizer, "options": options, "result": result})
    for name, quantizer, given, options in _calibrated():
        result = cases.describe(_trained(quantizer, ACTS[given], options), family)
        case = {"id": name, "verdict": "reference", "expr": f"calibrated({quantizer}, W)"}
        case |= {"inputs": {"W": cases.describe(ACTS[given], family)}, "steps": STEPS}
        made.append({**case, "quantizer": quantizer, "options": options, "result": result})
    names = {"qnn": qnn, "run": lambda module, x: module.eval()(x)}
    for name, expr in _truncated():
        used = {x for x in _IMAGES if f" {x})" in expr or f" {x}.value" in expr}
        inputs = {x: cases.describe(_IMAGES[x], family) for x in used}
        inputs = {
            x: {k: v for k, v in d.items() if k not in ("int", "is_valid")}
            for x, d in inputs.items()
        }
        case = {"id": name, "verdict": "reference", "expr": expr, "inputs": inputs}
        result = cases.evaluate(case, family, names)
        made.append({**case, "result": result})
    return made
