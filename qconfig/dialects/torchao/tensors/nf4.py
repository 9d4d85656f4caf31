"""NF4Tensor, the same in every release."""

from qconfig.dialects.torchao.stored import Stored
from qconfig.dialects.torchao.tensors.names import releases_of
from qconfig.dialects.torchao.tensors.reading import Context, Fields, Read, origin, wrong
from qconfig.layouts.nf4 import NF4TensorLayout

_TENSORS = ("quantized_data", "quantized_scalers", "quantization_factor", "scaler_mean", "nf4")


def read_nf4(stored: Stored, context: Context) -> Read:
    """Read an NF4Tensor.

    Raises:
        ContainerError or UnknownFieldError: fields that no release wrote.
        LayoutError: tensors that do not fit each other.
    """
    fields = Fields(stored)
    tensors = {name: fields.tensor(name) for name in _TENSORS}
    blocks = fields.value("n_blocks", int)
    if tensors["quantized_scalers"].shape != (blocks,):
        raise wrong("n_blocks", blocks, f"{tensors['quantized_scalers'].shape}, the scales")
    layout = NF4TensorLayout(
        **tensors,
        block_size=fields.value("block_size", int),
        scaler_block_size=fields.value("scaler_block_size", int),
        shape=fields.shape,
        dtype=fields.dtype,
    )
    fields.done()
    releases = releases_of(stored.path) or "0.3 and later"
    return Read(layout, origin(stored, context.releases(releases)))
