"""Names of torchao's functions, and diffusers' short ones, that stood for configs.

transformers and diffusers stored `quant_type: "int8_weight_only"` with `quant_type_kwargs`. The
functions lived in torchao 0.3 to 0.15 and made the configs of version 1.
"""

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen


@frozen
class Legacy:
    """What a name stood for.

    Args:
        type: class of the config that it made.
        arguments: what quant_type_kwargs may hold.
        data: fields that the name itself says, or that the function had by default.
    """

    type: str
    arguments: tuple[str, ...]
    data: Mapping[str, Any] = field(factory=dict)


def _dtype(name: str) -> dict[str, Any]:
    return {"_type": "torch.dtype", "_data": name}


_SWITCH = "set_inductor_config"
_INT4 = (
    "group_size", "layout", "use_hqq", "zero_point_domain", _SWITCH, "preserve_zero",
    "inner_k_tiles",
)  # fmt: skip
_INT8_PAIR = ("layout", "act_mapping_type", "weight_only_decode", _SWITCH)
_8DA4W = ("group_size", "layout", "mapping_type", "act_mapping_type", _SWITCH)
_FLOAT8_PAIR = ("activation_dtype", "weight_dtype", "granularity", "mm_config", _SWITCH)
_UINTX = ("dtype", "group_size", "pack_dim", "use_hqq", _SWITCH)
_SPARSE = {"layout": {"_type": "SemiSparseLayout", "_version": 1, "_data": {}}}

_FUNCTIONS: dict[str, Legacy] = {
    "float8_dynamic_activation_float8_semi_sparse_weight": Legacy(
        "Float8DynamicActivationFloat8SemiSparseWeightConfig",
        ("layout", "activation_dtype", "weight_dtype"),
    ),
    "float8_dynamic_activation_float8_weight": Legacy(
        "Float8DynamicActivationFloat8WeightConfig", _FLOAT8_PAIR
    ),
    "float8_static_activation_float8_weight": Legacy(
        "Float8StaticActivationFloat8WeightConfig", ("scale", *_FLOAT8_PAIR)
    ),
    "float8_weight_only": Legacy("Float8WeightOnlyConfig", ("weight_dtype", _SWITCH)),
    "fpx_weight_only": Legacy("FPXWeightOnlyConfig", ("ebits", "mbits", _SWITCH)),
    "gemlite_uintx_weight_only": Legacy(
        "GemliteUIntXWeightOnlyConfig",
        ("group_size", "bit_width", "packing_bitwidth", "contiguous", "mode", _SWITCH),
    ),
    "int4_dynamic_activation_int4_weight": Legacy(
        "Int4DynamicActivationInt4WeightConfig",
        ("layout", "mapping_type", "act_mapping_type", _SWITCH),
    ),
    "int4_weight_only": Legacy("Int4WeightOnlyConfig", _INT4),
    "int8_dynamic_activation_int4_weight": Legacy(
        "Int8DynamicActivationInt4WeightConfig",
        _8DA4W,
        {"mapping_type": {"_type": "MappingType", "_data": "SYMMETRIC"}},
    ),
    "int8_dynamic_activation_int8_semi_sparse_weight": Legacy(
        "Int8DynamicActivationInt8WeightConfig", (), _SPARSE
    ),
    "int8_dynamic_activation_int8_weight": Legacy(
        "Int8DynamicActivationInt8WeightConfig", _INT8_PAIR
    ),
    "int8_weight_only": Legacy("Int8WeightOnlyConfig", ("group_size", _SWITCH)),
    "uintx_weight_only": Legacy("UIntXWeightOnlyConfig", _UINTX),
}


def _float8(dtype: str) -> Legacy:
    return Legacy("Float8WeightOnlyConfig", (_SWITCH,), {"weight_dtype": _dtype(dtype)})


def _float8_pair(dtype: str, granularity: str) -> Legacy:
    both = {"activation_dtype": _dtype(dtype), "weight_dtype": _dtype(dtype)}
    shared = {"_type": granularity, "_version": 1, "_data": {}}
    return Legacy(
        "Float8DynamicActivationFloat8WeightConfig",
        ("mm_config", _SWITCH),
        both | {"granularity": shared},
    )


def _fpx() -> dict[str, Legacy]:
    pairs = {
        f"fp{bits}_e{ebits}m{bits - ebits - 1}": (ebits, bits - ebits - 1)
        for bits in range(3, 8)
        for ebits in range(1, bits)
    }
    pairs |= {f"fp{bits}": (bits // 2, bits - 1 - bits // 2) for bits in range(3, 8)}
    return {
        name: Legacy("FPXWeightOnlyConfig", (_SWITCH,), {"ebits": ebits, "mbits": mbits})
        for name, (ebits, mbits) in pairs.items()
    }


LEGACY: Mapping[str, Legacy] = {
    **_FUNCTIONS,
    "float8dq": _FUNCTIONS["float8_dynamic_activation_float8_weight"],
    "float8dq_e4m3": Legacy(
        "Float8DynamicActivationFloat8WeightConfig", ("granularity", "mm_config", _SWITCH)
    ),
    "float8dq_e4m3_row": _float8_pair("float8_e4m3fn", "PerRow"),
    "float8dq_e4m3_tensor": _float8_pair("float8_e4m3fn", "PerTensor"),
    "float8wo": _float8("float8_e5m2"),
    "float8wo_e4m3": _float8("float8_e4m3fn"),
    "float8wo_e5m2": _float8("float8_e5m2"),
    "int4dq": _FUNCTIONS["int8_dynamic_activation_int4_weight"],
    "int4wo": _FUNCTIONS["int4_weight_only"],
    "int8dq": _FUNCTIONS["int8_dynamic_activation_int8_weight"],
    "int8wo": _FUNCTIONS["int8_weight_only"],
    "uintx": _FUNCTIONS["uintx_weight_only"],
    **{
        f"uint{bits}wo": Legacy(
            "UIntXWeightOnlyConfig", _UINTX[1:], {"dtype": _dtype(f"uint{bits}")}
        )
        for bits in range(1, 8)
    },
    **_fpx(),
}
"""By the string in quant_type. `float8wo` is diffusers' name, and E5M2 there."""


def legacy_envelope(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return torchao's document of what a known name and its arguments made."""
    legacy = LEGACY[name]
    data = dict(arguments)
    layout = data.get("layout")
    if isinstance(layout, list) and len(layout) == 2 and isinstance(layout[0], str):
        # transformers wrote a layout as its class and its fields.
        data["layout"] = {"_type": layout[0], "_version": 1, "_data": layout[1]}
    tiles = data.pop("inner_k_tiles", None)
    if tiles is not None:
        fields = {"inner_k_tiles": tiles}
        data.setdefault(
            "layout", {"_type": "TensorCoreTiledLayout", "_version": 1, "_data": fields}
        )
    return {"_type": legacy.type, "_version": 1, "_data": {**legacy.data, **data}}
