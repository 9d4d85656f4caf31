"""AffineQuantizedTensor of torchao 0.3 to 0.17: a shell around codes in one of many arrangements.

The shell says block size, bounds and what zero points are; `tensor_impl`, up to 0.6
`layout_tensor`, holds the tensors, and its class decides which layout of ours they have.
"""

from collections.abc import Mapping

from qconfig.dialects.torchao.stored import Stored, StoredEnum
from qconfig.dialects.torchao.tensors.floatx import read_floatx
from qconfig.dialects.torchao.tensors.int4_packed import (
    ordered,
    read_cpu,
    read_cutlass,
    read_tiled,
    read_xpu,
)
from qconfig.dialects.torchao.tensors.names import releases_of
from qconfig.dialects.torchao.tensors.plain import read_float8_impl, read_plain, read_qdq
from qconfig.dialects.torchao.tensors.reading import Context, Fields, Read, origin
from qconfig.dialects.torchao.tensors.refusals import refused
from qconfig.dialects.torchao.tensors.rounded_products import with_rounded_products
from qconfig.dialects.torchao.tensors.shell import Implementation, Shell
from qconfig.dialects.torchao.tensors.sparse import read_block_sparse
from qconfig.dialects.torchao.tensors.uintx import read_uintx
from qconfig.errors import QconfigError
from qconfig.versioning import Layout

IMPLEMENTATIONS: Mapping[str, Implementation] = {
    "BlockSparseAQTLayout": read_block_sparse,
    "BlockSparseAQTTensorImpl": read_block_sparse,
    "Float8AQTLayout": read_float8_impl,
    "Float8AQTTensorImpl": read_float8_impl,
    "FloatxTensorCoreAQTLayout": read_floatx,
    "FloatxTensorCoreAQTTensorImpl": read_floatx,
    "FpxTensorCoreAQTLayout": read_floatx,
    "Int4CPUAQTTensorImpl": read_cpu,
    "Int4PackedTensorImpl": read_cutlass,
    "Int4XPUAQTTensorImpl": read_xpu,
    "PlainAQTLayout": read_plain,
    "PlainAQTTensorImpl": read_plain,
    "QDQTensorImpl": read_qdq,
    "TensorCoreTiledAQTLayout": read_tiled,
    "TensorCoreTiledAQTTensorImpl": read_tiled,
    "UintxAQTLayout": read_uintx,
    "UintxAQTTensorImpl": read_uintx,
}
"""How each arrangement that can be read is read, by its class name."""


def read_affine(stored: Stored, context: Context) -> Read:
    """Read an AffineQuantizedTensor.

    Raises:
        MigrationError: an arrangement that nobody can read, or that does not go with the shell.
        ContainerError or UnknownFieldError: fields that no release wrote.
        LayoutError: tensors that do not fit each other.
    """
    fields = Fields(stored)
    name = "layout_tensor" if "layout_tensor" in fields else "tensor_impl"
    implementation = fields.value(name, Stored)
    domain = fields.optional("zero_point_domain", StoredEnum)
    shell = Shell(
        fields.shape,
        fields.dtype,
        fields.sizes("block_size"),
        fields.take("quant_min", None),
        fields.take("quant_max", None),
        _domain(stored, domain),
    )
    fields.done()
    try:
        layout = _layout(shell, implementation, context)
    except QconfigError as error:
        raise error.at(pointer_prefix=f"/{name}") from None
    releases = "0.3 to 0.6" if name == "layout_tensor" else "0.7 to 0.17"
    known = releases_of(implementation.path) or releases
    read = Read(layout, origin(implementation, context.releases(known)))
    return with_rounded_products(ordered(read, context), context).inside(stored.name)


def _domain(stored: Stored, domain: StoredEnum | None) -> str:
    if stored.name == "StretchedAffineQuantizedTensor":
        return "INT"  # it says FLOAT, for zero points are halves of a code, subtracted from codes
    return "NONE" if domain is None else domain.member


def _layout(shell: Shell, implementation: Stored, context: Context) -> Layout:
    reader = IMPLEMENTATIONS.get(implementation.name)
    if reader is None:
        raise refused(implementation)
    inside = Fields(implementation)
    layout = reader(shell, inside, context)
    inside.done()
    return layout
