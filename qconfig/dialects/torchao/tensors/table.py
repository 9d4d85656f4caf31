"""Which reader takes which class of torchao's tensors, by the class name alone."""

from collections.abc import Mapping
from functools import partial

from qconfig.checkpoints.writer import Writer
from qconfig.dialects.torchao.stored import Stored
from qconfig.dialects.torchao.tensors.activation import read_dynamic
from qconfig.dialects.torchao.tensors.affine import read_affine
from qconfig.dialects.torchao.tensors.autoquant import read_chosen
from qconfig.dialects.torchao.tensors.autoquant_names import CHOSEN
from qconfig.dialects.torchao.tensors.float8 import (
    read_fbgemm_float8,
    read_float8,
    read_static_float8,
)
from qconfig.dialects.torchao.tensors.int4 import read_fbgemm_int4, read_int4
from qconfig.dialects.torchao.tensors.int4_packed import (
    read_opaque,
    read_plain_int32,
    read_tile_packed,
)
from qconfig.dialects.torchao.tensors.int8 import read_int8
from qconfig.dialects.torchao.tensors.intx import read_intx, read_intx_013
from qconfig.dialects.torchao.tensors.looks import Looks
from qconfig.dialects.torchao.tensors.mx import read_mx
from qconfig.dialects.torchao.tensors.nf4 import read_nf4
from qconfig.dialects.torchao.tensors.nvfp4 import read_nvfp4
from qconfig.dialects.torchao.tensors.reading import Context, Read, Reader, wrong
from qconfig.dialects.torchao.tensors.refusals import refused
from qconfig.dialects.torchao.tensors.wrappers import read_scaled, read_static

READERS: Mapping[str, Reader] = {
    "AffineQuantizedTensor": read_affine,
    "FbgemmFp8Tensor": read_fbgemm_float8,
    "FbgemmInt4Tensor": read_fbgemm_int4,
    "Float8Tensor": read_float8,
    "Int4OpaqueTensor": read_opaque,
    "Int4PlainInt32Tensor": read_plain_int32,
    "Int4Tensor": read_int4,
    "Int4TilePackedTo4dTensor": read_tile_packed,
    "Int8Tensor": read_int8,
    "IntxUnpackedTensor": read_intx_013,
    "IntxUnpackedToInt8Tensor": read_intx,
    "LinearActivationQuantizedTensor": read_dynamic,
    "MXTensor": read_mx,
    "NF4Tensor": read_nf4,
    "NVFP4Tensor": read_nvfp4,
    "PrototypeFloat8Tensor": read_static_float8,
    "StretchedAffineQuantizedTensor": read_affine,
    "WeightTensorWithLinearActivationQuantizationMetadata": read_static,
    "WeightTensorWithLinearActivationScaleMetadata": read_scaled,
    **dict.fromkeys(CHOSEN, read_chosen),
}
"""How each class is read, by its name."""


def read_tensor(stored: Stored, writer: Writer | None = None, looks: Looks | None = None) -> Read:
    """Return a tensor of torchao's as a layout of ours, and what it was.

    Args:
        stored: the tensor.
        writer: the release that wrote it, where the user knows it.
        looks: at data of its checkpoint; None where there is no more than this tensor.

    Raises:
        UnknownNameError: no class of torchao's.
        MigrationError: a class that cannot be read, with the reason and what to do.
        ContainerError or UnknownFieldError: fields that no release wrote.
        LayoutError or FieldError: values that contradict each other.
    """
    reader = READERS.get(stored.name)
    if reader is None:
        raise refused(stored)
    looks = looks or Looks.into([stored])
    read = reader(stored, Context(writer, partial(read_tensor, writer=writer, looks=looks), looks))
    _check_shape(stored, read)
    return read


def _check_shape(stored: Stored, read: Read) -> None:
    # Of a tensor that was transposed, torchao exchanged the shape that it shows and, by class and
    # release, all, some or none of the tensors inside.
    found = tuple(read.layout.shape)
    if stored.shape not in (None, found):
        raise wrong("shape", stored.shape, f"shape {found}, as the tensors inside have")
