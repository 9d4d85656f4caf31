"""Golden checkpoints of every layout version: what a release wrote keeps loading, bit for bit."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from qconfig import inspect_checkpoint, load_checkpoint
from qconfig.versioning import Kind
from tests import golden_int4
from tests.golden_checkpoints import FQN, checkpoint_bytes, upgraded_bytes
from tests.golden_meaning import RENAMED, part_of, today
from tests.regenerate import golden_cases
from tests.strategies import documented_entries

CASES = [
    pytest.param(case, id=f"{entry.name}-v{entry.version}-{case.stem}")
    for entry in documented_entries()
    if entry.kind is Kind.LAYOUT
    for case in golden_cases(entry)
]


@pytest.mark.parametrize("case", CASES)
def test_upgrading_gives_the_golden_bytes(case: Path) -> None:
    """`upgrade_checkpoint` writes the golden file, byte for byte."""
    source = case.with_suffix(".safetensors")
    assert source.exists(), "run `python -m tests.regenerate`"
    assert upgraded_bytes(source) == case.with_suffix(".upgraded.safetensors").read_bytes()


@pytest.mark.parametrize("case", CASES)
def test_the_writer_still_gives_the_golden_file(case: Path) -> None:
    """The same tensors are written as the same bytes as on the day of the golden file."""
    assert checkpoint_bytes(case) == case.with_suffix(".safetensors").read_bytes()


@pytest.mark.parametrize("case", CASES)
def test_no_element_changes_its_value(case: Path) -> None:
    """Read by safetensors itself, every inner tensor holds what it held before the upgrade."""
    before = load_file(case.with_suffix(".safetensors"))
    after = load_file(case.with_suffix(".upgraded.safetensors"))
    fields = {name.removeprefix(f"{FQN}."): tensor for name, tensor in before.items()}
    if golden_int4.is_rearranged(case):
        lists = {name.removeprefix(f"{FQN}."): tensor.tolist() for name, tensor in after.items()}
        assert lists == golden_int4.today(case, fields)
        return
    names = dict(zip(fields, before, strict=True))
    for field in fields.keys() & RENAMED.keys():
        names[field] = f"{FQN}.{RENAMED[field]}"
    assert set(names.values()) == after.keys()
    for field, tensor in fields.items():
        expected = today(case, field, tensor)
        found = part_of(case, field, after[names[field]].flatten())
        assert torch.equal(expected.double(), found.double())


@pytest.mark.parametrize("case", CASES)
def test_the_golden_file_loads(case: Path) -> None:
    """Loading gives the values that the upgraded file gives, and inspection names the version."""
    source = case.with_suffix(".safetensors")
    old = load_checkpoint(source)[FQN]
    new = load_checkpoint(case.with_suffix(".upgraded.safetensors"))[FQN]
    assert torch.equal(old.dequantize(), new.dequantize())
    assert inspect_checkpoint(source).tensors[-1].version == int(case.parent.name.removeprefix("v"))
