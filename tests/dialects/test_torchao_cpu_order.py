"""Int4 codes that a processor packed: its order is found from the weights."""

import pytest
import torch

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.tensors.cpu_order import with_cpu_order
from qconfig.layouts.int4_packing import CpuInt4Order, unpack_cpu_int4
from qconfig.migrations.int4_opaque_tensor_layout import Int4OpaqueTensorLayoutV1


def packed(codes, order):
    """Return codes in a processor's order: the inverse of unpacking, found by unpacking places."""
    rows, columns = codes.shape
    places = torch.arange(rows * columns).reshape(rows, columns)
    # A nibble holds 4 bits: the place of each code is unpacked 4 bits at a time.
    source = torch.zeros_like(places)
    for shift in range(0, 32, 4):
        digits = ((places >> shift) & 15).to(torch.uint8).reshape(-1)
        halves = (digits[0::2] | (digits[1::2] << 4)).reshape(rows, columns // 2)
        source |= unpack_cpu_int4(halves, order).long() << shift
    flat = torch.empty(rows * columns, dtype=torch.uint8)
    flat[source.reshape(-1)] = codes.reshape(-1)
    return (flat[0::2] | (flat[1::2] << 4)).reshape(rows, columns // 2)


def layout(order, rows=128, columns=256, zero=0.0):
    """Return a layout of random weights, quantized as torchao does, without the order."""
    generator = torch.Generator().manual_seed(rows)
    weight = torch.randn(rows, columns, generator=generator) * 0.02
    groups = weight.view(rows, -1, 32)
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    scale = (high - low) / 15
    codes = ((groups - low) / scale).round().clamp(0, 15).to(torch.uint8).view(rows, columns)
    pairs = torch.stack((scale, low + 8 * scale + zero), -1).squeeze(2).transpose(0, 1)
    return Int4OpaqueTensorLayoutV1(
        LazyTensor.of(packed(codes, order)),
        LazyTensor.of(pairs.contiguous()),
        (1, 32),
        DType.FLOAT32,
    )


@pytest.mark.parametrize("rows", [64, 96, 320])
@pytest.mark.parametrize("order", list(CpuInt4Order))
def test_the_order_that_packed_is_found(order, rows):
    """Read in that order the weights lie around 0; it decodes all codes to the same places."""
    made = layout(order, rows)
    found, notes = with_cpu_order(made, made.packed_weight)
    codes = made.packed_weight.load()
    assert torch.equal(unpack_cpu_int4(codes, found.cpu_order), unpack_cpu_int4(codes, order))
    assert f"taken is {found.cpu_order.value}" in notes[0]


def test_weights_that_do_not_show_it_are_left_in_the_usual_order():
    """Where all rows are alike, every order fits; that is said."""
    pairs = torch.stack((torch.ones(4, 64), torch.zeros(4, 64)), -1)
    made = Int4OpaqueTensorLayoutV1(
        LazyTensor.of(torch.full((64, 64), 0x88, dtype=torch.uint8)),
        LazyTensor.of(pairs),
        (1, 32),
        DType.FLOAT32,
    )
    found, notes = with_cpu_order(made, made.packed_weight)
    assert found.cpu_order is CpuInt4Order.AVX512
    assert "the weights do not show it" in notes[0]


def test_sixteen_rows_have_one_order():
    """Where all orders agree there is nothing to say."""
    made = layout(CpuInt4Order.AVX512, rows=16)
    assert with_cpu_order(made, made.packed_weight) == (made, ())
