"""The first rows of a tensor, without those behind them."""

from math import prod
from typing import TYPE_CHECKING

from qconfig.codec.raw_memory import byte_view
from qconfig.codec.regular_files import open_regular
from qconfig.codec.tensor_values import LazyTensor

if TYPE_CHECKING:
    import torch


def first_rows(tensor: LazyTensor, count: int) -> "torch.Tensor":
    """Return `tensor[:count]`; of one whose bytes lie in a file, no others are read.

    Args:
        tensor: of one dimension or more.
        count: rows at most; a tensor may have fewer.

    Raises:
        ContainerError: the file has become too short.
        StorageError: it is missing or may not be read.
    """
    import torch

    rows, source = min(count, tensor.shape[0]), tensor.source
    if source is None:
        return tensor.load()[:rows]
    shape = (rows, *tensor.shape[1:])
    size = prod(shape) * tensor.dtype.itemsize
    flat = torch.empty(size, dtype=torch.uint8, device="cpu")
    with open_regular(source.path) as file, byte_view(flat) as view:
        file.read_into(view, source.offset)
    return flat.view(tensor.dtype.to_torch()).reshape(shape)
