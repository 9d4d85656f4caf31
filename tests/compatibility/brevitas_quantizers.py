"""Our configs that do what Brevitas' quantizer classes do, and our modules under their names."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from qconfig.builders.base import builder_of
from qconfig.configs.float_quant import FloatQuantConfig
from qconfig.configs.granularity import PerAxis
from qconfig.configs.groupwise_quant import GroupwiseFloatQuantConfig, GroupwiseIntQuantConfig
from qconfig.configs.int_quant import IntQuantConfig

_ROWS = PerAxis(axis=0)
_POWER = {"scale_restriction": "POWER_OF_TWO"}
_SHIFTED = {"signed": False, "scale_statistic": "MIN_MAX", "zero_point_kind": "STATS"}
_SYMMETRIC = {"narrow_range": True}
# The class and what Brevitas' class is given without options.
_TABLE: dict[str, tuple[type, dict[str, Any]]] = {
    "Int8WeightPerTensorFloat": (IntQuantConfig, _SYMMETRIC),
    "Int8WeightPerChannelFloat": (IntQuantConfig, {**_SYMMETRIC, "granularity": _ROWS}),
    "Int8WeightPerTensorFixedPoint": (IntQuantConfig, {**_SYMMETRIC, **_POWER}),
    "Int8WeightPerChannelFixedPoint": (
        IntQuantConfig,
        {**_SYMMETRIC, **_POWER, "granularity": _ROWS},
    ),
    "ShiftedUint8WeightPerTensorFloat": (IntQuantConfig, _SHIFTED),
    "ShiftedUint8WeightPerChannelFloat": (IntQuantConfig, {**_SHIFTED, "granularity": _ROWS}),
    "Int8ActPerTensorFloatMinMaxInit": (IntQuantConfig, {"scale_kind": "PARAMETER"}),
    "Int8ActPerTensorFixedPointMinMaxInit": (IntQuantConfig, {"scale_kind": "PARAMETER", **_POWER}),
    "Uint8ActPerTensorFloatMaxInit": (
        IntQuantConfig,
        {"scale_kind": "PARAMETER", "signed": False},
    ),
    "MXInt8Weight": (GroupwiseIntQuantConfig, {}),
    "MXInt8Act": (GroupwiseIntQuantConfig, {}),
    "ShiftedMXUInt8Weight": (GroupwiseIntQuantConfig, _SHIFTED),
    "MXFloat8e4m3Weight": (GroupwiseFloatQuantConfig, {"format": "OCP_E4M3"}),
    "MXFloat8e4m3Act": (GroupwiseFloatQuantConfig, {"format": "OCP_E4M3"}),
    "FpOCPWeightPerTensorFloat": (FloatQuantConfig, {"format": "OCP_E4M3"}),
    "FpOCPWeightPerChannelFloat": (FloatQuantConfig, {"format": "OCP_E4M3", "granularity": _ROWS}),
    "Fp8e4m3WeightPerTensorFloat": (FloatQuantConfig, {"format": "FINITE_E4M3"}),
    "Fp8e5m2WeightPerTensorFloat": (FloatQuantConfig, {"format": "FINITE_E5M2"}),
}
_SEEN = {"scale_kind": "PARAMETER_FROM_STATS", "scale_statistic": "PERCENTILE"}
_SHIFTED_SEEN = {
    **_SEEN,
    "scale_statistic": "PERCENTILE_INTERVAL",
    "signed": False,
    "zero_point_kind": "PARAMETER_FROM_STATS",
    "zero_point_statistic": "PERCENTILE",
}
for _name, _given in (
    ("Int8", _SEEN),
    ("Uint8", {**_SEEN, "signed": False}),
    ("ShiftedUint8", _SHIFTED_SEEN),
):
    _TABLE[f"{_name}ActPerTensorFloat"] = (IntQuantConfig, _given)
    _TABLE[f"{_name}ActPerTensorFixedPoint"] = (IntQuantConfig, {**_given, **_POWER})
for _kind in ("OCP", "FNUZ"):
    for _form in ("e4m3", "e5m2"):
        _given = {"format": f"{_kind}_{_form.upper()}"}
        _TABLE[f"Fp8{_form}{_kind}ActPerTensorFloat"] = (
            FloatQuantConfig,
            {**_given, "scale_kind": "PARAMETER_FROM_STATS"},
        )
        for _role in ("Weight", "Act"):
            _TABLE[f"Fp8{_form}{_kind}{_role}"] = (
                FloatQuantConfig,
                {**_given, "scale_kind": "UNSCALED"},
            )
        _TABLE[f"Fp8{_form}{_kind}WeightPerTensorFloat"] = (FloatQuantConfig, _given)
        _TABLE[f"Fp8{_form}{_kind}WeightPerChannelFloat"] = (
            FloatQuantConfig,
            {**_given, "granularity": _ROWS},
        )
# Searches for the scale of least error: no config of ours has them.
UNSUPPORTED = (
    "Int8WeightPerTensorFloatMSE",
    "Int8WeightPerChannelFloatMSE",
    "ShiftedUint8WeightPerTensorFloatMSE",
)
_NAMES = {
    "float_to_int_impl_type": "rounding",
    "scaling_impl_type": "scale_kind",
    "scaling_init": "threshold",
    "max_val": "threshold",
    "collect_stats_steps": "collect_steps",
}


def config_of(name: str, options: Mapping[str, Any]) -> Any:
    """Return our config for a quantizer of Brevitas with options given to `let`."""
    kind, given = _TABLE[name]
    fields: dict[str, Any] = dict(given)
    form = fields.pop("format", None)
    for option, value in options.items():
        if option == "min_val" or (form is not None and option == "bit_width"):
            continue
        if option == "exponent_bit_width":
            form = f"OCP_E{value}M{options['mantissa_bit_width']}"
        elif option != "mantissa_bit_width":
            fields[_NAMES.get(option, option)] = value
    return kind(**fields) if form is None else kind.of_format(form, **fields)


def quantized_weight(case: Mapping[str, Any], weight: torch.Tensor) -> torch.Tensor:
    """Return what our builder makes of the weight of a case."""
    config = config_of(case["quantizer"], case["options"])
    return builder_of(config).build(config, weight)


def quantized_activation(case: Mapping[str, Any], x: torch.Tensor) -> torch.Tensor:
    """Return what our module makes of an activation, in eval mode."""
    from qconfig.modules import QuantIdentity

    config = config_of(case["quantizer"], case["options"])
    return QuantIdentity(act=config, return_quant_tensor=True).eval()(x)


def calibrated_activation(case: Mapping[str, Any], x: torch.Tensor) -> torch.Tensor:
    """Return what our module makes of an activation after the training steps of a case."""
    from qconfig.modules import QuantIdentity

    config = config_of(case["quantizer"], case["options"])
    module = QuantIdentity(act=config, return_quant_tensor=True).train()
    for step in case["steps"]:
        module(torch.tensor(step))
    return module.eval()(x).detach()


def module_names() -> dict[str, Any]:
    """Return what the expressions on modules use: `qnn` and `run`."""
    from qconfig.modules import TruncAdaptiveAvgPool2d, TruncAvgPool2d

    def pool(
        kernel: int, *, stride: int | None = None, return_quant_tensor: bool = True, **options: Any
    ) -> nn.Module:
        source = nn.AvgPool2d(kernel, stride)
        return TruncAvgPool2d(
            source, trunc=_truncation(**options), return_quant_tensor=return_quant_tensor
        )

    def adaptive(size: Any, *, return_quant_tensor: bool = True, **options: Any) -> nn.Module:
        source = nn.AdaptiveAvgPool2d(size)
        return TruncAdaptiveAvgPool2d(
            source, trunc=_truncation(**options), return_quant_tensor=return_quant_tensor
        )

    names = SimpleNamespace(TruncAvgPool2d=pool, TruncAdaptiveAvgPool2d=adaptive)
    return {"qnn": names, "run": lambda module, x: module.eval()(x)}


def _truncation(*, bit_width: int = 8, float_to_int_impl_type: str = "round") -> IntQuantConfig:
    return IntQuantConfig(bit_width=bit_width, rounding=float_to_int_impl_type.upper())
