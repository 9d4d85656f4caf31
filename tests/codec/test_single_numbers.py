"""Numbers in files that are read without torch."""

import pytest
import torch
from safetensors.torch import save_file

from qconfig.codec.safetensors_header import read_header
from qconfig.codec.safetensors_reader import lazy_tensors
from qconfig.codec.single_numbers import single_number
from qconfig.codec.tensor_values import LazyTensor


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        (torch.float16, -1.5),
        (torch.bfloat16, -1.5),
        (torch.float32, 0.15625),
        (torch.float64, 0.1),
        (torch.uint8, 200),
        (torch.int8, -3),
        (torch.int64, -(2**40)),
        (torch.bool, 1),
    ],
)
def test_a_number_is_the_one_that_was_saved(dtype, number, tmp_path):
    """Each type is decoded as torch does."""
    save_file({"a": torch.tensor(number, dtype=dtype)}, tmp_path / "a.safetensors")
    stored = lazy_tensors(read_header(tmp_path / "a.safetensors"))["a"]
    assert single_number(stored) == number


def test_others_have_none(tmp_path):
    """Tensors of a rank, of a type without numbers in Python, and in no file, are not read."""
    odd = {"a": torch.ones(1), "b": torch.tensor(1.0).to(torch.float8_e5m2)}
    save_file(odd, tmp_path / "a.safetensors")
    stored = lazy_tensors(read_header(tmp_path / "a.safetensors"))
    others = [*stored.values(), LazyTensor.of(torch.tensor(1.0))]
    assert [single_number(tensor) for tensor in others] == [None, None, None]
