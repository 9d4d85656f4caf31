"""Hypothesis strategies for every registered class, from its fields and what they allow."""

from collections.abc import Callable
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import attrs
from hypothesis import assume
from hypothesis import strategies as st

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec, TensorValue
from qconfig.configs.granularity import PerAxis, PerBlock, PerGroup, PerRow, PerTensor, PerToken
from qconfig.errors import QconfigError
from qconfig.versioning import Config, Entry, FieldInfo, Kind, info_of, registry
from tests import arithmetic_repairs, fp4_repairs, quant_layout_repairs, uintx_repairs
from tests.config_repairs import CONFIG_REPAIRS
from tests.int4_repairs import INT4_REPAIRS

Draw = Callable[[Any], Any]
Repair = Callable[[Draw, Entry, dict[str, Any]], None]

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_MOST = 4


def documented_entries() -> list[Entry]:
    """Return every registered config and layout of qconfig itself, in every version."""
    return [
        entry
        for entry in registry.entries()
        if entry.kind is not Kind.VALUE and entry.cls.__module__.startswith("qconfig.")
    ]


@st.composite
def instances(draw: Draw, entry: Entry) -> Any:
    """Return valid objects of a registered class; tensors of layouts are TensorSpecs.

    Where fields depend on each other, `REPAIRS` makes them fit; what still does not is dropped.
    """
    values: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    for field in attrs.fields(attrs.resolve_types(entry.cls)):
        info = info_of(field)
        if field.default is not attrs.NOTHING and draw(st.booleans()):
            continue
        if info.tensor is not None and entry.kind is Kind.LAYOUT:
            values[field.name] = draw(_tensor_specs(info, sizes))
        else:
            values[field.name] = draw(of_type(field.type, info))
    if entry.name in REPAIRS:
        REPAIRS[entry.name](draw, entry, values)
    try:
        return entry.cls(**values)
    except QconfigError:
        assume(False)


def of_type(kind: Any, info: FieldInfo) -> st.SearchStrategy[Any]:
    """Return values of a field's type within the bounds of the field."""
    origin, args = get_origin(kind), get_args(kind)
    fewest, most = info.min_length or 0, min(info.max_length or _MOST, _MOST)
    inner = FieldInfo("")
    if origin in (Union, UnionType):
        return st.one_of([of_type(option, info) for option in args])
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple:
        return st.lists(of_type(args[0], inner), min_size=fewest, max_size=most).map(tuple)
    if origin is dict:
        item = of_type(args[1], inner)
        return st.dictionaries(_TEXT, item, min_size=fewest, max_size=most)
    found = _of_number(kind, info)
    found = _of_text(kind, info) if found is None else found
    return _of_class(kind) if found is None else found


def _of_number(kind: Any, info: FieldInfo) -> st.SearchStrategy[Any] | None:
    if kind is int:
        low = -(2**63) if info.minimum is None else int(info.minimum)
        return st.integers(low, 2**63 if info.maximum is None else int(info.maximum))
    if kind is float:
        bounds = {"min_value": info.minimum, "max_value": info.maximum}
        return st.floats(allow_nan=False, allow_infinity=False, **bounds)
    return None


def _of_text(kind: Any, info: FieldInfo) -> st.SearchStrategy[Any] | None:
    fewest = info.min_length or 0
    if kind is str and info.pattern is not None:
        return st.from_regex(info.pattern)
    if kind is str:
        return st.text(
            st.characters(exclude_categories=["Cs"]), min_size=fewest, max_size=fewest + 12
        )
    return None


def _of_class(kind: Any) -> st.SearchStrategy[Any]:
    if kind is NoneType:
        return st.none()
    if kind is bool:
        return st.booleans()
    if kind is Config:
        simple = [e for e in documented_entries() if e.kind is Kind.CONFIG and _is_leaf(e)]
        return st.sampled_from(simple).flatmap(instances)
    if kind is TensorValue:
        return plain_tensors()
    if issubclass(kind, Enum):
        return st.sampled_from(kind)
    return instances(registry.entry_of(kind))


