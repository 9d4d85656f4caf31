"""Tensors in groups: of many shapes, and of one."""

import torch
from hypothesis import strategies as st

from qconfig.tensors.quant_tensor import GroupwiseFloatQuantTensor, GroupwiseIntQuantTensor
from qconfig.tensors.quant_tensor.groups import expanded
from qconfig.tensors.quantizers import to_groups


def filled(generator, shape, group_size, group_dim, small):
    """Return values in groups: small ones times a scale for each group, and the scales."""
    stored = to_groups(small, group_size, group_dim)
    dim = group_dim % len(shape)
    sizes = list(stored.shape)
    sizes[dim + 1] = 1
    scale = 2.0 ** torch.randint(-3, 3, sizes, generator=generator)
    return stored * scale, scale


@st.composite
def groupwise_tensors(draw):
    """Return a valid tensor in groups, of integers or small floats; the last group may be cut."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    group_dim = draw(st.integers(-len(shape), len(shape) - 1))
    return draw(st.sampled_from([groupwise_int, groupwise_float]))(
        shape, draw(st.integers(1, 4)), group_dim, seed=draw(st.integers(0, 9))
    )


def groupwise_int(shape=(4, 6), group_size=4, group_dim=-1, *, zero_point=0.0, signed=True, seed=0):
    """Return 6-bit integers in groups, each with its own scale."""
    generator = torch.Generator().manual_seed(seed)
    low = -32 if signed else 0
    small = torch.randint(low, low + 64, shape, generator=generator).float() - zero_point
    value, scale = filled(generator, shape, group_size, group_dim, small)
    zero = torch.full_like(scale, zero_point) if zero_point else 0.0
    return GroupwiseIntQuantTensor(
        value, scale, zero, group_size, group_dim, 6, signed, False, shape
    )


def groupwise_float(shape=(4, 6), group_size=4, group_dim=-1, *, signed=True, seed=0):
    """Return small floats of e2m1 in groups, each with its own scale."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
    small = numbers[torch.randint(0, 8, shape, generator=generator)]
    if signed:
        small = torch.where(torch.rand(shape, generator=generator) < 0.5, small, -small)
    value, scale = filled(generator, shape, group_size, group_dim, small)
    return GroupwiseFloatQuantTensor(
        value, scale, 0, group_size, group_dim, 2, 1, 1, True, None, None, signed, False, shape
    )


def is_consistent(tensor):
    """Return whether a tensor's fields fit together, and its values are on its grids."""
    tensor.to_layout().check_relations()
    shown = expanded(tensor.grouped_value, tensor.dequant_shape, tensor.group_dim)
    return tensor.is_valid and torch.equal(shown, tensor.value)
