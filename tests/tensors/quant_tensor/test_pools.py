"""Max pools select values: metadata stays, unless it varies along what is pooled."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.tensors.quant_tensor.product_samples import agrees, plain
from tests.tensors.quant_tensor.samples import float_tensor, groupwise_int_tensor, int_tensor

CHANNELS = torch.tensor([0.5, 0.25]).reshape(1, 2, 1, 1)
POOLS = {
    1: (functional.max_pool1d, functional.adaptive_max_pool1d, (1, 2, 6)),
    2: (functional.max_pool2d, functional.adaptive_max_pool2d, (1, 2, 6, 6)),
    3: (functional.max_pool3d, functional.adaptive_max_pool3d, (1, 2, 4, 6, 6)),
}


def shifted(shape):
    """Return integers with a zero point."""
    return int_tensor(shape, signed=False, zero_point=3)


dimensions = pytest.mark.parametrize("dims", POOLS)


@pytest.mark.parametrize("x", [int_tensor((1, 2, 6, 6), scale=CHANNELS)], ids=str)
@pytest.mark.parametrize(
    "operation",
    [
        lambda a: functional.max_pool2d(a, 2),
        lambda a: functional.max_pool2d(a, 3, 2, 1, ceil_mode=True),
        lambda a: functional.adaptive_max_pool2d(a, (2, 3)),
        lambda a: functional.max_pool2d(a, (2, 1), dilation=2),
    ],
    ids=["halves", "padded", "adaptive", "dilated"],
)
def test_agrees_with_brevitas(operation, x):
    """All fields are Brevitas'."""
    assert agrees(operation, x)


@dimensions
@pytest.mark.parametrize(
    "make",
    [lambda s: int_tensor(s, signed=False, zero_point=3), float_tensor],
    ids=["int", "float"],
)
def test_metadata_stays(dims, make):
    """Integers with zero points and small floats stay what they are, batched or not."""
    pool, adaptive, shape = POOLS[dims]
    for x in (make(shape), make(shape[1:])):
        for result in (pool(x, 2), adaptive(x, 2), pool(input=x, kernel_size=2, stride=1)):
            assert type(result) is type(x)
            assert result.is_valid
            assert (result.scale, result.zero_point) == (x.scale, x.zero_point)
        assert torch.equal(pool(x, 2).value, pool(x.value, 2))


@dimensions
def test_indices_are_plain(dims):
    """With indices, the values are a quant tensor and the indices are not."""
    pool, adaptive, shape = POOLS[dims]
    x = int_tensor(shape)
    for result, expected in (
        (pool(x, 2, return_indices=True), pool(x.value, 2, return_indices=True)),
        (adaptive(x, 2, return_indices=True), adaptive(x.value, 2, return_indices=True)),
    ):
        values, indices = result
        assert type(values) is type(x)
        assert type(indices) is torch.Tensor
        assert torch.equal(values.value, expected[0])
        assert torch.equal(indices, expected[1])


def test_metadata_along_what_is_pooled_is_plain():
    """A scale for each column does not survive a pool over columns."""
    x = int_tensor((1, 2, 4, 4), scale=torch.tensor([0.5, 0.25, 1.0, 2.0]))
    assert plain(functional.max_pool2d(x, 2), functional.max_pool2d(x.value, 2))


def test_groups_are_plain():
    """A pool of values in groups is plain."""
    x = groupwise_int_tensor((1, 2, 4, 4), group_size=2)
    assert plain(functional.max_pool2d(x, 2), functional.max_pool2d(x.value, 2))


def test_modules_pool_too():
    """Max, mean and adaptive pools in a row leave integers of their grids."""
    net = nn.Sequential(nn.MaxPool2d(2), nn.AvgPool2d(2, stride=1), nn.AdaptiveAvgPool2d(1))
    x = int_tensor((1, 2, 8, 8), signed=False, zero_point=3)
    result = net(x)
    assert result.is_valid
    assert torch.equal(result.value, net(x.value))
