"""The checks of the demo see what they are there to see."""

from pathlib import Path

import pytest
import torch

import qconfig
from demo.measures import sqnr_db, unequal
from demo.old_release import write_old_checkpoint
from demo.screen import Screen
from demo.sentences import agreement
from qconfig import Int8Tensor, Int8WeightOnlyConfig


def int8_tensor(columns: int = 64) -> Int8Tensor:
    """Return a quantized random weight."""
    codes = torch.randint(-128, 128, (8, columns), generator=torch.Generator().manual_seed(0))
    return Int8Tensor(codes.to(torch.int8), torch.ones(8, 1), (1, columns), torch.float32)


def test_sqnr_is_a_ratio_of_energies():
    """Noise of a tenth of the amplitude is 20 dB below the signal."""
    weight = torch.full((4, 4), 2.0)
    assert sqnr_db(weight, weight * 1.1) == pytest.approx(20, abs=1e-4)


@pytest.mark.parametrize("field", ["qdata", "scale"])
def test_one_bit_is_seen(field):
    """A difference of one unit in the last place of a code or scale has a name."""
    first, second = int8_tensor(), int8_tensor()
    assert unequal({"a": first}, {"a": second}) == []
    getattr(second, field).view(torch.int8)[3, 0] ^= 1
    assert unequal({"a": first}, {"a": second}) == ["a"]


def test_a_missing_weight_is_seen():
    """A weight that one side lacks or has as a plain tensor counts as different."""
    tensor = int8_tensor()
    assert unequal({"a": tensor}, {}) == ["a"]
    assert unequal({"a": tensor}, {"a": tensor.dequantize()}) == ["a"]


def test_neighbours_that_change_are_counted():
    """Turning one vector towards another changes who is nearest."""
    angles = torch.tensor([0.0, 0.1, 1.0, 1.3, 3.0])
    before = torch.stack([angles.cos(), angles.sin()], 1).double()
    after = before.clone()
    after[2] = before[1]
    assert agreement(before, before).nearest == 5
    found = agreement(before, after)
    assert found.nearest < 5
    assert min(found.cosines) == pytest.approx(torch.cos(torch.tensor(0.9)).item(), abs=1e-6)


def test_a_failed_check_decides_the_exit_code(capsys):
    """One claim that does not hold makes the demo leave with 1, and is named at the end."""
    screen = Screen()
    screen.check("water is wet", holds=True)
    assert screen.end() == 0
    screen.check("the moon is cheese", holds=False)
    assert screen.end() == 1
    assert capsys.readouterr().out.endswith("failed: the moon is cheese\n")


def test_a_failed_command_is_a_failed_check(tmp_path, capsys):
    """A command that leaves with another code than 0 fails the demo."""
    screen = Screen()
    screen.qconfig(f"validate {tmp_path / 'nothing.json'}")
    assert len(screen.failures) == 1
    assert "FAIL  qconfig validate" in capsys.readouterr().out


def test_what_is_printed_is_what_runs(capsys):
    """Statements are shown without definition, docstring and return; their value is handed on."""

    def sample(x: list[int]) -> list[int]:
        """Say nothing."""
        # twice
        x = [
            *x,
            *x,
        ]
        x.sort()
        return x

    def value() -> int:
        """Say nothing."""
        return 1 + 1

    assert Screen().python(sample, [2, 1]) == [1, 1, 2, 2]
    shown = "\n>>> # twice\n>>> x = [\n...     *x,\n...     *x,\n... ]\n>>> x.sort()\n"
    assert capsys.readouterr().out == shown
    assert Screen().python(value) == 2
    assert capsys.readouterr().out == "\n>>> 1 + 1\n"


def test_the_old_form_comes_back(tmp_path: Path):
    """A checkpoint written in the old form has the same bits after its upgrade."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.LayerNorm(8))
    qconfig.quantize_(model, Int8WeightOnlyConfig())
    new = tmp_path / "new"
    qconfig.save_checkpoint(model, new, config=Int8WeightOnlyConfig())
    (tmp_path / "v1.json").write_text('{"type": "Int8WeightOnlyConfig", "version": 1}')
    write_old_checkpoint(new, tmp_path / "old", tmp_path / "v1.json")
    assert qconfig.inspect_checkpoint(tmp_path / "old").layouts == {("Int8TensorLayout", 1): 1}
    qconfig.upgrade_checkpoint(tmp_path / "old", tmp_path / "back")
    first, second = (qconfig.load_checkpoint(tmp_path / name) for name in ("new", "back"))
    assert unequal(first, second) == []
    assert torch.equal(first["1.weight"], second["1.weight"])
