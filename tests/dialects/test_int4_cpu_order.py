"""The order of a CPU's int4 codes is found from codes and zero points."""

import pytest
import torch

from qconfig.dialects.torchao.int4_cpu_order import find_cpu_order
from qconfig.layouts.int4_packing import CpuInt4Order, cpu_orders_agree
from tests.golden_int4 import cpu_places


def stored(rows, columns, order, *, group=32, zero_is_code=False):
    """Return a random weight quantized by groups and packed: bytes, scales and zero points."""
    generator = torch.Generator().manual_seed(rows + columns)
    weight = torch.randn(rows, columns, generator=generator).view(rows, -1, group)
    low, high = weight.amin(2), weight.amax(2)
    scale = (high - low) / 15
    codes = ((weight - low.unsqueeze(2)) / scale.unsqueeze(2)).round().to(torch.uint8)
    zero = -low / scale if zero_is_code else low + 8 * scale
    places = torch.tensor(list(cpu_places(rows, columns, order.value)))
    first, second = codes.view(rows, columns)[places[..., 0], places[..., 1]].unbind(1)
    packed = (first | second << 4).view(rows, columns // 2)
    return packed, torch.stack((scale.t(), zero.t()), -1).to(torch.bfloat16)


@pytest.mark.parametrize("order", CpuInt4Order)
@pytest.mark.parametrize("rows", [64, 128, 160])
@pytest.mark.parametrize("zero_is_code", [False, True])
def test_the_order_of_the_writer_is_found(order, rows, zero_is_code):
    """Whatever processor packed, and whichever of both zero points was stored."""
    packed, pairs = stored(rows, 256, order, zero_is_code=zero_is_code)
    found = find_cpu_order(packed, pairs)
    assert cpu_orders_agree(rows, found.order, order)
    assert found.correlation > 0.5
    assert not found.is_certain


def test_sixteen_rows_need_no_finding():
    """All orders are the same there."""
    found = find_cpu_order(*stored(16, 64, CpuInt4Order.AVX2))
    assert found.is_certain
    assert found.correlation is None


@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_numbers_that_say_nothing_give_the_order_of_servers(value):
    """Where zero points are all alike, or no numbers, no order fits better."""
    packed, pairs = stored(64, 64, CpuInt4Order.AVX2)
    pairs[..., 1] = value
    found = find_cpu_order(packed, pairs)
    assert found.order is CpuInt4Order.AVX512
    assert not found.is_certain
    assert found.correlation is None


def test_codes_that_do_not_go_with_their_zero_points_decide_nothing():
    """Chance does not decide: another matrix's zero points fit no order."""
    packed, _ = stored(64, 128, CpuInt4Order.AVX2)
    _, pairs = stored(64, 128, CpuInt4Order.AVX2, group=16)
    assert find_cpu_order(packed, pairs[::2].flip(1)).correlation is None
