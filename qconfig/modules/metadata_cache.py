"""Plain tensors between modules, while what a module has to know of its input is remembered.

Some modules need more of their input than its values: the scale, for a bias whose scale is that of
the product, or scale and bit width, for an average that is truncated. In a graph for inference,
plain tensors are to flow all the same. That takes two steps, and each says what it does:

- `with record_metadata(model):` runs the model once as it is; modules remember the metadata of
  quant tensors that they are given.
- `with plain_inference(model):` lets every module return plain tensors, and take from memory what
  their inputs no longer say. It may be entered again and again, and left for the ordinary mode.

What is remembered are scale, zero point and bit width in buffers that move with the module, are
copied and pickled with it, and are in no state dict.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import torch
from torch import nn

from qconfig.errors import QuantTensorError
from qconfig.tensors.fake_quantized import keep_from_fusing
from qconfig.tensors.quant_tensor import IntQuantTensor
from qconfig.tensors.quant_tensor.base import QuantTensor

_REMEMBERED = ("scale", "zero_point", "bit_width")


class MetadataUse(StrEnum):
    """What modules do with the metadata of their inputs."""

    ORDINARY = "ordinary"
    RECORD = "record"
    REMEMBER = "remember"


class InputMetadata(nn.Module):
    """What a module was last told of its input: that of an IntQuantTensor without its value.

    Attributes:
        scale, zero_point, bit_width: as the tensor has them, or None before the first recording.
        signed: whether there were negative integers.
    """

    scale: torch.Tensor | None
    zero_point: torch.Tensor | None
    bit_width: torch.Tensor | None

    def __init__(self) -> None:
        super().__init__()
        for name in _REMEMBERED:
            self.register_buffer(name, None, persistent=False)
        self.signed = True
        self.shape: tuple[int, ...] = ()
        self.dtype = torch.float32
        keep_from_fusing(self)

    @property
    def is_known(self) -> bool:
        """Whether something was recorded."""
        return self.scale is not None

    def record(self, tensor: IntQuantTensor) -> None:
        """Remember the metadata of a tensor."""
        for name in _REMEMBERED:
            setattr(self, name, getattr(tensor, name).detach().clone())
        self.signed = tensor.signed
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype

    def tensor(self) -> IntQuantTensor:
        """Return what is remembered as a tensor of metadata alone, of the shape that was recorded.

        Raises:
            QuantTensorError: nothing was recorded.
        """
        if not self.is_known:
            raise QuantTensorError(
                "the module has not been told what its input is",
                hint="run the model once in record_metadata(model)",
            )
        return IntQuantTensor.made(
            self.shape,
            value=None,
            dtype=self.dtype,
            scale=self.scale,
            zero_point=self.zero_point,
            bit_width=self.bit_width,
            signed=self.signed,
            training=False,
        )


class UsesMetadata(nn.Module):
    """A module that may return and take plain tensors where it usually has quant tensors.

    Attributes:
        metadata_use: set by `record_metadata` and `plain_inference`.
        input_metadata: what is remembered of the input.
    """

    metadata_use: MetadataUse
    input_metadata: InputMetadata

    def _init_metadata(self) -> None:
        self.metadata_use = MetadataUse.ORDINARY
        self.input_metadata = InputMetadata()

    def received(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return an input, after remembering what it says where that is asked for."""
        if self.metadata_use is MetadataUse.RECORD and isinstance(tensor, IntQuantTensor):
            self.input_metadata.record(tensor)
        return tensor

    @property
    def remembered(self) -> InputMetadata | None:
        """What is to be taken for the metadata of an input that has none, or None."""
        use, known = self.metadata_use, self.input_metadata
        return known if use is MetadataUse.REMEMBER and known.is_known else None

    @property
    def is_plain(self) -> bool:
        """Whether plain tensors are returned whatever `return_quant_tensor` says."""
        return self.metadata_use is MetadataUse.REMEMBER


def plain(tensor: Any) -> Any:
    """Return the values of a quant tensor; anything else as it is."""
    return tensor.value if isinstance(tensor, QuantTensor) else tensor


@contextmanager
def record_metadata(model: nn.Module) -> Iterator[None]:
    """Let modules remember the metadata of the quant tensors that they are given meanwhile.

    Args:
        model: any module; run it once within the context, in eval mode, with a real batch.
    """
    with _use(model, MetadataUse.RECORD):
        yield


@contextmanager
def plain_inference(model: nn.Module) -> Iterator[None]:
    """Let plain tensors flow between modules, which take metadata from what they remember.

    Args:
        model: any module that was run in `record_metadata`.
    """
    with _use(model, MetadataUse.REMEMBER):
        yield


@contextmanager
def _use(model: nn.Module, use: MetadataUse) -> Iterator[None]:
    before = [(m, m.metadata_use) for m in model.modules() if isinstance(m, UsesMetadata)]
    for module, _ in before:
        module.metadata_use = use
    try:
        yield
    finally:
        for module, usual in before:
            module.metadata_use = usual
