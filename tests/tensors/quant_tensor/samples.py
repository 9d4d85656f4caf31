"""Quant tensors of each class for tests: small, valid, with metadata of every kind."""

import torch

from qconfig.tensors.quant_tensor import (
    FloatQuantTensor,
    GroupwiseFloatQuantTensor,
    GroupwiseIntQuantTensor,
    IntQuantTensor,
)

E4M3 = {
    "exponent_bit_width": 4,
    "mantissa_bit_width": 3,
    "exponent_bias": 7,
    "saturating": True,
    "inf_values": None,
    "nan_values": ("111",),
}


def int_tensor(
    shape=(4, 6),
    *,
    bits=8,
    signed=True,
    scale=0.5,
    zero_point=0,
    dtype=torch.float32,
    seed=0,
    **more,
):
    """Return random integers of the whole range, times a scale."""
    generator = torch.Generator().manual_seed(seed)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    codes = torch.randint(low, high + 1, shape, generator=generator).to(dtype)
    step = scale if isinstance(scale, torch.Tensor) else torch.tensor(scale, dtype=dtype)
    zero = torch.tensor(zero_point, dtype=dtype)
    value = (codes - zero) * step
    return IntQuantTensor(value, step, zero, bits, signed=signed, **more)


def float_tensor(shape=(4, 6), *, scale=0.25, dtype=torch.float32, seed=0):
    """Return random e4m3 floats, times a scale."""
    generator = torch.Generator().manual_seed(seed)
    small = torch.randn(shape, generator=generator).to(torch.float8_e4m3fn).to(dtype)
    return FloatQuantTensor(small * scale, scale, 0, **E4M3, signed=True)


def groupwise_int_tensor(shape=(4, 6), group_size=4, group_dim=1, *, zero_point=False, seed=0):
    """Return random integers of 8 bits with a scale a group; the last group is filled up."""
    generator = torch.Generator().manual_seed(seed)
    dim = group_dim % len(shape)
    groups = -(-shape[dim] // group_size)
    stored = (*shape[:dim], groups, group_size, *shape[dim + 1 :])
    one = (*shape[:dim], groups, 1, *shape[dim + 1 :])
    codes = torch.randint(-128, 128, stored, generator=generator).float()
    kept = torch.arange(groups * group_size).reshape(groups, group_size) < shape[dim]
    kept = kept.reshape((groups, group_size) + (1,) * (len(shape) - dim - 1))
    scale = 2.0 ** torch.randint(-3, 3, one, generator=generator).float()
    zero = torch.randint(-5, 6, one, generator=generator).float() if zero_point else 0
    value = torch.where(kept, (codes - zero) * scale, 0.0)
    return GroupwiseIntQuantTensor(
        value, scale, zero, group_size, group_dim, 8, signed=True, dequant_shape=shape
    )


def groupwise_float_tensor(shape=(4, 6), group_size=4, group_dim=1, *, seed=0):
    """Return random e4m3 floats with a scale a group."""
    whole = groupwise_int_tensor(shape, group_size, group_dim, seed=seed)
    scale = whole.grouped_scale
    small = (whole.grouped_value / scale).to(torch.float8_e4m3fn).float()
    return GroupwiseFloatQuantTensor(
        small * scale, scale, 0, group_size, group_dim, **E4M3, signed=True, dequant_shape=shape
    )


SAMPLES = {
    "int": int_tensor,
    "int per channel": lambda: int_tensor(scale=torch.tensor([[0.5], [1.0], [0.25], [2.0]])),
    "int with zero point": lambda: int_tensor(signed=False, zero_point=3),
    "int in bfloat16": lambda: int_tensor(bits=4, dtype=torch.bfloat16),
    "int of a learned width": lambda: int_tensor(bits=4).set(bit_width=torch.tensor(4.5)),
    "float": float_tensor,
    "groupwise int": lambda: groupwise_int_tensor(zero_point=True),
    "groupwise float": lambda: groupwise_float_tensor(group_dim=-2, group_size=3),
}
"""A tensor of every class, and of every kind of metadata, by what it is."""


def same(first, second):
    """Return whether two quant tensors agree in class, fields and every bit."""
    if type(first) is not type(second) or first.flat()[1].attributes != second.flat()[1].attributes:
        return False
    pairs = zip(first.inner_tensors.values(), second.inner_tensors.values(), strict=True)
    return all(a.dtype is b.dtype and torch.equal(a, b) for a, b in pairs)
