"""Arrangement of AffineQuantizedTensor with small floats for tensor cores (FP6-LLM)."""

from qconfig.dialects.torchao.tensors.reading import Context, Fields
from qconfig.dialects.torchao.tensors.shell import Shell, layout_object
from qconfig.errors import ContainerError
from qconfig.migrations.floatx_tensor_layout import FloatxTensorLayoutV1
from qconfig.versioning import Layout

_FIRST_NAME = "packed_fpx_data"  # of the codes, in 0.5


def read_floatx(shell: Shell, fields: Fields, _context: Context) -> Layout:
    """Read codes of `ebits` and `mbits`, which the object that names the arrangement says.

    Raises:
        ContainerError: there is no such object, or it does not say both.
        LayoutError: tensors that do not fit each other.
    """
    named = layout_object(fields)
    codes = _FIRST_NAME if _FIRST_NAME in fields else "packed_floatx_data"
    bits = {} if named is None else dict(named.fields)
    if sorted(bits) != ["ebits", "mbits"] or any(type(n) is not int for n in bits.values()):
        raise ContainerError(
            "the bits of the codes are not known",
            pointer="/_layout",
            found=named,
            expected="a FloatxTensorCoreLayout with ebits and mbits",
        )
    layout: Layout = FloatxTensorLayoutV1(
        fields.tensor(codes), fields.tensor("scale"), **bits, dtype=shell.dtype
    )
    return layout
