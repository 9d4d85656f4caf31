"""Int4 codes that a processor packed: its order is found from the weights."""

import pytest
import torch

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.tensors.cpu_order import with_cpu_order
from qconfig.layouts.int4_packing import CpuInt4Order, unpack_cpu_int4
from qconfig.migrations.int4_opaque_tensor_layout import Int4OpaqueTensorLayoutV1
from tests.golden_int4 import cpu_places


def packed(codes, order):
    """Return codes in a processor's order, two a byte."""
    rows, columns = codes.shape
    places = torch.tensor(list(cpu_places(rows, columns, order.value)))
    low, high = codes[places[..., 0], places[..., 1]].unbind(1)
    return (low | high << 4).view(rows, columns // 2)


def layout(order, rows=128, columns=256, *, zero_is_code=False):
    """Return a layout of random weights, quantized as torchao does, without the order."""
    generator = torch.Generator().manual_seed(rows)
    weight = torch.randn(rows, columns, generator=generator) * 0.02
    groups = weight.view(rows, -1, 32)
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    scale = (high - low) / 15
    codes = ((groups - low) / scale).round().clamp(0, 15).to(torch.uint8).view(rows, columns)
    zero = -low / scale if zero_is_code else low + 8 * scale
    pairs = torch.stack((scale, zero), -1).squeeze(2).transpose(0, 1)
    return Int4OpaqueTensorLayoutV1(
        LazyTensor.of(packed(codes, order)),
        LazyTensor.of(pairs.contiguous()),
        (1, 32),
        DType.FLOAT32,
    )


@pytest.mark.parametrize("zero_is_code", [False, True])
@pytest.mark.parametrize("rows", [64, 96, 320])
@pytest.mark.parametrize("order", list(CpuInt4Order))
def test_the_order_that_packed_is_found(order, rows, zero_is_code):
    """It decodes all codes to their places, whichever of both zero points was stored."""
    made = layout(order, rows, zero_is_code=zero_is_code)
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
