"""IntxUnpackedTensor of torchao 0.13 and IntxUnpackedToInt8Tensor of later releases."""

from typing import Any

from qconfig.codec.dtypes import DType
from qconfig.dialects.torchao.stored import Stored, StoredEnum
from qconfig.dialects.torchao.tensors.arithmetic import of_intx_tensor
from qconfig.dialects.torchao.tensors.reading import Context, Fields, Read, origin, wrong
from qconfig.layouts.intx import ActivationQuantization, IntxUnpackedToInt8TensorLayout
from qconfig.migrations.intx_unpacked_to_int8_tensor_layout import (
    IntxUnpackedToInt8TensorLayoutV2,
)

_ACTIVATION = "activation_quantization"


def read_intx_013(stored: Stored, context: Context) -> Read:
    """Read an IntxUnpackedTensor: activations stay as they are.

    Raises:
        ContainerError or UnknownFieldError: fields that the release did not write.
        LayoutError: tensors that do not fit each other.
    """
    fields = Fields(stored)
    layout = IntxUnpackedToInt8TensorLayoutV2(**_shared(fields))
    fields.done()
    return Read(layout, origin(stored, context.releases("0.13")))


def read_intx(stored: Stored, context: Context) -> Read:
    """Read an IntxUnpackedToInt8Tensor.

    Raises:
        ContainerError or UnknownFieldError: fields that no release wrote, or another way to
            quantize activations.
        LayoutError: tensors that do not fit each other.
    """
    fields = Fields(stored)
    activation = _activation(fields.take(_ACTIVATION, None))
    arithmetic, unknown = (None, ()) if activation is None else of_intx_tensor(context)
    layout = IntxUnpackedToInt8TensorLayout(
        **_shared(fields), activation_quantization=activation, arithmetic=arithmetic
    )
    fields.done()
    releases = context.releases("0.14 and later")
    return Read(layout, origin(stored, releases, ambiguities=unknown))


def _shared(fields: Fields) -> dict[str, Any]:
    return {
        "qdata": fields.tensor("qdata"),
        "scale": fields.tensor("scale"),
        "zero_point": fields.optional_tensor("zero_point"),
        "target_dtype": fields.value("target_dtype", DType),
        "block_size": fields.sizes("block_size"),
        "dtype": fields.dtype,
    }


def _activation(value: Any) -> ActivationQuantization | None:
    """Return the member for torchao's string, or for a member of its enum with such values."""
    text = value.member.lower() if isinstance(value, StoredEnum) else value
    if text is None:
        return None
    if text == ActivationQuantization.INT8_ASYM_PER_TOKEN.value:
        return ActivationQuantization.INT8_ASYM_PER_TOKEN
    raise wrong(_ACTIVATION, value, f"None or {ActivationQuantization.INT8_ASYM_PER_TOKEN.value!r}")
