"""FbgemmInt4Tensor of torchao 0.12 and Int4Tensor of later releases, told apart by their fields."""

from typing import Any

from qconfig.codec.dtypes import DType
from qconfig.dialects.torchao.stored import Stored
from qconfig.dialects.torchao.tensors.reading import Context, Fields, Read, origin
from qconfig.layouts.int4 import Int4TensorLayout
from qconfig.migrations.int4_tensor_layout import (
    Int4TensorLayoutV1,
    Int4TensorLayoutV2,
    Int4TensorLayoutV3,
)
from qconfig.versioning import Layout


def read_fbgemm_int4(stored: Stored, context: Context) -> Read:
    """Read a FbgemmInt4Tensor.

    Raises:
        ContainerError or UnknownFieldError: fields that the release did not write.
        LayoutError: tensors that do not fit each other.
    """
    fields = Fields(stored)
    layout = Int4TensorLayoutV1(
        fields.tensor("packed_weight"),
        fields.tensor("scale"),
        fields.tensor("zero_point"),
        fields.value("group_size", int),
        fields.dtype,
    )
    fields.done()
    return Read(layout, origin(stored, context.releases("0.12")))


def read_int4(stored: Stored, context: Context) -> Read:
    """Read an Int4Tensor.

    Raises:
        ContainerError or UnknownFieldError: fields that no release wrote.
        LayoutError: tensors that do not fit each other.
    """
    fields = Fields(stored)
    scale = fields.tensor("scale")
    said = fields.value("dtype", DType, stored.dtype)
    shared: dict[str, Any] = {
        "qdata": fields.tensor("qdata"),
        "scale": scale,
        "zero_point": fields.tensor("zero_point"),
        "block_size": fields.sizes("block_size"),
        "shape": fields.shape,
        "dtype": scale.dtype if said is None else said,  # torchao's is that of the scale
    }
    layout: Layout
    if "activation_dtype" in fields:
        activation = fields.optional("activation_dtype", DType) or DType.BFLOAT16
        factor = fields.optional_tensor("act_pre_scale")
        layout = Int4TensorLayout(**shared, activation_dtype=activation, act_pre_scale=factor)
        releases = "0.17 and later"
    elif "act_pre_scale" in fields or stored.path is None:
        factor = fields.optional_tensor("act_pre_scale")
        layout, releases = Int4TensorLayoutV3(**shared, act_pre_scale=factor), "0.14 to 0.16"
    else:
        layout, releases = Int4TensorLayoutV2(**shared), "0.13"
    fields.done()
    return Read(layout, origin(stored, context.releases(releases)))
