"""What opening a checkpoint looks at of its data: little, however large it is."""

from collections.abc import Iterable

from attrs import define

from qconfig.codec.tensor_values import LazyTensor, nbytes
from qconfig.dialects.torchao.stored import Stored
from qconfig.dialects.torchao.tensors.cpu_order import CpuOrders, packed_in

_MOST_BYTES = 1 << 28


@define
class Looks:
    """The looks at data that the tensors of a checkpoint share.

    Args:
        orders: what its int4 weights show of the processor that packed them.
        bytes_left: how much of scales and zero points may still be read.
    """

    orders: CpuOrders
    bytes_left: int = _MOST_BYTES

    @classmethod
    def into(cls, stored: Iterable[Stored]) -> "Looks":
        """Return the looks into a checkpoint of these tensors; nothing is read yet."""
        return cls(CpuOrders(packed_in(stored)))

    def allow(self, tensor: LazyTensor) -> bool:
        """Return whether a tensor may be read, which then counts."""
        size = nbytes(tensor)
        if size > self.bytes_left:
            return False
        self.bytes_left -= size
        return True
