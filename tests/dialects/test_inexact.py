"""What loading another library's checkpoint cannot carry exactly, or has to assume, is said."""

import warnings
from pathlib import Path

import pytest

from qconfig import InexactWarning, inspect_checkpoint, load_checkpoint
from tests.cli.calls import call
from tests.torchao_pickles import PICKLES

ASSUMED = PICKLES / "0.17.0" / "int8_dynact_intx_weight_int4_g32__bf16.pt"
CHANGED = PICKLES / "0.8.0" / "int8_dynact_asym_int8_weight__bf16.pt"
EXACT = PICKLES / "0.4.0" / "direct_mxfp4__bf16.pt"


@pytest.mark.parametrize("path", [ASSUMED, CHANGED], ids=["assumed", "changed"])
def test_loading_warns_once_and_says_where_to_read(path: Path) -> None:
    """The warning counts the tensors and points at the line that loads."""
    with pytest.warns(
        InexactWarning, match="2 of 2 quantized tensors .* inspect_checkpoint"
    ) as got:
        load_checkpoint(path)
    assert [Path(warning.filename).name for warning in got] == [Path(__file__).name]


@pytest.mark.parametrize(
    ("path", "writer"), [(ASSUMED, "torchao==0.17"), (EXACT, None)], ids=["writer named", "exact"]
)
def test_nothing_is_said_where_all_is_exact(path: Path, writer: str | None) -> None:
    """A writer that is named leaves nothing to assume."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_checkpoint(path, writer=writer)


def test_inspection_lists_all_of_it() -> None:
    """Each tensor has its changes and ambiguities; remarks count them."""
    inspection = inspect_checkpoint(ASSUMED)
    ambiguities = {text for tensor in inspection.tensors for text in tensor.ambiguities}
    assert inspection.remarks == {f"not known: {text}": 2 for text in ambiguities}
    changed = inspect_checkpoint(CHANGED)
    assert next(iter(changed.remarks)).partition(":")[0] == "changes"
    assert inspect_checkpoint(ASSUMED, writer="torchao==0.17").remarks == {}


def test_the_command_prints_it() -> None:
    """Notes on stderr have the texts and numbers of tensors."""
    assert "note: not known: activations: " in call("inspect", ASSUMED).stderr
    named = call("inspect", ASSUMED, "--writer", "torchao==0.17").stderr
    assert "not known" not in named
