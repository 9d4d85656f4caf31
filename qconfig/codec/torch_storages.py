"""Storages of a torch.save archive, and the plain tensors that are views of them.

A tensor is a storage, an offset, a shape and strides, all in elements. Nothing is read until a
tensor is loaded, and nothing larger than the limits is ever made.
"""

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.pickled_values import PickledTensor
from qconfig.codec.raw_memory import byte_view, empty_bytes
from qconfig.codec.regular_files import open_regular
from qconfig.codec.tensor_values import ByteRange, LazyTensor
from qconfig.codec.zip_directory import ZipRecord
from qconfig.errors import ContainerError
from qconfig.limits import Limits

if TYPE_CHECKING:
    import torch

_QUANTIZED = frozenset({DType.QINT8, DType.QUINT8, DType.QINT32, DType.QUINT4X2, DType.QUINT2X4})
_CARRIERS = {
    1: DType.UINT8,
    2: DType.INT16,
    4: DType.INT32,
    8: DType.INT64,
    16: DType.COMPLEX128,
}


@frozen
class StorageType:
    """A class of storages.

    Args:
        dtype: of its elements, or None for an untyped one, which counts bytes.
    """

    dtype: DType | None


@frozen
class Storage:
    """A storage that the pickle refers to.

    Args:
        key: its name in the archive.
        dtype: of its elements, or None for an untyped one.
        record: where its bytes lie.
    """

    key: str
    dtype: DType | None
    record: ZipRecord


class Storages:
    """The storages of one archive, and how many bytes the tensors made of them take.

    Args:
        path: the archive.
        file_size: its bytes.
        records: the storages' records by key.
        limits: bounds on the tensors.
    """

    def __init__(
        self, path: Path, file_size: int, records: Mapping[str, ZipRecord], limits: Limits
    ) -> None:
        self._path = path
        self._records = records
        self._limits = limits
        self._allowed = file_size + limits.shared_bytes
        self._taken = self._tensors = 0

    def find(self, identity: Any) -> Storage:
        """Return the storage of a persistent id: `("storage", type, key, location, count)`.

        Raises:
            ContainerError: it has another form, or no record of that size.
        """
        match identity:
            case (
                "storage",
                StorageType(dtype=dtype),
                str() as key,
                str() as place,
                int() as count,
            ):
                pass
            case _:
                raise ContainerError(
                    "a persistent id that is none of torch.save",
                    found=type(identity).__name__,
                    expected="a storage's type, key, location and number of elements",
                )
        record = self._records.get(key)
        if record is None:
            raise ContainerError(
                "the pickle refers to a storage that the archive does not hold",
                found=key,
                expected=f"one of {len(self._records)} records below data/",
            )
        if place == "meta":
            raise ContainerError(
                "a storage on the meta device has no elements",
                found=key,
                expected="a storage with elements",
                hint="load the weights before the state_dict is saved",
            )
        size = count * (1 if dtype is None else dtype.itemsize)
        if size != record.size or type(count) is not int:
            raise ContainerError(
                f"the storage {record.name} has another size than the pickle says",
                found=f"{record.size} bytes",
                expected=f"{size} bytes",
                hint="the file is damaged; fetch it again",
            )
        return Storage(key, dtype, record)

    def tensor(
        self, storage: Storage, dtype: DType, offset: int, shape: Any, strides: Any
    ) -> PickledTensor:
        """Return a view of a storage, not read yet.

        Raises:
            ContainerError: it leaves its storage or breaks a limit.
        """
        shape, strides = self.dimensions(shape), self.dimensions(strides)
        _check_offset(offset)
        if len(shape) != len(strides):
            raise _wrong("has another number of strides than of dimensions", strides, str(shape))
        if dtype in _QUANTIZED:
            raise _wrong("is of torch's own quantized types", dtype.value, "a plain dtype")
        size, record = dtype.itemsize, storage.record
        count = prod(shape)
        span = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if count else 0
        if span and (offset + span) * size > record.size:
            raise _wrong(
                "leaves its storage",
                f"elements {offset} to {offset + span - 1}",
                f"{record.size // size} elements in {record.name}",
            )
        self._count(count * size, record)
        start = record.offset + (offset * size if span else 0)
        source = ByteRange(self._path, start, span * size)
        is_plain = not count or _is_contiguous(shape, strides)
        value = _lazy(dtype, shape, None if is_plain else strides, source)
        return PickledTensor(value, storage.key, offset, strides)

    def dimensions(self, value: Any) -> tuple[int, ...]:
        """Return a shape or strides, checked.

        Raises:
            ContainerError: it is no tuple of integers, or breaks a limit.
        """
        if type(value) is not tuple:
            raise _wrong(
                "has a shape that is no tuple", type(value).__name__, "a tuple of integers"
            )
        if len(value) > self._limits.rank:
            raise _wrong(
                "has too many dimensions",
                len(value),
                f"dimensions: {self._limits.describe('rank')}",
            )
        if not all(type(n) is int and 0 <= n <= self._limits.dimension for n in value):
            raise _wrong(
                "has a dimension or stride out of bounds",
                value,
                f"0 and more, and {self._limits.describe('dimension')}",
            )
        return value

    def _count(self, size: int, record: ZipRecord) -> None:
        self._tensors += 1
        self._taken += size
        if self._tensors > self._limits.tensors:
            raise ContainerError(
                "the pickle has too many tensors",
                found=f"more than {self._limits.tensors}",
                expected=f"tensors: {self._limits.describe('tensors')}",
            )
        if size > max(record.size, self._limits.expanded_bytes):
            raise _wrong(
                "expands its storage too far",
                f"{size} bytes from {record.size}",
                f"bytes: {self._limits.describe('expanded_bytes')}",
            )
        if self._taken > self._allowed:
            raise ContainerError(
                "the tensors share storages too often",
                found=f"at least {self._taken} bytes",
                expected=f"bytes beyond the file's: {self._limits.describe('shared_bytes')}",
            )


def _is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    step = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return True


def _check_offset(offset: Any) -> None:
    if type(offset) is not int or offset < 0:
        raise _wrong("has an offset that is no place in its storage", offset, "0 or more")


def _lazy(
    dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...] | None, source: ByteRange
) -> LazyTensor:
    def read(part: ByteRange) -> "torch.Tensor":
        flat = empty_bytes(part.length)
        with open_regular(source.path) as file, byte_view(flat) as view:
            file.read_into(view, part.offset)
        return flat

    def load() -> "torch.Tensor":
        flat = read(source)
        if strides is None:
            return flat.view(dtype.to_torch()).reshape(shape)
        # Not every dtype can be copied; integers of the same size can.
        carrier = flat.view(_CARRIERS[dtype.itemsize].to_torch())
        return carrier.as_strided(shape, strides).contiguous().view(dtype.to_torch())

    if strides is not None:
        return LazyTensor(dtype, shape, load)
    return LazyTensor(dtype, shape, load, source, read)


def _wrong(what: str, found: Any, expected: str | None = None) -> ContainerError:
    return ContainerError(f"a tensor of the pickle {what}", found=found, expected=expected)
