"""NamedTuples that real releases pickled: values and metadata are those that the release has."""

from functools import cache
from typing import Any

import pytest
import torch

from qconfig import load_checkpoint, upgrade_checkpoint
from qconfig.checkpoints.upgrade import UpgradeReport
from tests.dialects.brevitas.samples import ALL_RELEASES, FILES, RELEASES, facts, truth

_SAMPLES = [(release, name) for release in RELEASES for name in facts(release)]
_REPAIRED = ("passed", "mxint8_last")
_METADATA = ("signed", "training", "saturating", "group_size", "group_dim")
_NUMBERS = ("bit_width", "exponent_bit_width", "mantissa_bit_width", "exponent_bias")


@pytest.fixture(scope="session")
def upgraded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that upgrades the file of a release once: its report and its tensors."""

    @cache
    def upgrade(release: str) -> tuple[UpgradeReport, dict[str, Any]]:
        target = tmp_path_factory.mktemp(release) / "new"
        report = upgrade_checkpoint(FILES / release / "quant_tensors.pt", target)
        return report, load_checkpoint(target)

    return upgrade


@pytest.mark.parametrize(("release", "name"), _SAMPLES)
def test_values_are_the_writers(upgraded: Any, release: str, name: str) -> None:
    """Values, scales and zero points have the bits that Brevitas gives them."""
    found, known = upgraded(release)[1][name], truth(release)
    for field in ("value", "scale", "zero_point"):
        expected = known.get(f"{name}.{field}")
        if expected is not None and name != "value_alone":
            value = getattr(found, field)
            assert value.dtype is expected.dtype
            assert torch.equal(value, expected), field


@pytest.mark.parametrize(("release", "name"), [s for s in _SAMPLES if f"{s[1]}.int" in truth(s[0])])
def test_integers_are_the_writers(upgraded: Any, release: str, name: str) -> None:
    """Where Brevitas gives integers, ours are the same; of exchanged widths it gives wrong ones."""
    if "passed" not in name:
        assert torch.equal(upgraded(release)[1][name].int(), truth(release)[f"{name}.int"])


@pytest.mark.parametrize(("release", "name"), _SAMPLES)
def test_metadata_is_the_writers(upgraded: Any, release: str, name: str) -> None:
    """Flags, widths and groups are those that were stored, save where they are put right."""
    found, known = upgraded(release)[1][name], facts(release)[name]
    if name == "value_alone" or any(word in name for word in _REPAIRED):
        return
    assert {f: getattr(found, f) for f in _METADATA if f in known} == {
        f: known[f] for f in _METADATA if f in known
    }
    assert {f: float(getattr(found, f)) for f in _NUMBERS if f in known} == {
        f: known[f] for f in _NUMBERS if f in known
    }


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_not_repaired_is_exact(upgraded: Any, release: str) -> None:
    """No tensor has a change or an ambiguity but those that a release wrote wrongly."""
    inexact = {t.fqn for t in upgraded(release)[0].tensors if not t.exact}
    assert inexact == {n for n in facts(release) if "passed" in n} | (
        {"mxint8_last"} if release == "0.11.0" else set()
    )


@pytest.mark.parametrize("release", RELEASES)
def test_classes_and_releases_are_told(upgraded: Any, release: str) -> None:
    """The report names the class and which releases wrote it so."""
    origins = {t.fqn: t.origin for t in upgraded(release)[0].tensors}
    old = release in ("0.8.0", "0.10.3")
    expected = ("QuantTensor", "0.8 to 0.10") if old else ("IntQuantTensor", "0.11 to 0.13")
    assert (origins["int8"].type, origins["int8"].releases) == expected


def test_flags_that_were_cast_are_read() -> None:
    """`.to(dtype)` turned flags into 1.0 and 0.0; they are flags again."""
    report = upgrade_checkpoint(FILES / "0.13.4" / "quant_tensors.pt", None, dry_run=True)
    (cast,) = [t for t in report.tensors if t.fqn == "cast"]
    assert cast.exact


@pytest.mark.parametrize("release", ALL_RELEASES)
def test_bytes_are_copied(release: str, tmp_path: Any) -> None:
    """Values are copied from file to file; nested names are joined, second names are ties."""
    report = upgrade_checkpoint(FILES / release / "nested.pt", tmp_path / "new")
    found = load_checkpoint(tmp_path / "new")
    assert report.computed_bytes == 0
    assert report.problems == ()
    assert set(found) == {
        "layers.0.weight",
        "layers.1.0",
        "layers.1.1",
        "plain",
        "again",
        "same",
    }
    assert found["same"] is found["again"]


def test_a_value_alone_is_plain(upgraded: Any) -> None:
    """A QuantTensor of 0.8 without metadata is a plain tensor, and a note says so."""
    report, found = upgraded("0.8.0")
    assert type(found["value_alone"]) is torch.Tensor
    assert any("value_alone is a QuantTensor" in note for note in report.notes)
