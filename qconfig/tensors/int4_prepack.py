"""Weights in the form that torch's int4 kernel for CPUs reads, kept as long as the weight lives.

The kernel's own order of codes depends on the processor, so it is never stored: it is made when a
weight is first used, and dropped with the storage of its codes. It is made anew after a change in
place (`load_state_dict` with assign=False), which torch's version counters tell. Where these tell
nothing, for tensors born in inference mode and for storages that FSDP2 fills again and again,
nothing is kept. A write around the counters, through `.data` of an inner tensor or through numpy,
is not seen once a weight was used.

The price is memory: as many bytes as the codes have, and 4 bytes for each group. Forms of one
storage, such as those of experts or of slices, never take more than its own size.
"""

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from attrs import define, frozen

Convert = Callable[[torch.Tensor], torch.Tensor]
GROUP_SIZES = (32, 64, 128, 256)
"""Group sizes that the kernel knows."""
_ROWS = 16
_SLAB_ROWS = 512


@frozen
class Prepacked:
    """What the kernel reads.

    Args:
        codes: in an order and a type of the kernel's own.
        scale_and_zero: bfloat16, (K/g, N, 2).
        group_size: elements of a row that share a scale.
    """

    codes: torch.Tensor
    scale_and_zero: torch.Tensor
    group_size: int


@frozen
class _Entry:
    state: tuple[Any, ...]
    storages: tuple["weakref.ref[Any]", ...]
    form: Prepacked | None

    def is_of(self, state: tuple[Any, ...], tensors: Iterable[torch.Tensor]) -> bool:
        # A new tensor may lie where a freed one lay, so the storages have to be the same objects.
        if self.state != state:
            return False
        return all(r() is t.untyped_storage() for r, t in zip(self.storages, tensors, strict=True))


@define
class _Storage:
    reference: "weakref.ref[Any]"
    views: dict[tuple[Any, ...], _Entry]
    refilled: bool = False


# By the address of the storage object of the codes; an entry for each view that was used.
_storages: dict[int, _Storage] = {}
_HAS_KERNEL = hasattr(torch.ops.aten, "_weight_int4pack_mm_for_cpu")


def prepacked(
    qdata: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor
) -> Prepacked | None:
    """Return the kernel's form of a weight, or None.

    Args:
        qdata: int8, (N, K/2), on the CPU.
        scale: floating point, (N, K/g).
        zero_point: floating point, shaped like `scale`.

    Returns:
        None where the kernel does not serve the shape, where a scale or zero point is not exact in
        bfloat16, which the kernel wants, and where nothing is kept.
    """
    return kept(qdata, scale, zero_point, _packed) if kernel_serves(qdata, scale) else None


def kept(
    qdata: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, convert: Convert
) -> Prepacked | None:
    """Return a kernel's form of a weight, or None.

    Args:
        qdata: int8, (N, K/2).
        scale: floating point, (N, K/g).
        zero_point: floating point, shaped like `scale`.
        convert: makes the kernel's codes of `qdata`, no more bytes than those.
    """
    tensors = (qdata, scale, zero_point)
    if qdata.is_inference() or scale.is_inference() or zero_point.is_inference():
        return None
    storage = _storage_of(qdata)
    if storage.refilled:
        return None
    place = (qdata.data_ptr(), qdata.shape, qdata.stride())
    state = tuple((t.data_ptr(), t.stride(), t.dtype, t._version) for t in tensors)  # noqa: SLF001
    entry = storage.views.get(place)
    if entry is None or not entry.is_of(state, tensors):
        storage.views.pop(place, None)
        taken = sum(e.form.codes.nbytes for e in storage.views.values() if e.form is not None)
        form = None
        if taken + qdata.nbytes <= qdata.untyped_storage().nbytes():
            form = _converted(qdata, scale, zero_point, convert)
        entry = _Entry(state, tuple(weakref.ref(t.untyped_storage()) for t in tensors), form)
        storage.views[place] = entry
    return entry.form


def _storage_of(qdata: torch.Tensor) -> _Storage:
    key = qdata.untyped_storage()
    known = _storages.get(id(key))
    if known is None or known.reference() is not key:
        number = id(key)
        known = _Storage(weakref.ref(key, lambda _: _storages.pop(number, None)), {})
        _storages[number] = known
    return known


def forget(qdata: torch.Tensor) -> None:
    """Drop what is kept of some codes: they, or what belongs to them, changed uncounted."""
    _storage_of(qdata).views.clear()


def refilled(tensor: torch.Tensor) -> None:
    """Keep nothing for a storage that is filled again and again behind torch's back."""
    _storage_of(tensor).refilled = True


def kernel_serves(qdata: torch.Tensor, scale: torch.Tensor) -> bool:
    """Return whether the kernel serves a shape: 16 divides N, and groups of 32, 64, 128 or 256."""
    rows, half = qdata.shape
    groups = scale.shape[1]
    if not _HAS_KERNEL or not rows or not groups or rows % _ROWS:
        return False
    return 2 * half // groups in GROUP_SIZES


def _converted(
    qdata: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, convert: Convert
) -> Prepacked | None:
    pair = torch.stack((scale.t(), zero_point.t()), -1).detach()
    exact = pair.to(torch.bfloat16)
    if not torch.equal(exact.to(pair.dtype), pair):
        return None
    return Prepacked(convert(qdata), exact, 2 * qdata.shape[1] // scale.shape[1])


def _packed(qdata: torch.Tensor) -> torch.Tensor:
    # The order is one of 64 rows at a time, so that a large weight needs no large detour.
    codes = torch.empty(qdata.shape, dtype=torch.uint8)
    for start in range(0, qdata.shape[0], _SLAB_ROWS):
        part = qdata[start : start + _SLAB_ROWS].to(torch.int32)
        wide = torch.empty((*part.shape, 2), dtype=torch.int32)
        torch.bitwise_and(part, 0x0F, out=wide[..., 0])
        torch.bitwise_and(part >> 4, 0x0F, out=wide[..., 1])
        # From -8 .. 7 to 0 .. 15 in two's complement is the highest bit, turned over.
        codes[start : start + _SLAB_ROWS] = torch.ops.aten._convert_weight_to_int4pack_for_cpu(  # noqa: SLF001
            wide.bitwise_xor_(8).flatten(1), 1
        )
    return codes
