"""Int4 codes in the order of a kernel, inside AffineQuantizedTensor and in classes of their own."""

from typing import Any

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.stored import Stored, StoredEnum
from qconfig.dialects.torchao.tensors.cpu_order import with_cpu_order
from qconfig.dialects.torchao.tensors.names import releases_of
from qconfig.dialects.torchao.tensors.reading import Context, Fields, Read, origin, wrong
from qconfig.dialects.torchao.tensors.shell import Shell, check_untransposed, layout_object
from qconfig.errors import MigrationError
from qconfig.migrations.cutlass_int4_packed_tensor_layout import CutlassInt4PackedTensorLayoutV1
from qconfig.migrations.int4_opaque_tensor_layout import (
    ActMappingType,
    Int4OpaqueTensorLayoutV1,
    Int4OpaqueTensorLayoutV2,
    Int4OpaqueTensorLayoutV3,
)
from qconfig.migrations.int4_plain_int32_tensor_layout import (
    Int4PlainInt32TensorLayoutV1,
    Int4PlainInt32TensorLayoutV2,
)
from qconfig.migrations.int4_tile_packed_to4d_tensor_layout import (
    Int4TilePackedTo4dTensorLayoutV1,
    Int4TilePackedTo4dTensorLayoutV2,
)
from qconfig.versioning import Layout

_SECOND_KERNEL = ("qzeros", "compensation")
_MAPPING_TYPE = "act_mapping_type"
_GPU_ORDER = (
    "order of codes: the file does not say for which GPU they are packed; taken is NVIDIA's, and "
    "AMD's would give other values"
)


def read_tiled(shell: Shell, fields: Fields, _context: Context) -> Layout:
    """Read codes in tiles of a GPU's matrix instructions.

    Raises:
        MigrationError: zero points that are codes, which the kernel does not have, or other bounds
            of codes than 0 and 15.
        LayoutError: tensors that do not fit each other.
    """
    _check_values(shell)
    layout_object(fields)
    layout: Layout = Int4TilePackedTo4dTensorLayoutV1(
        fields.tensor("packed_weight"),
        fields.tensor("scale_and_zero"),
        shell.block_size,
        shell.shape,
        shell.dtype,
        transposed=_is_transposed(shell, fields),
    )
    return layout


def read_cpu(shell: Shell, fields: Fields, _context: Context) -> Layout:
    """Read codes in the order of a CPU's kernel.

    Raises:
        MigrationError: zero points that are codes, which the kernel does not have, or other bounds
            of codes than 0 and 15.
        LayoutError: tensors that do not fit each other.
    """
    _check_values(shell)
    layout_object(fields)
    layout: Layout = Int4OpaqueTensorLayoutV1(
        fields.tensor("packed_weight"),
        fields.tensor("scale_and_zero"),
        shell.block_size,
        shell.dtype,
        transposed=_is_transposed(shell, fields),
    )
    return layout


def read_xpu(shell: Shell, fields: Fields, _context: Context) -> Layout:
    """Read codes eight an int32, with scales and zero points together or apart.

    Raises:
        MigrationError: a transposed tensor, other bounds of codes than the kernel's, or zero points
            that are not what zero_point_domain says.
        LayoutError: tensors that do not fit each other.
    """
    check_untransposed(fields)
    layout_object(fields)
    _check_bounds(shell)
    pairs = fields.optional_tensor("scale_and_zero")
    domain = "INT" if pairs is None else "FLOAT"
    if shell.domain != domain:
        raise MigrationError(
            "zero points beside scales are values, and those apart are codes",
            pointer="/zero_point_domain",
            found=f"ZeroPointDomain.{shell.domain}",
            expected=f"ZeroPointDomain.{domain}",
        )
    layout: Layout = Int4PlainInt32TensorLayoutV1(
        fields.tensor("packed_weight"),
        shell.block_size,
        shell.dtype,
        scale_and_zero=pairs,
        scale=fields.optional_tensor("scale"),
        zero=fields.optional_tensor("zero"),
    )
    return layout


def read_cutlass(shell: Shell, fields: Fields, _context: Context) -> Layout:
    """Read signed codes two a byte.

    Raises:
        LayoutError: tensors that do not fit each other.
    """
    layout_object(fields)
    layout: Layout = CutlassInt4PackedTensorLayoutV1(
        fields.tensor("int_data"), fields.tensor("scale"), shell.block_size, shell.dtype
    )
    return layout


def read_tile_packed(stored: Stored, context: Context) -> Read:
    """Read an Int4TilePackedTo4dTensor.

    Raises:
        ContainerError or UnknownFieldError: fields that no release wrote.
        LayoutError: tensors that do not fit each other.
    """
    fields = Fields(stored)
    shared = _shared(fields, DType.BFLOAT16)
    layout = Int4TilePackedTo4dTensorLayoutV2(**shared, scale_and_zero=_pairs(fields))
    fields.done()
    read = Read(layout, origin(stored, context.releases("0.14 and later")))
    return ordered(read, context)


