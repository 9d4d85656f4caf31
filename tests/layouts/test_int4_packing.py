"""Codes in kernels' orders come back as they went in."""

import json
import os
import subprocess
import sys

import pytest
import torch

from qconfig.layouts.int4_packing import (
    CpuInt4Order,
    GpuInt4Order,
    cpu_orders_agree,
    cpu_pairs,
    gpu_pairs,
    gpu_shape,
    signed_pairs,
    unpack_cpu_int4,
    unpack_gpu_int4,
    unpack_words_int4,
)
from tests.golden_int4 import cpu_places, gpu_places

CAPABILITIES = {
    "default": CpuInt4Order.PAIRS_32,
    "avx2": CpuInt4Order.AVX2,
    "avx512": CpuInt4Order.AVX512,
}
SHAPES = [(16, 2), (32, 64), (48, 34), (64, 8), (80, 32), (96, 2), (128, 64), (144, 6), (160, 32)]
_PACK = """
import json, sys, torch
print(torch.backends.cpu.get_cpu_capability())
for rows, columns in json.load(sys.stdin):
    codes = torch.arange(rows * columns, dtype=torch.int32).view(rows, columns) * 7 // 3 % 16
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)
    print(json.dumps(packed.tolist()))
"""


def codes_of(rows, columns):
    """Return a matrix of all codes, in no period of a tile."""
    codes = torch.arange(rows * columns, dtype=torch.int64).view(rows, columns) * 7 // 3 % 16
    return codes.to(torch.uint8)


