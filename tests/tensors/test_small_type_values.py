"""Checks of stored values of one-byte types, which torch's own predicates do not know."""

from typing import Any

import pytest
import torch

from qconfig.builders.base import builder_of
from qconfig.checkpoints.save import save_checkpoint
from qconfig.checkpoints.verify import verify_checkpoint
from qconfig.configs.mx import MXDynamicActivationMXWeightConfig
from qconfig.configs.nvfp4 import NVFP4WeightOnlyConfig
from qconfig.errors import LayoutError
from qconfig.tensors import PackedTensor, check_values
from qconfig.tensors.value_checks import not_finite
from qconfig.versioning import Config

TYPES = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu)
CONFIGS = {"mx": MXDynamicActivationMXWeightConfig(), "nvfp4": NVFP4WeightOnlyConfig()}


def built(config: Config) -> PackedTensor:
    """Return a packed weight."""
    weight = torch.randn(8, 64, generator=torch.Generator().manual_seed(0))
    builder: Any = builder_of(config)
    tensor: PackedTensor = builder.build(config, weight)
    return tensor


def with_byte(tensor: PackedTensor, field: str, byte: int) -> PackedTensor:
    """Return the tensor with one byte of a field changed, at [2, 1]."""
    bits = getattr(tensor, field).view(torch.uint8).clone()
    bits[2, 1] = byte
    return tensor.with_fields(**{field: bits.view(getattr(tensor, field).dtype)})


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_byte_is_finite_where_its_number_is(dtype: torch.dtype) -> None:
    """All 256 bytes are judged as the float32 number that torch makes of them."""
    values = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype)
    assert torch.equal(not_finite(values), ~values.to(torch.float32).isfinite())


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_sound_tensors_pass(config: Config, tmp_path) -> None:
    """A checkpoint of a sound weight is verified without a problem."""
    save_checkpoint({"a.weight": built(config)}, tmp_path / "sound")
    assert verify_checkpoint(tmp_path / "sound").problems == ()


@pytest.mark.parametrize(
    ("name", "field", "byte", "message"),
    [
        ("mx", "scale", 0xFF, "scale is not finite"),
        ("mx", "qdata", 0x7F, "qdata is not finite"),
        ("nvfp4", "scale", 0xFF, "scale is not finite"),
        ("nvfp4", "scale", 0xB8, "scale is negative"),
    ],
)
def test_bad_bytes_are_found(name: str, field: str, byte: int, message: str) -> None:
    """NaN, and a negative scale, are found with their field and place."""
    layout = with_byte(built(CONFIGS[name]), field, byte).to_layout()
    with pytest.raises(LayoutError, match=rf"{message}: 1 of \d+ entries, the first at \[2, 1\]"):
        check_values(layout)


def test_a_scale_of_zero_is_lawful() -> None:
    """Other producers give blocks of zeros the scale zero."""
    check_values(with_byte(built(CONFIGS["nvfp4"]), "scale", 0).to_layout())