def read_plain_int32(stored: Stored, context: Context) -> Read:
    """Read an Int4PlainInt32Tensor.

    Raises:
        ContainerError or UnknownFieldError: fields that no release wrote.
        LayoutError: tensors that do not fit each other.
    """
    fields = Fields(stored)
    scale = fields.tensor("scale")
    layout = Int4PlainInt32TensorLayoutV2(
        **_shared(fields, scale.dtype), scale=scale, zero_point=fields.tensor("zero_point")
    )
    fields.done()
    return Read(layout, origin(stored, context.releases("0.14 and later")))


def read_opaque(stored: Stored, context: Context) -> Read:
    """Read an Int4OpaqueTensor of 0.14 to 0.16, or a later one with fields of a second kernel.

    Raises:
        ContainerError or UnknownFieldError: fields that no release wrote.
        LayoutError: tensors that do not fit each other.
    """
    fields = Fields(stored)
    pairs = _pairs(fields)
    values = {**_shared(fields, pairs.dtype), "scale_and_zero": pairs}
    layout: Layout
    if any(name in fields for name in (*_SECOND_KERNEL, _MAPPING_TYPE)):
        layout = Int4OpaqueTensorLayoutV3(
            **values,
            **{name: fields.optional_tensor(name) for name in _SECOND_KERNEL},
            act_mapping_type=_mapping(fields),
        )
        releases = "0.17 and later"
    else:
        layout, releases = Int4OpaqueTensorLayoutV2(**values), "0.14 to 0.16"
    fields.done()
    known = releases_of(stored.path) or releases
    return ordered(Read(layout, origin(stored, context.releases(known))), context)


def ordered(read: Read, context: Context) -> Read:
    """Return a packed tensor with the order that its file shows, and what that leaves open.

    Args:
        read: any tensor; one that no processor packed is returned as it is.
        context: the looks at the file's data.
    """
    layout: Any = read.layout
    if isinstance(layout, Int4TilePackedTo4dTensorLayoutV1 | Int4TilePackedTo4dTensorLayoutV2):
        return read.noting(ambiguities=(_GPU_ORDER,))
    if isinstance(layout, Int4OpaqueTensorLayoutV1):
        packed = layout.packed_weight
    elif isinstance(layout, Int4OpaqueTensorLayoutV2 | Int4OpaqueTensorLayoutV3):
        packed = layout.qdata
        if any(getattr(layout, n, None) is not None for n in (*_SECOND_KERNEL, _MAPPING_TYPE)):
            return read
    else:
        return read
    layout, notes = with_cpu_order(layout, packed, context.looks.orders)
    return Read(layout, read.origin).noting(ambiguities=notes)


def _shared(fields: Fields, dtype: DType) -> dict[str, Any]:
    # Files of safetensors do not say what the tensor shows: `dtype`, by its class.
    return {
        "qdata": fields.tensor("qdata"),
        "block_size": fields.sizes("block_size"),
        "shape": fields.shape,
        "dtype": fields.value("dtype", DType, fields.stored.dtype) or dtype,
        "act_pre_scale": fields.optional_tensor("act_pre_scale"),
    }


def _pairs(fields: Fields) -> LazyTensor:
    return fields.tensor("scale_and_zero")


def _is_transposed(shell: Shell, fields: Fields) -> bool:
    # Up to 0.6 t() set the flag of the tensor that it was called of, too, and later releases never
    # set it. Blocks of the new tensor are (g, 1).
    fields.optional("transposed", bool)
    first, *others = shell.block_size or (1,)
    return first > 1 and set(others) == {1}


def _mapping(fields: Fields) -> ActMappingType | None:
    value = fields.take(_MAPPING_TYPE, None)
    text = value.member.lower() if isinstance(value, StoredEnum) else value
    if text is None:
        return None
    if not isinstance(text, str) or text not in {kind.value for kind in ActMappingType}:
        raise wrong(_MAPPING_TYPE, value, "symmetric or asymmetric")
    return ActMappingType(text)


def _check_values(shell: Shell) -> None:
    _check_bounds(shell)
    if shell.domain != "FLOAT":
        raise MigrationError(
            "int4 codes of this kernel have zero points that are values",
            pointer="/zero_point_domain",
            found=f"ZeroPointDomain.{shell.domain}",
            expected="ZeroPointDomain.FLOAT",
        )


def _check_bounds(shell: Shell) -> None:
    # torchao took its kernel for these alone, and other values from dequantize for others.
    if shell.bounds != (0, 15):
        raise MigrationError(
            "quant_min and quant_max are not those of this kernel's codes",
            pointer="/quant_max",
            found=shell.bounds,
            expected="0 and 15",
        )
