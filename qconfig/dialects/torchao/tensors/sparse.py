"""Arrangement of AffineQuantizedTensor with int8 codes in blocks, of which some are not stored."""

from qconfig.dialects.torchao.tensors.reading import Context, Fields
from qconfig.dialects.torchao.tensors.shell import Shell, layout_object, zero_points
from qconfig.migrations.block_sparse_tensor_layout import BlockSparseTensorLayoutV1
from qconfig.versioning import Layout


def read_block_sparse(shell: Shell, fields: Fields, _context: Context) -> Layout:
    """Read int8 codes in torch's block compressed rows.

    Raises:
        ContainerError or UnknownFieldError: fields that no release wrote.
        LayoutError: tensors that do not fit each other.
    """
    layout_object(fields)
    layout: Layout = BlockSparseTensorLayoutV1(
        fields.tensor("bsr_values"),
        fields.tensor("bsr_crow_indices"),
        fields.tensor("bsr_col_indices"),
        fields.tensor("scale"),
        shell.block_size,
        shell.shape,
        shell.dtype,
        zero_point=zero_points(shell, fields),
    )
    return layout