def _is_leaf(entry: Entry) -> bool:
    """Return whether a current config holds no other, so that generation comes to an end."""
    return registry.is_current(entry) and "Config" not in str(
        [f.type for f in attrs.fields(attrs.resolve_types(entry.cls))]
    ).replace("WeightOnlyConfig", "")


def plain_tensors() -> st.SearchStrategy[Any]:
    """Return small float32 tensors, for fields of configs."""
    import torch

    values = st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=4)
    return values.map(lambda v: torch.tensor(v, dtype=torch.float32))


@st.composite
def _tensor_specs(draw: Draw, info: FieldInfo, sizes: dict[str, int]) -> TensorSpec:
    """Return a spec that fits its pattern and the sizes that earlier fields gave to names."""
    shape: list[int] = []
    for name in info.tensor.dimensions:
        if name.startswith("*"):
            shape += draw(st.lists(st.integers(1, 3), max_size=1))
        elif name.isdigit():
            shape.append(int(name))
        elif name == "_":
            shape.append(draw(st.integers(1, 3)))
        else:
            shape.append(sizes.setdefault(name, draw(st.integers(1, 8))))
    return TensorSpec(DType(draw(st.sampled_from(info.tensor.allowed))), tuple(shape))


def _name_configs(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Make the rules and the default of an FqnToConfig use configs that there are."""
    if entry.version < 2:
        return
    names = st.sampled_from([*values.get("configs", {}), None])
    values["rules"] = tuple(attrs.evolve(r, use=draw(names)) for r in values.get("rules", ()))
    values["default"] = draw(names)


def _tile_int8(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Make block size, scale and zero points of an int8 layout fit its codes."""
    _tile_blocks(draw, entry, values)
    arithmetic_repairs.fit_int8(values)


def _tile_blocks(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    codes = values["int_data" if entry.version == 1 else "qdata"].shape
    block = [draw(st.sampled_from([b for b in range(1, n + 1) if n % b == 0])) for n in codes]
    values["block_size"] = tuple(block)
    values["dtype"] = DType(draw(st.sampled_from(["float16", "bfloat16", "float32", "float64"])))
    blocks = tuple(n // b for n, b in zip(codes, block, strict=True))
    if entry.version == 1 and draw(st.booleans()):
        blocks = tuple(n for n in blocks if n != 1)
    for name in ("scale", "zero_point"):
        if values.get(name) is not None:
            values[name] = attrs.evolve(values[name], shape=blocks)


def _tile_intx(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Make block size, scales, zero points and bounds of an intx layout fit."""
    arithmetic_repairs.fit_intx(values)
    _tile_blocks(draw, entry, values)
    bits = draw(st.integers(1, 8))
    if entry.version == 1:
        values["quant_min"], values["quant_max"] = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    else:
        values["target_dtype"] = DType(f"int{bits}")


def _tile_intx_static(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Make an intx layout with static scales fit, and those scales what they are for."""
    _tile_intx(draw, attrs.evolve(entry, version=2), values)
    shape = values["qdata"].shape
    for kind, size in (("act_quant", shape[-1]), ("output_act_quant", shape[-2])):
        length = draw(st.sampled_from([1, size]))
        for name in (f"{kind}_scale", f"{kind}_zero_point"):
            if values.get(name) is not None:
                values[name] = attrs.evolve(values[name], shape=(length,))
    if values.get("output_act_quant_scale") is None:
        values.pop("output_act_quant_zero_point", None)
    if values.get("weight_sums") is not None:
        values["weight_sums"] = attrs.evolve(values["weight_sums"], shape=(*shape[:-1], 1))


def _keep_to_last_axis(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Make axes of a CalibrationConfig the last, and float8 codes symmetric."""
    for name in ("granularity", "output_granularity"):
        if isinstance(values.get(name), PerAxis):
            values[name] = PerAxis(-1)
    if values.get("quant_dtype", "int8") != "int8":
        for name in ("mapping_type", "output_mapping_type", "reduce_range"):
            values.pop(name, None)


def _record_a_calibration(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Let a CalibrationRecord be of a CalibrationConfig."""
    values["config"] = draw(instances(registry.get("CalibrationConfig")))


def _tile_float8(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Make blocks and scale of a float8 layout fit its codes, and static scales what they are for.

    The names are those of an int8 layout for as long as that is made to fit.
    """
    is_first = entry.version == 1
    values["int_data" if is_first else "qdata"] = values.pop("float8_data" if is_first else "qdata")
    _tile_blocks(draw, entry, values)
    if is_first:
        values["float8_data"] = values.pop("int_data")
    for kind in ("act_quant", "output_act_quant"):
        kwargs = values.get(f"{kind}_kwargs")
        scale = values.pop(f"{kind}_scale", None)
        if kwargs is None or scale is None:
            continue
        values[f"{kind}_kwargs"] = attrs.evolve(kwargs, granularity=PerTensor())
        shape = draw(st.sampled_from([(), (1,), (1, 1)]))
        values[f"{kind}_scale"] = attrs.evolve(scale, shape=shape)


def _fit_float8(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Give kwargs of float8 activations a dtype and a granularity that fit any activation."""
    values["float8_dtype"] = draw(st.sampled_from(["float8_e4m3fn", "float8_e5m2"]))
    served = [PerTensor(), PerRow(), PerToken(), PerGroup(1), PerBlock((1, 1))]
    values["granularity"] = draw(st.sampled_from(served))


def _tile_int4(draw: Draw, entry: Entry, values: dict[str, Any]) -> None:
    """Make shape, block size, scales and factor of an int4 layout fit its bytes."""
    codes = values["packed_weight" if entry.version == 1 else "qdata"].shape
    shape = (*codes[:-1], 2 * codes[-1])
    group = draw(st.sampled_from([b for b in range(1, shape[-1] + 1) if shape[-1] % b == 0]))
    if entry.version == 1:
        values["group_size"] = group
    else:
        values["shape"], values["block_size"] = shape, (*(1 for _ in shape[:-1]), group)
    values["dtype"] = DType(draw(st.sampled_from(["float16", "bfloat16", "float32", "float64"])))
    values.pop("activation_dtype", None)
    scales = (*shape[:-2], shape[-1] // group, shape[-2])
    for name in ("scale", "zero_point"):
        values[name] = attrs.evolve(values[name], shape=scales)
    if values.get("act_pre_scale") is not None:
        values["act_pre_scale"] = attrs.evolve(values["act_pre_scale"], shape=shape[-1:])


REPAIRS: dict[str, Repair] = {
    **CONFIG_REPAIRS,
    **INT4_REPAIRS,
    "CalibrationConfig": _keep_to_last_axis,
    "CalibrationRecord": _record_a_calibration,
    "Float8TensorLayout": _tile_float8,
    "FloatQuantTensorLayout": quant_layout_repairs.align,
    "FloatxTensorLayout": uintx_repairs.tile_floatx,
    "FqnToConfig": _name_configs,
    "GroupwiseFloatQuantTensorLayout": quant_layout_repairs.group,
    "GroupwiseIntQuantTensorLayout": quant_layout_repairs.group,
    "Int4TensorLayout": _tile_int4,
    "Int8Arithmetic": arithmetic_repairs.fit_arithmetic,
    "Int8TensorLayout": _tile_int8,
    "IntQuantTensorLayout": quant_layout_repairs.align,
    "IntxStaticActivationTensorLayout": _tile_intx_static,
    "IntxUnpackedToInt8TensorLayout": _tile_intx,
    "MXTensorLayout": fp4_repairs.tile_mx,
    "NF4TensorLayout": uintx_repairs.tile_nf4,
    "NVFP4TensorLayout": fp4_repairs.tile_nvfp4,
    "QuantizeTensorToFloat8Kwargs": _fit_float8,
    "UintxTensorLayout": uintx_repairs.tile_uintx,
}
