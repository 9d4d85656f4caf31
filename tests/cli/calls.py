"""Calls of the command line, inside this process and outside of it, and files to call it on."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from qconfig.cli.main import cli

ROW = {"type": "Int8WeightOnlyConfig", "version": 3}
RULES = {
    "type": "FqnToConfig",
    "version": 2,
    "configs": {"row": ROW},
    "rules": [
        {"match": "layers.0.down", "use": None},
        {"match": "**.up", "use": "row"},
    ],
}


def call(*arguments: object, **settings: Any) -> Result:
    """Run `qconfig` with arguments; a bug raises here."""
    runner = CliRunner()
    return runner.invoke(cli, [str(a) for a in arguments], catch_exceptions=False, **settings)


def call_json(*arguments: object) -> tuple[int, dict[str, Any]]:
    """Run `qconfig` with `--json`; return the exit code and what stdout holds."""
    result = call(*arguments, "--json")
    document: dict[str, Any] = json.loads(result.stdout)
    return result.exit_code, document


def in_process(*arguments: object, code: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run Python code in a new process that has the arguments of `qconfig` in `sys.argv`."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        text=True,
        check=False,
        **{"capture_output": True, "env": {**os.environ, "PYTHONUTF8": "1"}} | settings,
    )


def cells(line: str) -> list[str]:
    """Return the cells of one line of a plain table."""
    return re.split(r"  +", line)


def write(path: Path, document: Any) -> Path:
    """Write a JSON document and return its path."""
    path.write_text(json.dumps(document), encoding="utf-8")
    return path
