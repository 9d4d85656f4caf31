"""What a verb imports: the quick ones never load torch."""

import pytest

from tests.cli.calls import in_process

CODE = """
import sys
from qconfig.cli.main import cli
try:
    cli.main(sys.argv[1:])
except SystemExit as stop:
    code = stop.code
heavy = {"torch", "numpy", "rich"} & set(sys.modules)
sys.exit(f"imported {heavy}" if heavy else code)
"""

QUICK = [
    "--help",
    "--version",
    "validate --help",
    "validate {config}",
    "validate {old_model}",
    "validate {float_model}",
    "inspect {old_model}",
    "inspect {float_model} --json",
    "schema show",
    "schema show Int8TensorLayout",
    "schema export {tmp_path}/schemas",
    "history",
    "diff {config} {config}",
    "diff {old_model} {old_model}",
    "upgrade {config}",
    "explain {config} layers.0.up",
    "plan {float_model} {config}",
]


@pytest.mark.parametrize("line", QUICK)
def test_no_heavy_import(line, places):
    """What reads documents and headers imports neither torch nor numpy nor, in a pipe, rich."""
    run = in_process(*(word.format(**places) for word in line.split()), code=CODE)
    assert run.returncode == 0, run.stderr


def test_a_heavy_import_is_seen(current_model):
    """The test above sees what verify imports, which reads values."""
    assert "torch" in in_process("verify", current_model, code=CODE).stderr
