"""Brevitas' quantizers, and the config that is equal to each.

`docs/quant-tensors-configs.md` shows the same table; `table_of` writes it.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from qconfig.configs.float_quant import FloatQuantConfig
from qconfig.configs.granularity import PerAxis
from qconfig.configs.groupwise_quant import GroupwiseFloatQuantConfig, GroupwiseIntQuantConfig
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.versioning import Config
from tests import brevitas_peer  # noqa: F401 (imports Brevitas without its warnings)

from brevitas.quant import fixed_point, scaled_int, shifted_scaled_int  # isort: skip
from brevitas.quant import float as finite  # isort: skip
from brevitas.quant import float_quant_fnuz as fnuz  # isort: skip
from brevitas.quant import float_quant_ocp as ocp  # isort: skip
from brevitas.quant import mx_quant_ocp as mx  # isort: skip


class Pair(NamedTuple):
    """A quantizer of Brevitas and what it is in qconfig.

    Args:
        quantizer: an injector.
        fields: fields of the config that have no default value.
        kind: the config class.
        settings: attributes of the injector that differ.
        format: named format, of floats.
    """

    quantizer: Any
    kind: type[Config]
    fields: dict[str, Any]
    settings: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    format: str | None = None

    @property
    def config(self) -> Any:
        """The config."""
        if self.format is None:
            return self.kind(**self.fields)
        return self.kind.of_format(self.format, **self.fields)

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """The quantizer with what differs, in words."""
        settings = ", ".join(f"{k}={v!r}" for k, v in self.settings.items())
        return self.quantizer.__name__ + (f" with {settings}" if settings else "")

    @property
    def call(self) -> str:
        """The config as Python text."""
        fields = [f"{k}={v!r}" for k, v in self.fields.items()]
        if self.format is None:
            return f"{self.kind.__name__}({', '.join(fields)})"
        return f"{self.kind.__name__}.of_format({', '.join([repr(self.format), *fields])})"


INT, FLOAT = IntQuantConfig, FloatQuantConfig
GI, GF = GroupwiseIntQuantConfig, GroupwiseFloatQuantConfig
CHANNEL = {"granularity": PerAxis(0)}
CHANNEL_OF_ACTIVATION = {"granularity": PerAxis(1)}
NARROW = {"narrow_range": True}
POWERS = {"scale_restriction": "POWER_OF_TWO"}
LEARNED = {"scale_kind": "PARAMETER_FROM_STATS"}
SHIFTED = {"signed": False, "scale_statistic": "MIN_MAX", "zero_point_kind": "STATS"}
SHIFTED_ACTIVATION = {
    "signed": False,
    **LEARNED,
    "scale_statistic": "PERCENTILE_INTERVAL",
    "zero_point_kind": "PARAMETER_FROM_STATS",
    "zero_point_statistic": "PERCENTILE",
}
PERCENTILE = {**LEARNED, "scale_statistic": "PERCENTILE"}
FOUR_BITS = {"bit_width": 4, "group_size": 16}
GIVEN = {"scale_kind": "PARAMETER", "threshold": 6.0, "min_threshold": None}
UNSCALED = {"scale_kind": "UNSCALED"}
EXTERNAL = {"scale_kind": "EXTERNAL"}

WEIGHTS = [
    Pair(scaled_int.Int8WeightPerTensorFloat, INT, NARROW),
    Pair(scaled_int.Int8WeightPerChannelFloat, INT, NARROW | CHANNEL),
    Pair(scaled_int.Int8WeightPerTensorFloat, INT, {"bit_width": 4, **NARROW}, {"bit_width": 4}),
    Pair(
        scaled_int.Int8WeightPerTensorFloat,
        INT,
        NARROW | LEARNED,
        {"scaling_impl_type": "parameter_from_stats"},
    ),
    Pair(
        scaled_int.Int8WeightPerChannelFloat,
        INT,
        NARROW | CHANNEL | LEARNED | {"scale_restriction": "LOG_FP"},
        {"scaling_impl_type": "parameter_from_stats", "restrict_scaling_type": "log_fp"},
    ),
    Pair(
        scaled_int.Int8WeightPerTensorFloat,
        INT,
        NARROW | {"scale_kind": "CONST", "threshold": 0.7, "min_threshold": None},
        {"scaling_impl_type": "const", "scaling_const": 0.7, "scaling_min_val": None},
    ),
    Pair(fixed_point.Int8WeightPerTensorFixedPoint, INT, NARROW | POWERS),
    Pair(fixed_point.Int8WeightPerChannelFixedPoint, INT, NARROW | POWERS | CHANNEL),
    Pair(shifted_scaled_int.ShiftedUint8WeightPerTensorFloat, INT, SHIFTED),
    Pair(shifted_scaled_int.ShiftedUint8WeightPerChannelFloat, INT, SHIFTED | CHANNEL),
    Pair(finite.Fp8e4m3Weight, FLOAT, UNSCALED, format="FINITE_E4M3"),
    Pair(finite.Fp8e4m3WeightPerTensorFloat, FLOAT, {}, format="FINITE_E4M3"),
    Pair(finite.Fp8e5m2WeightPerChannelFloat, FLOAT, CHANNEL, format="FINITE_E5M2"),
    Pair(ocp.Fp8e4m3OCPWeight, FLOAT, UNSCALED),
    Pair(ocp.Fp8e4m3OCPWeightPerTensorFloat, FLOAT, {}),
    Pair(ocp.Fp8e4m3OCPWeightPerChannelFloat, FLOAT, CHANNEL),
    Pair(ocp.Fp8e5m2OCPWeightPerTensorFloat, FLOAT, {}, format="OCP_E5M2"),
    Pair(ocp.Fp8e5m2OCPWeightPerChannelFloat, FLOAT, CHANNEL, format="OCP_E5M2"),
    Pair(fnuz.Fp8e4m3FNUZWeightPerTensorFloat, FLOAT, {}, format="FNUZ_E4M3"),
    Pair(fnuz.Fp8e4m3FNUZWeightPerChannelFloat, FLOAT, CHANNEL, format="FNUZ_E4M3"),
    Pair(fnuz.Fp8e5m2FNUZWeightPerTensorFloat, FLOAT, {}, format="FNUZ_E5M2"),
    Pair(
        ocp.FpOCPWeightPerTensorFloat,
        FLOAT,
        {},
        {"bit_width": 6, "exponent_bit_width": 3, "mantissa_bit_width": 2},
        "OCP_E3M2",
    ),
    Pair(mx.MXInt8Weight, GI, {}),
    Pair(mx.MXInt8Weight, GI, FOUR_BITS, FOUR_BITS),
    Pair(mx.ShiftedMXUInt8Weight, GI, SHIFTED),
    Pair(
        shifted_scaled_int.ShiftedUint8WeightGroupQuantFloat,
        GI,
        {"group_size": 16, "scale_restriction": "FP", **SHIFTED},
        {"group_size": 16},
    ),
    Pair(mx.MXFloat8e4m3Weight, GF, {}),
    Pair(
        mx.MXFloat8e4m3Weight,
        GF,
        {},
        {"bit_width": 4, "exponent_bit_width": 2, "mantissa_bit_width": 1},
        "OCP_E2M1",
    ),
]
ACTIVATIONS = [
    Pair(scaled_int.Int8ActPerTensorFloat, INT, PERCENTILE),
    Pair(scaled_int.Uint8ActPerTensorFloat, INT, {"signed": False, **PERCENTILE}),
    Pair(fixed_point.Int8ActPerTensorFixedPoint, INT, PERCENTILE | POWERS),
    Pair(fixed_point.Uint8ActPerTensorFixedPoint, INT, {"signed": False, **PERCENTILE, **POWERS}),
    Pair(shifted_scaled_int.ShiftedUint8ActPerTensorFloat, INT, SHIFTED_ACTIVATION),
    Pair(shifted_scaled_int.ShiftedUint8ActPerTensorFixedPoint, INT, SHIFTED_ACTIVATION | POWERS),
    Pair(scaled_int.Int8ActPerTensorFloatMinMaxInit, INT, GIVEN, {"min_val": -5.0, "max_val": 6.0}),
    Pair(
        scaled_int.Uint8ActPerTensorFloatMaxInit, INT, {"signed": False, **GIVEN}, {"max_val": 6.0}
    ),
    Pair(ocp.Fp8e4m3OCPActPerTensorFloat, FLOAT, LEARNED),
    Pair(ocp.Fp8e5m2OCPActPerTensorFloat, FLOAT, LEARNED, format="OCP_E5M2"),
    Pair(fnuz.Fp8e4m3FNUZActPerTensorFloat, FLOAT, LEARNED, format="FNUZ_E4M3"),
    Pair(
        ocp.FpOCPActPerChannelFloat2d,
        FLOAT,
        LEARNED | CHANNEL_OF_ACTIVATION,
        {"bit_width": 8, "exponent_bit_width": 4, "mantissa_bit_width": 3},
    ),
    Pair(mx.MXInt8Act, GI, {"group_dim": 1}),
    Pair(mx.MXFloat8e4m3Act, GF, {"group_dim": 1}),
]
BIASES = [
    Pair(scaled_int.Int8Bias, INT, EXTERNAL),
    Pair(scaled_int.Int16Bias, INT, {"bit_width": 16, **EXTERNAL}),
    Pair(scaled_int.Int24Bias, INT, {"bit_width": 24, **EXTERNAL}),
    Pair(scaled_int.Int32Bias, INT, {"bit_width": 32, **EXTERNAL}),
    Pair(scaled_int.Int8BiasPerTensorFloatInternalScaling, INT, {}),
    Pair(fixed_point.Int8BiasPerTensorFixedPointInternalScaling, INT, POWERS),
]


def table_of(pairs: Iterable[Pair]) -> str:
    """Return the table of the documentation."""
    rows = [f"| `{pair.name}` | `{pair.call}` |" for pair in pairs]
    return "\n".join(["| Brevitas | qconfig |", "|---|---|", *rows])
