"""MXTensor of every release, told apart by its fields.

| fields | torchao |
|---|---|
| `_data`, `_scale_e8m0` of bytes | 0.4 to 0.9 |
| the same, scales of type float8_e8m0fnu, or `_pack_fp6` | 0.10 and 0.11 |
| the same, scales in rows | 0.12 |
| `qdata`, `_scale_e8m0` | 0.13 and 0.14 |
| `scale`, `_elem_dtype` | 0.15 |
| `scale`, `elem_dtype` | 0.16 and later |
"""

from math import prod
from typing import TYPE_CHECKING, Any

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor
from qconfig.configs.choices import KernelPreference
from qconfig.dialects.torchao.stored import Stored
from qconfig.dialects.torchao.tensors.reading import Context, Fields, Read, origin, wrong
from qconfig.dialects.torchao.tensors.turned import turned_back, upright
from qconfig.dialects.torchao.tensors.values import (
    element_type,
    member,
    mx_kwargs,
    mx_kwargs_013,
    old_element_type,
)
from qconfig.layouts.mx import MXTensorLayout
from qconfig.migrations.mx_tensor_layout import (
    MXGemmKernelChoice,
    MXTensorLayoutV1,
    MXTensorLayoutV2,
    MXTensorLayoutV3,
    MXTensorLayoutV4,
)
from qconfig.versioning import Layout

if TYPE_CHECKING:
    import torch

_TRITON = "_use_fp4_custom_triton_dequant_kernel"


def read_mx(stored: Stored, context: Context) -> Read:
    """Read an MXTensor.

    Raises:
        ContainerError or UnknownFieldError: fields that no release wrote.
        LayoutError: tensors that do not fit each other.
    """
    codes = "_data" if "_data" in stored.fields else "qdata"
    if codes in stored.turned:
        scale = "_scale_e8m0" if "_scale_e8m0" in stored.fields else "scale"
        return turned_back(read_mx(upright(stored, codes, scale), context))
    fields = Fields(stored)
    if "_data" in fields:
        layout, releases = _flat_scales(fields)
    elif "_scale_e8m0" in fields:
        layout, releases = _rows_of_scales(fields), "0.13 and 0.14"
    elif "_elem_dtype" in fields:
        layout, releases = MXTensorLayoutV4(**_since_015(fields, "_")), "0.15"
    else:
        layout, releases = MXTensorLayout(**_since_015(fields, "")), "0.16 and later"
    fields.done()
    return Read(layout, origin(stored, context.releases(releases)))


def shown(fields: Fields, name: str) -> DType:
    """Return the type that a tensor shows, which a field of MX and NVFP4 tensors says too.

    Raises:
        ContainerError: the field says another type than the tensor itself.
    """
    said: DType | None = fields.optional(name, DType)
    outside = fields.value("dtype", DType, fields.stored.dtype)
    found = outside if said is None else said
    if found is None or outside not in (None, found):
        raise wrong(name, said, f"the type of the tensor, {outside}")
    return found


def _flat_scales(fields: Fields) -> tuple[Layout, str]:
    scale, codes = fields.tensor("_scale_e8m0"), fields.tensor("_data")
    kernel = fields.take("_gemm_kernel_choice", None)
    pack_fp6 = bool(fields.optional("_pack_fp6", bool))
    shared: dict[str, Any] = {
        "data": codes,
        "elem_dtype": old_element_type(fields.take("_elem_dtype")),
        "block_size": fields.value("_block_size", int),
        "dtype": shown(fields, "_orig_dtype"),
        "use_fp4_custom_triton_dequant_kernel": bool(fields.optional(_TRITON, bool)),
        "gemm_kernel_choice": _kernel(kernel),
    }
    if "_pack_fp6" not in fields and scale.dtype is DType.UINT8:
        return MXTensorLayoutV1(scale_e8m0=scale, **shared), "0.4 to 0.9"
    releases = "0.10 and 0.11"
    if len(scale.shape) > 1 and scale.shape[:-1] == codes.shape[:-1]:
        scale, releases = scale.reshape(prod(scale.shape)), "0.12"
    return MXTensorLayoutV2(scale_e8m0=_typed(scale), pack_fp6=pack_fp6, **shared), releases


def _rows_of_scales(fields: Fields) -> Layout:
    layout: Layout = MXTensorLayoutV3(
        qdata=fields.tensor("qdata"),
        scale_e8m0=fields.tensor("_scale_e8m0"),
        elem_dtype=element_type(fields.take("_elem_dtype")),
        block_size=fields.value("_block_size", int),
        dtype=shown(fields, "_orig_dtype"),
        gemm_kernel_choice=_kernel(fields.take("_gemm_kernel_choice", None)),
        pack_fp6=bool(fields.optional("_pack_fp6", bool)),
        act_quant_kwargs=mx_kwargs_013(fields.take("act_quant_kwargs", None)),
    )
    return layout


def _since_015(fields: Fields, prefix: str) -> dict[str, Any]:
    kernel = fields.take("kernel_preference", None)
    return {
        "qdata": fields.tensor("qdata"),
        "scale": _typed(fields.tensor("scale")),
        "elem_dtype": element_type(fields.take(f"{prefix}elem_dtype")),
        "block_size": fields.value("block_size", int),
        "dtype": shown(fields, f"{prefix}orig_dtype"),
        "kernel_preference": KernelPreference.AUTO
        if kernel is None
        else member(kernel, KernelPreference),
        "act_quant_kwargs": mx_kwargs(fields.take("act_quant_kwargs", None)),
        "is_swizzled_scales": bool(fields.optional(f"{prefix}is_swizzled_scales", bool)),
    }


def _typed(scale: LazyTensor) -> LazyTensor:
    """Return scales by their own type, where a file holds them as bytes; they stay where they lie.

    Some writers had no other type for them.
    """
    if scale.dtype is not DType.UINT8:
        return scale

    def load() -> "torch.Tensor":
        return scale.load().view(DType.FLOAT8_E8M0FNU.to_torch())

    return LazyTensor(DType.FLOAT8_E8M0FNU, scale.shape, load, scale.source)


def _kernel(value: Any) -> MXGemmKernelChoice:
    if value is None:
        return MXGemmKernelChoice.EMULATED
    found: MXGemmKernelChoice = member(value, MXGemmKernelChoice)
    return found
