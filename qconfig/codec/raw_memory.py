"""The bytes of a CPU tensor as a memoryview: the one place where raw addresses are handled.

NumPy would do it too, but torch runs without it and it lacks bfloat16, float8 and float4.
"""

import ctypes
import mmap
from typing import TYPE_CHECKING

from qconfig.errors import UnsupportedOperationError

if TYPE_CHECKING:
    import torch

_LARGE = 4 * 2**20
_WRITABLE = 0x200  # PyBUF_WRITE of CPython's C API
_from_memory = ctypes.pythonapi.PyMemoryView_FromMemory
_from_memory.restype = ctypes.py_object
_from_memory.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)


def empty_bytes(count: int) -> "torch.Tensor":
    """Return a vector of uint8 of so many bytes on the CPU; what they hold is undefined.

    Large ones have pages of their own, which the system has back as soon as the tensor is gone;
    an allocator may keep them in pieces that nothing else fits into.
    """
    import torch

    if count < _LARGE:
        return torch.empty(count, dtype=torch.uint8, device="cpu")
    pages = mmap.mmap(-1, count)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(pages, dtype=torch.uint8)


def byte_view(tensor: "torch.Tensor") -> memoryview:
    """Return the writable bytes of a contiguous CPU tensor, without a copy.

    The view does not keep the tensor alive: the caller holds it as long as the view.

    Raises:
        UnsupportedOperationError: the tensor is not a contiguous one in CPU memory.
    """
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise UnsupportedOperationError(
            "only the bytes of a contiguous CPU tensor can be viewed",
            found=f"{tensor.device.type}, strides {tuple(tensor.stride())}",
            hint="call .cpu().contiguous() first",
        )
    if tensor.nbytes == 0:
        return memoryview(bytearray())
    view: memoryview = _from_memory(tensor.data_ptr(), tensor.nbytes, _WRITABLE)
    return view
