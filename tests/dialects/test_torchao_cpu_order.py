"""Int4 codes that a processor packed: their order is found from a few weights of a checkpoint."""

import attrs
import pytest
import torch

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import ByteRange, LazyTensor
from qconfig.dialects.torchao.stored import Stored
from qconfig.dialects.torchao.tensors.cpu_order import CpuOrders, Packed, packed_in, with_cpu_order
from qconfig.dialects.torchao.tensors.looks import Looks
from qconfig.dialects.torchao.tensors.table import read_tensor
from qconfig.layouts.int4_packing import CpuInt4Order, unpack_cpu_int4
from qconfig.migrations.int4_opaque_tensor_layout import Int4OpaqueTensorLayoutV1
from tests.dialects.stored_arrangements import ARRANGEMENTS
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


def undecided(rows=64):
    """Return a layout of which all rows are alike."""
    pairs = torch.stack((torch.ones(4, rows), torch.zeros(4, rows)), -1)
    codes = LazyTensor.of(torch.full((rows, 64), 0x88, dtype=torch.uint8))
    return Int4OpaqueTensorLayoutV1(codes, LazyTensor.of(pairs), (1, 32), DType.FLOAT32)


def orders_of(*layouts):
    """Return what the weights of a checkpoint show."""
    return CpuOrders([Packed(x.packed_weight, x.scale_and_zero) for x in layouts])


def found_in(made, *others):
    """Return a layout with its order, and the notes, in a checkpoint with others before it."""
    return with_cpu_order(made, made.packed_weight, orders_of(*others, made))


@pytest.mark.parametrize("zero_is_code", [False, True])
@pytest.mark.parametrize("rows", [64, 96, 320])
@pytest.mark.parametrize("order", list(CpuInt4Order))
def test_the_order_that_packed_is_found(order, rows, zero_is_code):
    """It decodes all codes to their places, whichever of both zero points was stored."""
    made = layout(order, rows, zero_is_code=zero_is_code)
    found, notes = found_in(made)
    codes = made.packed_weight.load()
    assert torch.equal(unpack_cpu_int4(codes, found.cpu_order), unpack_cpu_int4(codes, order))
    assert f"taken is {found.cpu_order.value}" in notes[0]


def test_weights_that_do_not_show_it_are_left_in_the_usual_order():
    """Where all rows are alike, every order fits; that is said."""
    found, notes = found_in(undecided())
    assert found.cpu_order is CpuInt4Order.AVX512
    assert "that were looked at do not show it" in notes[0]


def test_sixteen_rows_have_one_order():
    """Where all orders agree there is nothing to say."""
    made = layout(CpuInt4Order.AVX512, rows=16)
    assert found_in(made) == (made, ())


def test_a_layer_takes_the_order_that_another_one_shows():
    """A checkpoint has one writer; the note says that the order is that of all layers."""
    orders = orders_of(undecided(), layout(CpuInt4Order.AVX2))
    made = undecided()
    found, (note,) = with_cpu_order(made, made.packed_weight, orders)
    assert found.cpu_order is CpuInt4Order.AVX2
    assert "for all layers of the checkpoint taken is avx2" in note
    assert "looked at (1)" in note


def test_layers_that_cannot_tell_orders_apart_do_not_decide_for_those_that_can():
    """With 32 rows all pairs of neighbours are one order, and with 128 they are three."""
    small, large = (layout(CpuInt4Order.PAIRS_64, rows=n) for n in (32, 128))
    assert found_in(large, *[small] * 9)[0].cpu_order is CpuInt4Order.PAIRS_64
    found, notes = with_cpu_order(undecided(), undecided().packed_weight, orders_of(*[small] * 9))
    assert found.cpu_order is CpuInt4Order.AVX512
    assert "do not show it" in notes[0]


def counted(made, loads):
    """Return a layout whose codes note each time that they are read."""
    codes = made.packed_weight
    noted = LazyTensor(codes.dtype, codes.shape, lambda: loads.append(1) or codes.load())
    return attrs.evolve(made, packed_weight=noted)


@pytest.mark.parametrize(("make", "most"), [(undecided, 16), (layout, 3)])
def test_few_layers_are_looked_at(make, most):
    """However many layers a checkpoint has, its opening reads a few of them once."""
    loads = []
    made = make() if make is undecided else make(CpuInt4Order.AVX2)
    orders = orders_of(*[counted(made, loads)] * 50)
    for _ in range(50):
        with_cpu_order(made, made.packed_weight, orders)
    assert len(loads) == most


def test_only_the_first_rows_of_a_layer_are_read(tmp_path):
    """A file that ends behind 256 rows is enough."""
    made = layout(CpuInt4Order.AVX2, rows=320)
    codes = made.packed_weight.load()
    file = tmp_path / "codes"
    file.write_bytes(codes[:256].numpy().tobytes())
    stored = LazyTensor(DType.UINT8, tuple(codes.shape), None, ByteRange(file, 0, codes.numel()))
    orders = CpuOrders([Packed(stored, made.scale_and_zero)])
    assert with_cpu_order(made, made.packed_weight, orders)[0].cpu_order is CpuInt4Order.AVX2


def test_packed_weights_are_found_in_wrappers_and_broken_ones_are_not():
    """A tensor that no reader would take is left to the reader's error."""
    weight = ARRANGEMENTS["Int4CPUAQTTensorImpl"][0]
    inside = weight.fields["tensor_impl"]
    broken = attrs.evolve(inside, fields={**inside.fields, "packed_weight": None})
    wrapped = Stored("Wrapper", None, None, None, {"weight": weight, "bias": broken})
    (found,) = packed_in([wrapped])
    assert found.codes is inside.fields["packed_weight"]


def test_zero_points_that_are_not_looked_at_are_said_to_be_unknown():
    """The scales of a very large checkpoint are not all read when it is opened."""
    weight = ARRANGEMENTS["Int4CPUAQTTensorImpl"][0]
    looks = Looks(CpuOrders([]), bytes_left=0)
    (said,) = (t for t in read_tensor(weight, None, looks).origin.ambiguities if "values" in t[:6])
    assert "zero points were not looked at" in said
    assert "zero points" not in "".join(read_tensor(weight).origin.ambiguities)
