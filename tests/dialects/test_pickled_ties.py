"""Names that share memory in files of torch.save: tensors, and the parts of swapped modules."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torchao.quantization import Int8WeightOnlyConfig, quantize_

from qconfig import inspect_checkpoint, load_checkpoint, upgrade_checkpoint, verify_checkpoint
from qconfig.errors import CheckpointError, ContainerError


def int8_weight() -> torch.Tensor:
    """Return a weight that torchao has quantized."""
    layers = torch.nn.Sequential(torch.nn.Linear(32, 16, bias=False))
    quantize_(layers, Int8WeightOnlyConfig(version=2))
    weight: torch.Tensor = layers[0].weight  # type: ignore[assignment]
    return weight


def swapped(name: str, seed: int = 0) -> dict[str, torch.Tensor]:
    """Return the state_dict of an Int8DynActInt4WeightLinear."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(-8, 8, (16, 64), generator=generator, dtype=torch.int8)
    scales = torch.rand(16, 2, generator=generator) + 0.1
    parts = {"weight": codes, "scales": scales, "zeros": torch.zeros(16, 2)}
    return {f"{name}.{part}": tensor for part, tensor in parts.items()}


def values(state: dict[str, torch.Tensor], name: str) -> torch.Tensor:
    """Return the values of a swapped module's weight."""
    codes, scales = state[f"{name}.weight"], state[f"{name}.scales"]
    return codes.float() * scales.repeat_interleave(32, dim=1)


def upgraded(state: Any, tmp_path: Path) -> dict[str, torch.Tensor]:
    """Save a state_dict, upgrade it, and return what the result holds."""
    torch.save(state, tmp_path / "old.pt")
    upgrade_checkpoint(tmp_path / "old.pt", tmp_path / "new")
    assert verify_checkpoint(tmp_path / "new").problems == ()
    return load_checkpoint(tmp_path / "new")


def test_a_module_under_two_names_is_stored_once(tmp_path: Path) -> None:
    """All three tensors of the second name are those of the first."""
    state = swapped("a")
    state |= {name.replace("a.", "b.", 1): tensor for name, tensor in state.items()}
    found = upgraded(state, tmp_path)
    assert found["a.weight"] is found["b.weight"]
    assert inspect_checkpoint(tmp_path / "new").ties == {"b.weight": "a.weight"}


@pytest.mark.parametrize("shared", [("zeros",), ("weight",), ("weight", "zeros")])
def test_modules_that_share_some_tensors_are_two(shared: tuple[str, ...], tmp_path: Path) -> None:
    """A module is read whole although one of its tensors is also that of another."""
    state = swapped("a") | swapped("b", seed=1)
    for part in shared:
        state[f"b.{part}"] = state[f"a.{part}"]
    found = upgraded(state, tmp_path)
    assert sorted(found) == ["a.weight", "b.weight"]
    for name in ("a", "b"):
        assert torch.equal(found[f"{name}.weight"].dequantize(), values(state, name))


def test_a_further_name_of_a_module_s_tensor_keeps_it(tmp_path: Path) -> None:
    """A tensor that goes into a layout and has other names, too, is stored under one of those."""
    state = swapped("a")
    state |= {"copy": state["a.scales"], "again": state["a.scales"], "codes": state["a.weight"]}
    found = upgraded(state, tmp_path)
    assert sorted(found) == ["a.weight", "again", "codes", "copy"]
    assert torch.equal(found["copy"], state["a.scales"])
    assert found["copy"] is found["again"]
    assert torch.equal(found["codes"], state["a.weight"])


def test_tensors_that_share_codes_and_differ_in_attributes_are_two(tmp_path: Path) -> None:
    """The same codes under another dtype are another tensor."""
    first = int8_weight()
    second = type(first)(
        *(first.qdata, first.scale, first.block_size, torch.bfloat16, first.zero_point)
    )
    found = upgraded({"a": first, "b": second}, tmp_path)
    assert (found["a"].dtype, found["b"].dtype) == (torch.float32, torch.bfloat16)


@pytest.mark.parametrize(
    ("alias", "error", "message"),
    [
        ("a.weight.qdata", CheckpointError, "a tie does not lead from a new name"),
        ("x\x1by", ContainerError, "a tied name has control or invisible characters"),
    ],
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_further_name_that_no_reader_takes_is_refused(
    alias: str, error: type[Exception], message: str, *, dry_run: bool, tmp_path: Path
) -> None:
    """Nothing is written that could not be opened again; a dry run says so, too."""
    plain = torch.ones(3)
    torch.save({"x": plain, alias: plain, "a.weight": int8_weight()}, tmp_path / "old.pt")
    with pytest.raises(error, match=message):
        upgrade_checkpoint(tmp_path / "old.pt", tmp_path / "new", dry_run=dry_run)
    assert not (tmp_path / "new").exists()
