"""Between fake-quantized and packed integers, without losing a bit."""

from math import prod
from typing import Any, cast

import torch

from qconfig.codec.dtypes import DType
from qconfig.errors import QuantTensorError
from qconfig.tensors.int8 import Int8Tensor
from qconfig.tensors.intx import IntxUnpackedToInt8Tensor
from qconfig.tensors.quant_tensor.base import QuantTensor
from qconfig.tensors.quant_tensor.groupwise_int_quant import GroupwiseIntQuantTensor
from qconfig.tensors.quant_tensor.int_quant import IntQuantTensor

_SAYS_NOTHING_MORE = ("act_pre_scale", "activation_quantization", "act_quant_kwargs", "arithmetic")


def to_packed(tensor: QuantTensor) -> Int8Tensor | IntxUnpackedToInt8Tensor:
    """Return the packed tensor of a weight whose values are integers of up to 8 bits.

    Unsigned integers are shifted by half their range, and their zero points with them.

    Args:
        tensor: an IntQuantTensor or GroupwiseIntQuantTensor, (N, K) or (B, N, K). Scales are one,
            one a row, or one for each group of a row.

    Returns:
        An Int8Tensor for 8 bits, an IntxUnpackedToInt8Tensor for fewer; its `dequantize()` equals
        `tensor.value` bit for bit.

    Raises:
        QuantTensorError: what a packed tensor cannot hold: other ranks, more than 8 bits, groups
            that are filled up, zero points that are no codes, or values off the grid.
    """
    if not isinstance(tensor, IntQuantTensor | GroupwiseIntQuantTensor):
        raise QuantTensorError(
            "only integers become packed integers",
            found=type(tensor).__name__,
            expected="IntQuantTensor or GroupwiseIntQuantTensor",
        )
    shape = tuple(tensor.shape)
    if len(shape) not in (2, 3):
        raise QuantTensorError(
            "a packed weight is a matrix, or several",
            found=f"shape {shape}",
            expected="(N, K) or (B, N, K)",
        )
    bits = int(tensor.bit_width)
    if not 1 <= bits <= 8 or bits != tensor.bit_width:
        raise QuantTensorError(
            "the integers are not of 1 to 8 bits",
            found=tensor.bit_width.item(),
            expected="1, 2, … or 8",
        )
    if bits == 1 and tensor.signed:
        raise QuantTensorError(
            "integers of one signed bit are -1 and 1, and no code of a packed tensor is 1",
            found="bit_width 1, signed",
            expected="0 and 1, or 2 bits",
        )
    scale = _scales(tensor, shape)
    shift = 0 if tensor.signed else 2 ** (bits - 1)
    codes = (tensor.int(float_datatype=True).float() - shift).to(torch.int8)
    zero_point = _zero_point(tensor, scale.shape, shift)
    block = tuple(n // s if s else n for n, s in zip(shape, scale.shape, strict=True))
    dtype = DType.parse(tensor.dtype)
    result: Any
    if bits == 8:
        result = Int8Tensor(codes, scale, block, dtype, zero_point=zero_point)
    else:
        target = DType(f"int{bits}")
        result = IntxUnpackedToInt8Tensor(codes, scale, target, block, dtype, zero_point=zero_point)
    if not torch.equal(result.dequantize(), tensor.value):
        raise QuantTensorError(
            "the values are not exactly their integers times the scale",
            found=f"off by up to {(result.dequantize() - tensor.value).abs().max().item():g}",
            expected="value == (int - zero_point) * scale",
            hint="quantize the value anew with the same scale",
        )
    return cast("Int8Tensor | IntxUnpackedToInt8Tensor", result)


def _scales(tensor: Any, shape: tuple[int, ...]) -> torch.Tensor:
    """Return scales with as many dimensions as the weight, an entry a block."""
    stored: torch.Tensor = tensor.raw("scale")
    if isinstance(tensor, GroupwiseIntQuantTensor):
        size, last = tensor.group_size, len(shape) - 1
        if tensor.group_dim % len(shape) != last or shape[last] % size:
            raise QuantTensorError(
                "packed groups lie along the last dimension and are full",
                found=f"groups of {size} along {tensor.group_dim} of {shape}",
                expected="groups that divide the last dimension",
            )
        return stored.expand(*shape[:-1], shape[-1] // size, 1).squeeze(-1).contiguous()
    if prod(stored.shape) == 1:
        return stored.reshape((1,) * len(shape))
    full = stored.reshape((1,) * (len(shape) - stored.dim()) + tuple(stored.shape))
    if full.shape[-1] != 1:
        raise QuantTensorError(
            "a packed weight has no scale for each of its columns",
            found=f"scale of shape {tuple(stored.shape)}",
            expected="one scale, or one a row",
        )
    return full


def _zero_point(tensor: Any, shape: torch.Size, shift: int) -> torch.Tensor | None:
    if tensor.is_symmetric and not shift:
        return None
    stored: torch.Tensor = tensor.raw("zero_point")
    if isinstance(tensor, GroupwiseIntQuantTensor) and stored.dim():
        stored = stored.squeeze(-1)
    shifted = (stored.float() - shift).expand(shape)
    codes: torch.Tensor = shifted.round().clamp(-128, 127)
    if not torch.equal(codes, shifted):
        raise QuantTensorError(
            "a zero point is no code of a packed tensor",
            found=shifted.flatten()[:4].tolist(),
            expected="whole numbers from -128 to 127",
        )
    return codes.to(torch.int8)


def from_packed(
    tensor: Int8Tensor | IntxUnpackedToInt8Tensor,
) -> IntQuantTensor | GroupwiseIntQuantTensor:
    """Return the fake-quantized tensor of a packed weight.

    Args:
        tensor: quantizes no activations.

    Raises:
        QuantTensorError: it does, or it is another tensor, or its blocks are neither tensor, row
            nor groups of a row.
    """
    if not isinstance(tensor, Int8Tensor | IntxUnpackedToInt8Tensor):
        raise QuantTensorError(
            "only packed integers become fake-quantized ones",
            found=type(tensor).__name__,
            expected="Int8Tensor or IntxUnpackedToInt8Tensor",
            hint="it is unpacked already"
            if isinstance(tensor, QuantTensor)
            else "quantize it: qconfig.quantize_, or the constructor of a quant tensor",
        )
    for name in _SAYS_NOTHING_MORE:
        if getattr(tensor, name, None) is not None:
            raise QuantTensorError(
                "a fake-quantized weight says nothing of activations",
                found=f"{name} = {getattr(tensor, name)}"[:200],
                expected=f"{name} is None",
            )
    shape, block = tuple(tensor.shape), tuple(tensor.block_size)
    bits = 8 if isinstance(tensor, Int8Tensor) else int(tensor.target_dtype.value[3:])
    value, scale = tensor.dequantize(), tensor.scale
    zero_point: Any = 0
    if tensor.zero_point is not None:
        zero_point = tensor.zero_point.to(scale.dtype)
    whole = all(b in (1, n) for b, n in zip(block, shape, strict=True))
    if whole:
        return IntQuantTensor(value, scale, zero_point, bits, signed=True)
    if any(b != 1 for b in block[:-1]):
        raise QuantTensorError(
            "blocks are neither the tensor, a row nor a group of a row",
            found=f"block_size {block} of shape {shape}",
            expected="1 in all dimensions but the last",
        )
    if isinstance(zero_point, torch.Tensor):
        zero_point = zero_point.unsqueeze(-1)
    grouped = value.reshape(*shape[:-1], -1, block[-1])
    return GroupwiseIntQuantTensor(
        grouped,
        scale.unsqueeze(-1),
        zero_point,
        block[-1],
        len(shape) - 1,
        bits,
        signed=True,
        dequant_shape=shape,
    )
