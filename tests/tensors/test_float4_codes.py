"""Codes of 4 and 6 bits: nearest values, ties to even, two in a byte."""

import pytest
import torch

from qconfig.tensors.block_scaled import dequantize
from qconfig.tensors.small_floats import (
    E2M1,
    E2M3,
    E3M2,
    SmallFloat,
    codes_of,
    decoded,
    decoded_pairs,
    packed,
    unpacked,
)

KINDS = {"e2m1": E2M1, "e2m3": E2M3, "e3m2": E3M2}


def test_e2m1_has_the_values_of_the_specification() -> None:
    """OCP MX 1.0, table 5: 0, 0.5, 1, 1.5, 2, 3, 4, 6, and the same below zero."""
    magnitudes = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
    assert E2M1.values == (*magnitudes, *(-m for m in magnitudes))


@pytest.mark.parametrize(("kind", "largest", "step"), [(E2M3, 7.5, 0.125), (E3M2, 28.0, 0.0625)])
def test_fp6_has_the_range_of_the_specification(
    kind: SmallFloat, largest: float, step: float
) -> None:
    """OCP MX 1.0, table 4: largest and smallest magnitudes of both types of 6 bits."""
    assert kind.largest == largest
    assert kind.step == step
    assert len(set(kind.values)) == 63  # 0 and -0 are equal


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_value_keeps_its_code(kind: SmallFloat) -> None:
    """A value that the type has is encoded as itself, -0 included."""
    values = torch.tensor(kind.values)
    assert codes_of(values.clone(), kind).tolist() == list(range(2 * kind.sign))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_codes_are_nearest_and_ties_go_to_even(kind: SmallFloat) -> None:
    """Between two neighbours the nearer wins, by one bit of float32; the middle takes the even."""
    for code in range(kind.sign - 1):
        low, high = kind.values[code], kind.values[code + 1]
        middle = torch.tensor((low + high) / 2)
        near = [middle.nextafter(torch.tensor(low)), middle, middle.nextafter(torch.tensor(high))]
        even = code if code % 2 == 0 else code + 1
        assert codes_of(torch.stack(near), kind).tolist() == [code, even, code + 1]
        assert codes_of(-torch.stack(near), kind).tolist() == [
            c | kind.sign for c in (code, even, code + 1)
        ]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_what_is_too_large_saturates(kind: SmallFloat) -> None:
    """Values beyond the largest one, infinity too, get its code."""
    values = torch.tensor([kind.largest * 1.01, 1e38, torch.inf, -torch.inf])
    top = kind.sign - 1
    assert codes_of(values, kind).tolist() == [top, top, top, top | kind.sign]


def test_the_first_code_of_a_byte_is_the_low_one() -> None:
    """Codes 1, 2, 15, 0 become the bytes 0x21 and 0x0f, and come back."""
    codes = torch.tensor([1, 2, 15, 0], dtype=torch.uint8)
    assert packed(codes).tolist() == [0x21, 0x0F]
    assert torch.equal(unpacked(packed(codes)), codes)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_every_byte_is_two_values(dtype: torch.dtype) -> None:
    """All 256 bytes decode to what their halves mean, in each type."""
    every = torch.arange(256, dtype=torch.uint8)
    expected = decoded(unpacked(every), E2M1, dtype)
    assert torch.equal(decoded_pairs(every, dtype), expected)
    assert torch.equal(expected[0::2], torch.tensor(E2M1.values, dtype=dtype).repeat(16))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_float8_codes_decode_as_torch_decodes_them(dtype: torch.dtype) -> None:
    """All bytes of torch's types give torch's values; NaN stays NaN."""
    every = torch.arange(256).to(torch.uint8).view(dtype)
    found, expected = decoded(every, None, torch.float32), every.to(torch.float32)
    assert torch.equal(found.nan_to_num(1e9), expected.nan_to_num(1e9))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("kind", [E2M1, E3M2, None], ids=["fp4", "fp6", "fp8"])
@pytest.mark.parametrize("stored", [torch.float8_e4m3fn, torch.float8_e8m0fnu])
def test_a_large_matrix_has_the_values_of_its_rows(
    kind: SmallFloat | None, stored: torch.dtype, dtype: torch.dtype
) -> None:
    """Values that are written a few rows at a time are those of a few rows alone."""
    generator = torch.Generator().manual_seed(0)
    rows, block = 1100, 16 if stored == torch.float8_e4m3fn else 32
    columns = 2048 if kind == E2M1 else 1024
    bytes_a_row = columns // 2 if kind == E2M1 else columns
    most = 256 if kind == E2M1 else 64
    codes = torch.randint(0, most, (rows, bytes_a_row), dtype=torch.uint8, generator=generator)
    codes = codes if kind is not None else codes.view(torch.float8_e4m3fn)
    low, high = (120, 130) if stored == torch.float8_e8m0fnu else (8, 120)
    scale = torch.randint(
        low, high, (rows, columns // block), dtype=torch.uint8, generator=generator
    ).view(stored)
    large = dequantize(codes, scale, kind, block, dtype)
    parts = zip(codes.split(100), scale.split(100), strict=True)
    assert torch.equal(large, torch.cat([dequantize(c, s, kind, block, dtype) for c, s in parts]))
