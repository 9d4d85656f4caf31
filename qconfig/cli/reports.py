"""Reports of what was done, as JSON files."""

import json
from pathlib import Path
from typing import Any

from qconfig.cli.output import OUTPUT_VERSION
from qconfig.errors import StorageError


def write_report(path: Path, result: dict[str, Any]) -> None:
    """Write a result to a new file, in the envelope of `--json`.

    Raises:
        StorageError: the file exists by now or cannot be written.
    """
    text = json.dumps({"qconfig": OUTPUT_VERSION, "command": "upgrade", "result": result}, indent=2)
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text + "\n")
    except OSError as error:
        raise StorageError(f"cannot write: {error.strerror}", file=path) from error
