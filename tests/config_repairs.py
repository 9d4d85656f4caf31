"""Make fields of configs fit each other: what `tests.strategies` draws field by field."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from qconfig.codec.dtypes import DType
from qconfig.configs.activation_scaling import AWQ_STEPS
from qconfig.configs.choices import Int4PackingFormat, MappingType, QATStep, ZeroPointDomain
from qconfig.configs.float8 import FLOAT8, FLOAT8_PAIRS
from qconfig.configs.granularity import PerAxis, PerBlock, PerGroup, PerRow, PerTensor, PerToken
from qconfig.configs.intx import INTX, SCALES
from qconfig.configs.mx import MX_ELEMENTS
from qconfig.migrations.torchao_values import PackingFormatV1
from qconfig.versioning import Entry
from tests import quant_repairs

Draw = Callable[[Any], Any]
Values = dict[str, Any]

_GROUPS = st.integers(1, 256).map(PerGroup)
_TWO_MAPPINGS = st.sampled_from([MappingType.SYMMETRIC, MappingType.ASYMMETRIC])
_WEIGHTS = st.one_of(_GROUPS, st.just(PerAxis(0)))
_INT8_PAIRS = st.tuples(
    st.sampled_from([PerTensor(), PerRow(), PerToken()]),
    st.one_of(st.sampled_from([PerTensor(), PerRow()]), _GROUPS),
)
_FLOAT8_WEIGHTS = st.one_of(st.sampled_from([PerTensor(), PerRow(), PerBlock((128, 128))]), _GROUPS)


def _redraw(draw: Draw, values: Values, **choices: st.SearchStrategy[Any]) -> None:
    """Draw fields again, those that were drawn at all."""
    for name in choices.keys() & values.keys():
        values[name] = draw(choices[name])


@st.composite
def _scales(draw: Draw, most: int = 1) -> Any:
    """Return a positive scale of any floating type: 0-d, of one element, or along the last."""
    import torch

    count = draw(st.integers(1, most))
    shape = draw(st.sampled_from([(count,), (1, count), *([()] if count == 1 else [])]))
    found = [draw(st.floats(2**-10, 100)) for _ in range(count)]
    kind = draw(st.sampled_from([torch.float32, torch.bfloat16, torch.float16, torch.float64]))
    return torch.tensor(found).reshape(shape).to(kind)


@st.composite
def _zero_points(draw: Draw, scale: Any) -> Any:
    """Return int8 codes of any integer type, shaped like the scale."""
    import torch

    codes = [draw(st.integers(-128, 127)) for _ in range(scale.numel())]
    kind = draw(st.sampled_from([torch.int8, torch.int16, torch.int32, torch.int64]))
    return torch.tensor(codes, dtype=kind).reshape(scale.shape)


def _calibrate(draw: Draw, values: Values, prefix: str, most: int) -> None:
    """Draw a scale and a zero point that go together, where they were drawn."""
    scale, zero_point = f"{prefix}_scale", f"{prefix}_zero_point"
    if values.get(scale) is not None:
        values[scale] = draw(_scales(most))
    if values.get(zero_point) is None:
        return
    found = values.get(scale)
    symmetric = MappingType.SYMMETRIC
    if found is None or (
        prefix == "act_quant" and values.get("act_mapping_type", symmetric) is symmetric
    ):
        del values[zero_point]
    else:
        values[zero_point] = draw(_zero_points(found))


def _int8(draw: Draw, _: Entry, values: Values) -> None:
    _redraw(draw, values, granularity=_INT8_PAIRS, act_mapping_type=_TWO_MAPPINGS)
    _calibrate(draw, values, "act_quant", 3)


def _int8_dynamic(draw: Draw, entry: Entry, values: Values) -> None:
    _int8(draw, entry, values)
    if entry.version < 4:  # what no later version can say is tested by itself
        values.pop("layout", None)
        values.pop("weight_only_decode", None)


def _intx(draw: Draw, entry: Entry, values: Values) -> None:
    integers, scales = st.sampled_from(INTX), st.sampled_from([None, *SCALES])
    _redraw(
        draw,
        values,
        weight_dtype=integers,
        granularity=_WEIGHTS,
        weight_granularity=_WEIGHTS,
        scale_dtype=scales,
        weight_scale_dtype=scales,
        act_mapping_type=_TWO_MAPPINGS,
    )
    values.pop("packing_format", None)
    if "has_weight_zeros" in _names(entry):
        _redraw(draw, values, granularity=st.one_of(_GROUPS, st.just(PerRow())))
        values["has_weight_zeros"] = True


def _intx_static(draw: Draw, entry: Entry, values: Values) -> None:
    _intx(draw, entry, values)
    values.setdefault("act_mapping_type", MappingType.ASYMMETRIC)
    _redraw(draw, values, act_granularity=st.sampled_from([PerTensor(), PerAxis(-1)]))
    per_channel = values.get("act_granularity") == PerAxis(-1)
    _calibrate(draw, values, "act_quant", 3 if per_channel else 1)
    _calibrate(draw, values, "output_act_quant", 3)
    if values.get("output_act_quant_scale") is not None:
        values["quantize_and_dequantize_output"] = True


def _int4(draw: Draw, entry: Entry, values: Values) -> None:
    _redraw(draw, values, int4_tile_packed_ntile=st.sampled_from([8, 16]))
    # What no later version can say is tested by itself.
    if "layout" in _names(entry):
        for name in ("layout", "packing_format", "int4_packing_format", "preserve_zero"):
            values.pop(name, None)
        if values.get("zero_point_domain") is ZeroPointDomain.INT:
            del values["zero_point_domain"]


def _raise_bounds(values: Values) -> None:
    """Make bounds of absolute maxima, which retired classes left free, what they can be."""
    for name in ("activation_value_lb", "activation_value_ub"):
        if values.get(name) is not None:
            values[name] = abs(values[name])


def _float8(draw: Draw, entry: Entry, values: Values) -> None:
    float8 = st.sampled_from(FLOAT8)
    _redraw(draw, values, weight_dtype=float8, activation_dtype=float8)
    _raise_bounds(values)
    if entry.name == "Float8WeightOnlyConfig":
        _redraw(draw, values, granularity=_FLOAT8_WEIGHTS)
    if entry.name == "Float8DynamicActivationFloat8WeightConfig":
        _redraw(draw, values, granularity=st.sampled_from(FLOAT8_PAIRS))
    for name in ("scale", "act_quant_scale", "output_act_quant_scale"):
        if values.get(name) is not None:
            values[name] = draw(_scales())
    if values.get("output_act_quant_scale") is not None:
        values["quantize_and_dequantize_output"] = True


def _mx(draw: Draw, _: Entry, values: Values) -> None:
    kind = draw(st.sampled_from(MX_ELEMENTS))
    values["activation_dtype"] = values["weight_dtype"] = kind


def _float8_int4(draw: Draw, entry: Entry, values: Values) -> None:
    formats = PackingFormatV1 if entry.version == 1 else Int4PackingFormat
    served = st.sampled_from([formats.PLAIN, formats.PRESHUFFLED])
    _redraw(draw, values, packing_format=served, int4_packing_format=served)


def _int8_int4(draw: Draw, _: Entry, values: Values) -> None:
    scales = st.sampled_from([None, *SCALES])
    _redraw(draw, values, act_mapping_type=_TWO_MAPPINGS, weight_scale_dtype=scales)
    values.pop("layout", None)  # those that no later version can say are tested by themselves


def _nvfp4(draw: Draw, _: Entry, values: Values) -> None:
    values.pop("mm_config", None)  # each class takes one of the two
    if values.get("step") is not None:
        values["use_dynamic_per_tensor_scale"] = False


def _uintx(draw: Draw, _: Entry, values: Values) -> None:
    words = st.sampled_from([None, 8, 16, 32])
    kinds = st.sampled_from([f"uint{bits}" for bits in range(1, 9)])
    _redraw(draw, values, packing_bitwidth=words, dtype=kinds.map(DType))
    values.pop("mode", None)  # what no later version can say is tested by itself


def _awq(draw: Draw, _: Entry, values: Values) -> None:
    if "quant_dtype" in values:
        values["quant_dtype"] = DType(f"uint{draw(st.integers(1, 8))}")
        values.pop("use_hqq", None)
    if values.get("step") not in (None, *AWQ_STEPS, *map(str, AWQ_STEPS)):
        del values["step"]


def _smooth(draw: Draw, _: Entry, values: Values) -> None:
    for name in ("smoothing_factor", "act_scales", "wei_scales"):
        values.pop(name, None)


def _qat(draw: Draw, _: Entry, values: Values) -> None:
    base = values.get("base_config")
    if base is not None or values.get("step") is QATStep.CONVERT:
        values.pop("activation_config", None)
        values.pop("weight_config", None)
    if not any(values.get(n) for n in ("base_config", "activation_config", "weight_config")):
        values["step"] = QATStep.CONVERT


def _fake_intx(draw: Draw, _: Entry, values: Values) -> None:
    values["dtype"] = DType(f"{draw(st.sampled_from(['', 'u']))}int{draw(st.integers(1, 8))}")
    if values.get("range_learning"):
        values["is_dynamic"] = False


def _fake_int4(draw: Draw, _: Entry, values: Values) -> None:
    served = [DType.FLOAT8_E4M3FN, DType.BFLOAT16]
    _redraw(draw, values, activation_dtype=st.sampled_from(served))


def _fake_float8(draw: Draw, _: Entry, values: Values) -> None:
    _redraw(draw, values, dtype=st.sampled_from(FLOAT8))


def _names(entry: Entry) -> set[str]:
    return set(entry.cls.__annotations__)


CONFIG_REPAIRS = {
    "AWQConfig": _awq,
    "Float8DynamicActivationFloat8WeightConfig": _float8,
    "Float8DynamicActivationInt4WeightConfig": _float8_int4,
    "Float8FakeQuantizeConfig": _fake_float8,
    "Float8StaticActivationFloat8WeightConfig": _float8,
    "Float8WeightOnlyConfig": _float8,
    "FloatQuantConfig": quant_repairs.fit_floats,
    "GroupwiseFloatQuantConfig": quant_repairs.fit_float_groups,
    "GroupwiseIntQuantConfig": quant_repairs.fit_integer_groups,
    "Int4WeightFakeQuantizeConfig": _fake_int4,
    "Int4WeightOnlyConfig": _int4,
    "Int8DynamicActivationInt4WeightConfig": _int8_int4,
    "Int8DynamicActivationInt8WeightConfig": _int8_dynamic,
    "Int8DynamicActivationIntxWeightConfig": _intx,
    "Int8DynamicActivationUIntxWeightConfig": _uintx,
    "Int8StaticActivationInt8WeightConfig": _int8,
    "Int8StaticActivationIntxWeightConfig": _intx_static,
    "IntQuantConfig": quant_repairs.fit_integers,
    "IntxFakeQuantizeConfig": _fake_intx,
    "IntxWeightOnlyConfig": _intx,
    "MXDynamicActivationMXWeightConfig": _mx,
    "NVFP4DynamicActivationNVFP4WeightConfig": _nvfp4,
    "NVFP4WeightOnlyConfig": _nvfp4,
    "QATConfig": _qat,
    "SmoothQuantConfig": _smooth,
    "UIntxWeightOnlyConfig": _uintx,
}
"""By registered name; `tests.strategies` has those of layouts."""
