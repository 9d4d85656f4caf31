"""Calls of every verb that reads a checkpoint or a config, with what they leave behind."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen
from click.testing import Result

from qconfig import load_checkpoint, load_config
from qconfig.codec.documents import FORMATS
from qconfig.errors import QconfigError
from tests.checkpoints.builders import float_checkpoint
from tests.cli.calls import call

ANY = {
    "type": "FqnToConfig",
    "version": 2,
    "configs": {"row": {"type": "Int8WeightOnlyConfig", "version": 3}},
    "rules": [{"match": "re:.*", "use": "row", "optional": True}],
}
_LARGE = 64 * 2**20
ON_CHECKPOINTS = (
    "validate",
    "inspect",
    "verify",
    "diff",
    "plan",
    "quantize",
    "upgrade",
    "convert",
    "load",
)
ON_CONFIGS = ("validate", "explain", "diff", "upgrade", "plan", "quantize", "convert", "load")


@frozen
class Answer:
    """What a function said, as the command line would."""

    exit_code: int
    stdout: str = ""
    stderr: str = ""


def prepare(home: Path) -> None:
    """Write the sound files that `run` needs beside the one in question."""
    other = home / "other"
    if not (other / "model").exists():
        float_checkpoint(other / "model")
        (other / "any.json").write_text(json.dumps(ANY))


def load(path: Path, options: Sequence[str]) -> Answer:
    """Read a checkpoint or config in Python."""
    try:
        if path.suffix in FORMATS:
            load_config(path)
        else:
            load_checkpoint(path, mmap=False, follow_symlinks="--follow-symlinks" in options)
    except QconfigError as error:
        return Answer(error.exit_code, stderr="\n".join(map(str, error.problems)))
    return Answer(0)


def run(verb: str, path: Path, home: Path, *options: str) -> Result | Answer:
    """Call a verb on a checkpoint or config; what it writes is `target` in the folder `home`.

    The verb `load` is no verb of the command line but the function of Python.
    """
    if verb == "load":
        return load(path, options)
    target, config, model = home / "target", home / "other" / "any.json", home / "other" / "model"
    if path.suffix in FORMATS:
        arguments: dict[str, list[object]] = {
            "explain": [path, "layers.0.up"],
            "diff": [path, config],
            "upgrade": [path, target.with_suffix(".json")],
            "convert": [path, target.with_suffix(".json"), "--to", "torchao"],
            "plan": [model, path],
            "quantize": [model, target, "--config", path],
        }
    else:
        arguments = {
            "diff": [path, path],
            "upgrade": [path, target],
            "convert": [path, target, "--to", "torchao"],
            "plan": [path, config],
            "quantize": [path, target, "--config", config],
        }
    return call(verb, *arguments.get(verb, [path]), *options)


def state(folder: Path) -> dict[str, str]:
    """Return what lies below a folder: hashes or sizes of files, targets of links, other kinds."""
    found = {}
    for home, folders, files in os.walk(folder):
        for name in folders + files:
            path = Path(home, name)
            if path.is_symlink():
                found[str(path)] = f"link to {path.readlink()}"
            elif path.is_file() and path.stat().st_size > _LARGE:
                found[str(path)] = f"{path.stat().st_size} bytes"
            elif path.is_file():
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                found[str(path)] = oct(path.lstat().st_mode)
    return found