def packed_for_gpu(codes, tiles, order):
    """Return codes as the GPU kernel packs them, with rows and columns padded by 0."""
    high, wide = (16 if order == "rocm" else 8), 16 * tiles
    rows, columns = (
        -(-n // size) * size for n, size in zip(codes.shape, (high, wide), strict=True)
    )
    padded = torch.zeros((rows, columns), dtype=torch.int64)
    padded[: codes.shape[0], : codes.shape[1]] = codes
    places = torch.tensor(list(gpu_places(rows, columns, tiles, order)))
    nibbles = padded[places[..., 0], places[..., 1]] << torch.arange(0, 32, 4)
    words = nibbles.sum(1)
    words = torch.where(words < 2**31, words, words - 2**32).to(torch.int32)
    return words.view(rows // 8, columns // wide, 32, tiles // 2)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_torchs_kernel_packs_in_the_order_of_its_capability(capability):
    """Under each ATEN_CPU_CAPABILITY, codes come back from torch's own packing."""
    result = subprocess.run(
        [sys.executable, "-c", _PACK],
        env={**os.environ, "ATEN_CPU_CAPABILITY": capability, "OMP_NUM_THREADS": "1"},
        input=json.dumps(SHAPES),
        capture_output=True,
        check=True,
        text=True,
    )
    name, *lines = result.stdout.splitlines()
    if name.lower() != capability:
        pytest.skip(f"this processor has no {capability}")
    for (rows, columns), line in zip(SHAPES, lines, strict=True):
        packed = torch.tensor(json.loads(line), dtype=torch.uint8)
        found = unpack_cpu_int4(packed, CAPABILITIES[capability])
        assert torch.equal(found, codes_of(rows, columns))


@pytest.mark.parametrize("order", CpuInt4Order)
@pytest.mark.parametrize(("rows", "columns"), [*SHAPES, (2, 4), (34, 6), (66, 2), (130, 4)])
def test_codes_packed_for_a_cpu_come_back(order, rows, columns):
    """Packed place by place, codes of any number of whole pairs of rows come back."""
    codes = codes_of(rows, columns)
    places = torch.tensor(list(cpu_places(rows, columns, order.value)))
    low, high = codes[places[..., 0], places[..., 1]].unbind(1)
    packed = (low | high << 4).view(rows, columns // 2)
    assert torch.equal(unpack_cpu_int4(packed, order), codes)


@pytest.mark.parametrize("order", GpuInt4Order)
@pytest.mark.parametrize("tiles", [2, 4, 8])
@pytest.mark.parametrize("rows", [1, 8, 33, 64, 96, 129])
@pytest.mark.parametrize("columns", [2, 100, 256])
def test_codes_packed_for_a_gpu_come_back(order, tiles, rows, columns):
    """Packed place by place and padded, codes of any shape come back without padding."""
    codes = codes_of(rows, columns)
    packed = packed_for_gpu(codes, tiles, order.value)
    assert torch.equal(unpack_gpu_int4(packed, (rows, columns), order), codes)


def test_a_word_for_nvidias_gpus_holds_two_tiles_of_a_row():
    """Lane 5 has row 1; its quarter has columns 2, 3, 10, 11 of two tiles, even ones lowest."""
    codes = torch.zeros((8, 32), dtype=torch.uint8)
    codes[1, [2, 10, 18, 26, 3, 11, 19, 27]] = torch.arange(1, 9, dtype=torch.uint8)
    packed = torch.zeros((1, 1, 32, 1), dtype=torch.int32)
    packed[0, 0, 5, 0] = 0x87654321 - 2**32
    assert torch.equal(unpack_gpu_int4(packed, (8, 32)), codes)


@pytest.mark.parametrize("tiles", [2, 4, 8])
def test_the_padded_shape_follows_from_the_words(tiles):
    """Rows are counted by 8, columns by 16 a tile."""
    assert gpu_shape((5, 3, 32, tiles // 2)) == (40, 3 * 16 * tiles)


def test_words_hold_eight_columns_from_their_lowest_bits():
    """The sign bit of a word belongs to its eighth code."""
    words = torch.tensor([[0x76543210, 0xFEDCBA98 - 2**32]], dtype=torch.int32)
    assert unpack_words_int4(words).tolist() == [list(range(16))]


def test_signed_pairs_are_eight_less():
    """Every pair of codes becomes a byte of two's complement, the even column low."""
    codes = torch.cartesian_prod(torch.arange(16), torch.arange(16)).to(torch.uint8)
    pairs = signed_pairs(codes).flatten()
    low, high = pairs << 4 >> 4, pairs >> 4
    assert torch.equal(torch.stack((low, high), 1), codes.to(torch.int8) - 8)


@pytest.mark.parametrize("first", CpuInt4Order)
@pytest.mark.parametrize("second", CpuInt4Order)
@pytest.mark.parametrize("rows", [16, 32, 48, 64, 96, 128, 144])
def test_orders_agree_where_their_places_are_equal(first, second, rows):
    """The condition is that of the places, for any number of columns."""
    same = list(cpu_places(rows, 2, first.value)) == list(cpu_places(rows, 2, second.value))
    assert cpu_orders_agree(rows, first, second) is same


@pytest.mark.parametrize("rows", [16, 32, 48, 64, 96])
def test_all_orders_agree_on_sixteen_rows_only(rows):
    """One tile of 16 rows is the same for every processor."""
    agree = [cpu_orders_agree(rows, a, b) for a in CpuInt4Order for b in CpuInt4Order]
    assert all(agree) is (rows == 16)


@pytest.mark.parametrize("order", CpuInt4Order)
@pytest.mark.parametrize("rows", [2, 64, 96, 162])
def test_slabs_of_the_cpu_kernel_give_the_whole(monkeypatch, order, rows):
    """Codes that come a few tiles at a time are those that come at once."""
    packed = codes_of(rows, 20).view(rows, 10, 2)[..., 0] * 17
    monkeypatch.setattr("qconfig.layouts.int4_packing._SLAB", 1)
    assert torch.equal(cpu_pairs(packed, order), signed_pairs(unpack_cpu_int4(packed, order)))


@pytest.mark.parametrize("order", GpuInt4Order)
@pytest.mark.parametrize("shape", [(16, 64), (27, 60), (48, 62)])
def test_slabs_of_the_gpu_kernel_give_the_whole(monkeypatch, order, shape):
    """So are those of a device, without the rows and columns of padding."""
    packed = packed_for_gpu(codes_of(*shape), 2, order.value)
    monkeypatch.setattr("qconfig.layouts.int4_packing._SLAB", 1)
    whole = signed_pairs(unpack_gpu_int4(packed, shape, order))
    assert torch.equal(gpu_pairs(packed, shape, order), whole)
