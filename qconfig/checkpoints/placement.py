"""Stored tensors as they are wanted in memory: mapped or read, on a device, packed as subclasses.

Nothing here touches a mapped page. What is looked at or moved to another device is read.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from qconfig.checkpoints.tensor_slice import outline
from qconfig.codec.layout_values import loaded, present_fields, with_equal_values
from qconfig.codec.safetensors_maps import ALIGNED, MappedFiles
from qconfig.codec.tensor_values import LazyTensor, nbytes
from qconfig.errors import QconfigError, UsageError
from qconfig.versioning import Layout, registry

if TYPE_CHECKING:
    import torch

_SMALL = 1 << 16
"""Bytes of a plain tensor up to which a model may look at it: a recorded config, a counter."""


class Placement:
    """How the tensors of one call become tensors in memory.

    Args:
        files: what maps them.
        mmap: whether tensors are mapped; False reads all of them.
        device: where they go; None leaves them on the CPU. For the meta device none is read.
        for_model: whether a model will look at small ones.
    """

    def __init__(
        self,
        files: MappedFiles,
        *,
        mmap: bool,
        device: "torch.device | str | None",
        for_model: bool,
    ) -> None:
        self._files = files
        self._device = device
        kind = _kind(device)
        self._is_meta = kind == "meta"
        self._maps = mmap and kind == "cpu"
        self._reads_below = _SMALL if for_model else -1

    def plain(self, tensor: LazyTensor, *, is_part: bool) -> "torch.Tensor":
        """Return a tensor that belongs to no layout."""
        if self._is_meta:
            return outline(tensor)
        if self._maps and not (self._reads_below > 0 and nbytes(tensor) <= self._reads_below):
            return self._files.mapped(tensor, is_part=is_part)
        return self._moved(tensor.load())

    def quantized(self, fqn: str, layout: Layout, place: Path, *, is_part: bool) -> "torch.Tensor":
        """Return the tensor of a layout, which is brought to its current version.

        Args:
            fqn: its name, for errors.
            layout: in any version, with lazy tensors.
            place: what errors name.
            is_part: whether it is a slice; whole ones take the form that computes fastest.

        Raises:
            QconfigError: the layout cannot be upgraded, or holds what no tensor can be made of.
        """
        from qconfig.tensors.classes import tensor_class_of

        try:
            current = registry.convert(layout)
            tensor_class = tensor_class_of(type(current))
            if self._is_meta:
                stored = {f: outline(getattr(current, f)) for f in present_fields(current)}
                in_memory = with_equal_values(current, stored)
            else:
                in_memory = self._loaded(current, tensor_class, is_part=is_part)
                in_memory = _aligned(in_memory) if is_part else tensor_class.simplify(in_memory)
            return self._moved(tensor_class.from_layout(in_memory))
        except QconfigError as error:
            raise error.at(file=place, fqn=fqn) from None

    def _loaded(self, layout: Layout, tensor_class: Any, *, is_part: bool) -> Layout:
        if not self._maps:
            return loaded(layout)
        looked_at = tensor_class.fields_read(layout)
        values = {}
        for field in present_fields(layout):
            tensor: LazyTensor = getattr(layout, field)
            is_read = field in looked_at or (is_part and _lies_badly(tensor))
            values[field] = tensor.load() if is_read else self._files.mapped(tensor)
        return with_equal_values(layout, values)

    def _moved(self, tensor: "torch.Tensor") -> "torch.Tensor":
        return tensor if self._device is None else tensor.to(self._device)


def check_device(device: "torch.device | str") -> None:
    """Check that torch can put tensors on a device.

    Raises:
        UsageError: it cannot.
    """
    import torch

    try:
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError, ValueError) as error:
        raise UsageError(
            "a device that cannot be used", found=str(device), hint=str(error).partition("\n")[0]
        ) from None


def _kind(device: "torch.device | str | None") -> str:
    import torch

    return "cpu" if device is None else torch.device(device).type


def _lies_badly(tensor: LazyTensor) -> bool:
    return tensor.source is not None and bool(tensor.source.offset % ALIGNED)


def _aligned(layout: Layout) -> Layout:
    """Return the layout with tensors where kernels want them; wholes get this by `simplify`."""
    values = {field: getattr(layout, field) for field in present_fields(layout)}
    copies = {f: t.clone() for f, t in values.items() if t.data_ptr() % ALIGNED}
    return with_equal_values(layout, copies)
