"""Numbers that lie in files as tensors of one element, read without torch."""

import struct
from collections.abc import Mapping

from qconfig.codec.dtypes import DType
from qconfig.codec.regular_files import open_regular
from qconfig.codec.tensor_values import LazyTensor

_FORMATS: Mapping[DType, str] = {
    DType.BOOL: "<?",
    DType.UINT8: "<B",
    DType.INT8: "<b",
    DType.INT16: "<h",
    DType.INT32: "<i",
    DType.INT64: "<q",
    DType.FLOAT16: "<e",
    DType.FLOAT32: "<f",
    DType.FLOAT64: "<d",
}


def single_number(tensor: LazyTensor) -> float | None:
    """Return the number that a tensor of rank 0 is; None for others, and for what is in no file.

    Raises:
        ContainerError: the file has become too short.
        StorageError: it is missing or may not be read.
    """
    source = tensor.source
    form = _FORMATS.get(tensor.dtype, "<f" if tensor.dtype is DType.BFLOAT16 else None)
    if tensor.shape or source is None or form is None:
        return None
    with open_regular(source.path) as file:
        stored = bytes(file.read(source.offset, source.length))
    if tensor.dtype is DType.BFLOAT16:  # the upper half of a float32
        stored = b"\0\0" + stored
    (number,) = struct.unpack(form, stored)
    return float(number) if isinstance(number, float) else int(number)
