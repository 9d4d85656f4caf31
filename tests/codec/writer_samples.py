"""Tensors that the tests of the writer share."""

import errno
import math
from pathlib import Path

import torch

from qconfig.codec.dtypes import FROM_SAFETENSORS, DType
from qconfig.codec.safetensors_writer import write_safetensors
from qconfig.codec.tensor_values import LazyTensor
from qconfig.limits import use_limits

DTYPES = sorted(FROM_SAFETENSORS.values())


SHAPES = [(), (0,), (5,), (3, 2), (2, 0, 4)]


CASES = [(d, s) for d in DTYPES for s in SHAPES if s or d is not DType.FLOAT4_E2M1FN_X2]


def sample_tensor(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    """Return a tensor of a dtype and shape with bytes that tell their places."""
    size = math.prod(shape) * dtype.itemsize
    codes = (torch.arange(size) * 37 + seed) % (2 if dtype is DType.BOOL else 256)
    return codes.to(torch.uint8).view(dtype.to_torch()).reshape(shape)


def sample_tensors() -> dict[str, torch.Tensor]:
    """Return a tensor for every dtype and shape."""
    return {f"{d}{s}": sample_tensor(d, s, seed) for seed, (d, s) in enumerate(CASES)}


def lazy_values(tensors: dict[str, torch.Tensor]) -> dict[str, LazyTensor]:
    """Return tensors in memory as lazy ones."""
    return {name: LazyTensor.of(tensor) for name, tensor in tensors.items()}


def never_loaded() -> torch.Tensor:
    """Fail: a value that is to be copied was asked for."""
    raise AssertionError("a tensor with a source was loaded")


def write_new(path: Path, tensors: dict[str, LazyTensor], **limits: int) -> None:
    """Write a file without metadata."""
    with use_limits(**limits):
        write_safetensors(path, tensors, {})


def refuse_io(*_: int) -> int:
    """Refuse, as a file system does that cannot copy."""
    raise OSError(errno.EXDEV, "Invalid cross-device link")
