"""Configs of torchao's that another of its configs says as well: that one's document instead."""

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from qconfig.errors import MigrationError, UnknownFieldError, json_pointer

Payload = Mapping[str, Any]


@frozen
class Replacement:
    """Another config in torchao's form.

    Args:
        type: its class.
        version: its `_version`.
        data: its fields; those of the first document keep their names where they can.
        notes: what differs, by field of the first document; "" for the document as a whole.
    """

    type: str
    version: int
    data: dict[str, Any]
    notes: tuple[tuple[str, str], ...] = ()


_CPU_ORDER = (
    "codes lie as torch's product on CPUs reads them; here they lie as Int4Tensor has them, and "
    "the order of a kernel is made when a weight is used"
)


def _opaque_int4(data: Payload) -> Replacement:
    return Replacement("Int4WeightOnlyConfig", 2, dict(data), (("", _CPU_ORDER),))


def _opaque_float8(data: Payload) -> Replacement:
    text = "codes lie as a kernel for CPUs reads them; here they lie as Float8Tensor has them"
    return Replacement("Float8DynamicActivationFloat8WeightConfig", 2, dict(data), (("", text),))


_ROW = {"_type": "PerRow", "_version": 1, "_data": {}}


def _semi_sparse_float8(data: Payload) -> Replacement:
    known = ("layout", "activation_dtype", "weight_dtype")
    _check_fields("Float8DynamicActivationFloat8SemiSparseWeightConfig", data, known)
    fields = {
        "activation_dtype": {"_type": "torch.dtype", "_data": "float8_e5m2"},
        **{name: value for name, value in data.items() if name != "layout"},
        "granularity": _ROW,
        "packing_format": {"_type": "Float8PackingFormat", "_data": "SPARSE_2D_DATA_2D_METADATA"},
    }
    text = "the layout is said by packing_format, the scales of rows by granularity"
    notes = (("layout" if "layout" in data else "", text),)
    return Replacement("Float8DynamicActivationFloat8WeightConfig", 2, fields, notes)


def _dtype(data: Payload, name: str) -> Any:
    value = data.get(name)
    found = value.get("_data") if isinstance(value, Mapping) else value
    return found.removeprefix("torch.") if isinstance(found, str) else found


_FBGEMM_FIELDS = (
    *("input_dtype", "weight_dtype", "output_dtype", "block_size", "activation_scale_ub"),
    "preshuffle",
)
_UNUSED_BOUND = "torchao did not use it for int4 weights: not carried"


def _fbgemm(data: Payload) -> Replacement:
    """Return what the element types ask for; all kernels give bfloat16."""
    _check_fields("FbgemmConfig", data, _FBGEMM_FIELDS)
    pair = (_dtype(data, "input_dtype"), _dtype(data, "weight_dtype"))
    block = data.get("block_size")
    group = block[-1] if isinstance(block, list) and block else None
    packing = "preshuffled" if data.get("preshuffle") else "plain"
    has_bound = data.get("activation_scale_ub") is not None
    notes = (("activation_scale_ub", _UNUSED_BOUND),) if has_bound else ()
    output = _dtype(data, "output_dtype")
    is_served = output in (None, "bfloat16")
    if is_served and pair == ("bfloat16", "int4") and type(group) is int:
        fields = {"group_size": group, "int4_packing_format": packing}
        return Replacement("Int4WeightOnlyConfig", 2, fields, notes)
    if is_served and pair == ("float8_e4m3fn", "int4") and group == 128:
        fields = {"int4_packing_format": packing}
        return Replacement("Float8DynamicActivationInt4WeightConfig", 1, fields, notes)
    if is_served and pair == ("float8_e4m3fn", "float8_e4m3fn"):
        fields = {"granularity": _ROW, "activation_value_ub": data.get("activation_scale_ub")}
        return Replacement("Float8DynamicActivationFloat8WeightConfig", 2, fields)
    raise MigrationError(
        "FbgemmConfig of torchao 0.12 and 0.13 had no kernel for these types",
        pointer="/_data",
        found=(*pair, output, group),
        expected="input_dtype bfloat16 and weight_dtype int4, float8_e4m3fn and int4 with groups "
        "of 128, or float8_e4m3fn twice; output_dtype bfloat16",
    )


def _qat_convert(data: Payload) -> Replacement:
    _check_fields("FromIntXQuantizationAwareTrainingConfig", data, ())
    return Replacement("QATConfig", 1, {"step": "convert"})


def _check_fields(name: str, data: Payload, known: tuple[str, ...]) -> None:
    """Raise UnknownFieldError for the first field that the config never had."""
    for key in data:
        if key not in known:
            raise UnknownFieldError(
                "unknown field",
                pointer=json_pointer("_data", key),
                found=key,
                expected=f"a field of {name}: " + (", ".join(known) or "none"),
            )


REPLACED: Mapping[str, Callable[[Payload], Replacement]] = {
    "FbgemmConfig": _fbgemm,
    "Float8DynamicActivationFloat8SemiSparseWeightConfig": _semi_sparse_float8,
    "Float8DynamicActivationFloat8WeightOpaqueTensorConfig": _opaque_float8,
    "FromIntXQuantizationAwareTrainingConfig": _qat_convert,
    "Int4WeightOnlyOpaqueTensorConfig": _opaque_int4,
    "PrototypeInt4WeightOnlyConfig": _opaque_int4,
    "from_intx_quantization_aware_training": _qat_convert,
}
"""By torchao's class name."""
