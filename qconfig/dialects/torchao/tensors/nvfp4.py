"""NVFP4Tensor of every release, told apart by its fields.

| fields | torchao |
|---|---|
| `_data`, `_scale_e4m3`, `mm_config` | 0.12 |
| `qdata`, `_scale_e4m3` | 0.13 and 0.14 |
| `scale`, `_is_swizzled_scales` | 0.15 |
| `scale`, `is_swizzled_scales` | 0.16 and later |

Fields do not tell 0.18 from 0.16, but values do: up to 0.17 torchao rounded a per_tensor_scale
without dimensions, and its product with a block scale, to the type that the tensor shows.
"""

from math import prod
from typing import Any

from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.stored import Stored
from qconfig.dialects.torchao.tensors.mx import shown
from qconfig.dialects.torchao.tensors.reading import Context, Fields, Read, origin
from qconfig.dialects.torchao.tensors.turned import turned_back, upright
from qconfig.dialects.torchao.tensors.values import member, nvfp4_kwargs
from qconfig.layouts.nvfp4 import NVFP4TensorLayout
from qconfig.migrations.nvfp4_tensor_layout import (
    NVFP4MMConfig,
    NVFP4TensorLayoutV1,
    NVFP4TensorLayoutV2,
    NVFP4TensorLayoutV3,
)

_UNKNOWN = (
    "per_tensor_scale: values are computed as torchao 0.18 does; 0.16 and 0.17 store the same "
    "fields and rounded the scale, and its products, to the type of the tensor, so that a bfloat16 "
    "value may differ by 2**-7 of it; name the writer to have that"
)


def read_nvfp4(stored: Stored, context: Context) -> Read:
    """Read an NVFP4Tensor.

    Raises:
        ContainerError or UnknownFieldError: fields that no release wrote.
        LayoutError: tensors that do not fit each other.
    """
    codes = "_data" if "_data" in stored.fields else "qdata"
    if codes in stored.turned:
        scale = "_scale_e4m3" if "_scale_e4m3" in stored.fields else "scale"
        return turned_back(read_nvfp4(upright(stored, codes, scale), context))
    fields = Fields(stored)
    layout: NVFP4TensorLayout | NVFP4TensorLayoutV1 | NVFP4TensorLayoutV2 | NVFP4TensorLayoutV3
    if "_data" in fields:
        layout, releases = _first(fields), "0.12"
    elif "_scale_e4m3" in fields:
        layout, releases = _second(fields), "0.13 and 0.14"
    elif "_is_swizzled_scales" in fields:
        layout, releases = NVFP4TensorLayoutV3(**_since_015(fields, "_")), "0.15"
    else:
        layout, releases = NVFP4TensorLayout(**_since_015(fields, "")), "0.16 and later"
    fields.done()
    read = Read(layout, origin(stored, context.releases(releases)))
    second = layout.per_tensor_scale
    if second is None or second.shape:
        return read
    before = context.is_before((0, 18)) if isinstance(layout, NVFP4TensorLayout) else True
    if before is None:
        return read.noting(ambiguities=(_UNKNOWN,))
    return read.newest().with_fields(rounds_scales=True) if before else read


def _first(fields: Fields) -> NVFP4TensorLayoutV1:
    config = fields.take("mm_config", None)
    return NVFP4TensorLayoutV1(
        data=fields.tensor("_data"),
        scale_e4m3=fields.tensor("_scale_e4m3"),
        block_size=fields.value("_block_size", int),
        dtype=shown(fields, "_orig_dtype"),
        per_tensor_scale=fields.optional_tensor("_per_tensor_scale"),
        mm_config=NVFP4MMConfig.DYNAMIC if config is None else member(config, NVFP4MMConfig),
        **_switches(fields, "_"),
    )


def _second(fields: Fields) -> NVFP4TensorLayoutV2:
    codes = fields.tensor("qdata")
    return NVFP4TensorLayoutV2(
        qdata=codes,
        scale_e4m3=_in_a_row(codes, fields.tensor("_scale_e4m3")),
        block_size=fields.value("_block_size", int),
        dtype=shown(fields, "_orig_dtype"),
        per_tensor_scale=fields.optional_tensor("_per_tensor_scale"),
        act_per_tensor_scale=fields.optional_tensor("_act_per_tensor_scale"),
        act_quant_kwargs=nvfp4_kwargs(fields.take("act_quant_kwargs", None)),
        **_switches(fields, "_"),
    )


def _in_a_row(codes: LazyTensor, scale: LazyTensor) -> LazyTensor:
    """Return scales in one row, where they are so for each of several matrices, as in 0.13."""
    leading = codes.shape[:-2]
    if leading and scale.shape[:-1] == leading:
        return scale.reshape(prod(scale.shape))
    return scale


def _since_015(fields: Fields, prefix: str) -> dict[str, Any]:
    return {
        "qdata": fields.tensor("qdata"),
        "scale": fields.tensor("scale"),
        "block_size": fields.value("block_size", int),
        "dtype": shown(fields, f"{prefix}orig_dtype"),
        "per_tensor_scale": fields.optional_tensor("per_tensor_scale"),
        "act_per_tensor_scale": fields.optional_tensor("act_per_tensor_scale"),
        "act_quant_kwargs": nvfp4_kwargs(fields.take("act_quant_kwargs", None)),
        **_switches(fields, prefix),
    }


def _switches(fields: Fields, prefix: str) -> dict[str, bool]:
    return {
        "is_swizzled_scales": bool(fields.optional(f"{prefix}is_swizzled_scales", bool)),
        "use_triton_kernel": bool(fields.optional("use_triton_kernel", bool)),
    }
