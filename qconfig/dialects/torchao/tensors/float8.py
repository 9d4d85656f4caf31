"""Float8Tensor, PrototypeFloat8Tensor and FbgemmFp8Tensor."""

from math import prod
from typing import Any

from qconfig.configs.choices import KernelPreference
from qconfig.configs.granularity import PerRow
from qconfig.dialects.torchao.stored import Stored, StoredEnum
from qconfig.dialects.torchao.tensors.reading import Context, Fields, Read, origin
from qconfig.dialects.torchao.tensors.values import float8_kwargs, member, mm_config
from qconfig.errors import MigrationError
from qconfig.layouts.float8 import Float8TensorLayout, QuantizeTensorToFloat8Kwargs
from qconfig.migrations.float8_tensor_layout import Float8TensorLayoutV2
from qconfig.versioning import Layout

_UPPER_BOUND = (
    "activation_scale_ub: FBGEMM's bound for scales of activations is left out; it clipped what "
    "lay beyond it, which here is not clipped"
)
_BOUNDS = ("hp_value_lb", "hp_value_ub")


def read_float8(stored: Stored, context: Context) -> Read:
    """Read a Float8Tensor of 0.13, which kept the bounds of the weight, or of a later release.

    Raises:
        ContainerError or UnknownFieldError: fields that no release wrote.
        LayoutError: tensors that do not fit each other.
    """
    fields = Fields(stored)
    first = any(name in fields for name in _BOUNDS)
    shared = _shared(fields)
    layout: Layout
    if first:
        bounds = {name: fields.optional(name, (float, int)) for name in _BOUNDS}
        floats = {name: None if v is None else float(v) for name, v in bounds.items()}
        layout, releases = Float8TensorLayoutV2(**shared, **floats), "0.13"
    else:
        layout, releases = Float8TensorLayout(**shared), "0.14 and later"
    fields.done()
    return Read(layout, origin(stored, context.releases(releases)))


def read_static_float8(stored: Stored, context: Context) -> Read:
    """Read a PrototypeFloat8Tensor: static scales of activations and outputs.

    Raises:
        MigrationError: scales for the rows of a batch.
        ContainerError or UnknownFieldError: fields that no release wrote.
        LayoutError: tensors that do not fit each other.
    """
    fields = Fields(stored)
    static = fields.optional_tensor("act_quant_scale")
    if static is not None and prod(static.shape) != 1:
        raise MigrationError(
            "act_quant_scale has one scale for each row of a batch, and no layout has that",
            pointer="/act_quant_scale",
            found=static.shape,
            expected="one entry",
            hint="quantize the float weights again with a scale for all activations",
        )
    layout = Float8TensorLayout(
        **_shared(fields),
        act_quant_scale=static,
        output_act_quant_scale=fields.optional_tensor("output_act_quant_scale"),
        output_act_quant_kwargs=float8_kwargs(fields.take("output_act_quant_kwargs", None)),
    )
    fields.done()
    return Read(layout, origin(stored, context.releases("0.17 and later")))


def read_fbgemm_float8(stored: Stored, context: Context) -> Read:
    """Read a FbgemmFp8Tensor of 0.12 and 0.13: scales of rows, activations quantized row by row.

    Raises:
        MigrationError: it has another bound for activations than none.
        ContainerError or UnknownFieldError: fields that no release wrote.
    """
    fields = Fields(stored)
    codes, scale = fields.tensor("float8_data"), fields.tensor("scale")
    upper = fields.take("activation_scale_ub", None)
    *leading, columns = codes.shape
    if prod(scale.shape) != prod(leading):
        raise MigrationError(
            "scales of a FbgemmFp8Tensor are not one a row",
            pointer="/scale",
            found=scale.shape,
            expected=f"{prod(leading)} entries",
        )
    layout = Float8TensorLayout(
        codes,
        scale.reshape(*leading, 1),
        (*(1 for _ in leading), columns),
        fields.dtype,
        act_quant_kwargs=QuantizeTensorToFloat8Kwargs(granularity=PerRow()),
    )
    fields.done()
    notes = () if upper is None else (_UPPER_BOUND,)
    return Read(layout, origin(stored, context.releases("0.12 and 0.13"), changes=notes))


def _shared(fields: Fields) -> dict[str, Any]:
    kernel = fields.optional("kernel_preference", StoredEnum)
    return {
        "qdata": fields.tensor("qdata"),
        "scale": fields.tensor("scale"),
        "block_size": fields.sizes("block_size"),
        "dtype": fields.dtype,
        "mm_config": mm_config(fields.take("mm_config", None)),
        "act_quant_kwargs": float8_kwargs(fields.take("act_quant_kwargs", None)),
        "kernel_preference": KernelPreference.AUTO
        if kernel is None
        else member(kernel, KernelPreference),
    }
