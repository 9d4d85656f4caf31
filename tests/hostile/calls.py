"""Calls of every verb that reads a checkpoint or a config, with what they leave behind."""

import hashlib
import json
import os
from pathlib import Path

from click.testing import Result

from tests.checkpoints.builders import float_checkpoint
from tests.cli.calls import call

ANY = {
    "type": "FqnToConfig",
    "version": 2,
    "configs": {"row": {"type": "Int8WeightOnlyConfig", "version": 3}},
    "rules": [{"match": "re:.*", "use": "row", "optional": True}],
}
ON_CHECKPOINTS = ("validate", "inspect", "verify", "diff", "plan", "quantize", "upgrade")
ON_CONFIGS = ("validate", "explain", "diff", "upgrade", "plan", "quantize")


def prepare(home: Path) -> None:
    """Write the sound files that `run` needs beside the one in question."""
    other = home / "other"
    if not other.exists():
        float_checkpoint(other / "model")
        (other / "any.json").write_text(json.dumps(ANY))


def run(verb: str, path: Path, home: Path, *options: str) -> Result:
    """Call a verb on a checkpoint or config; what it writes is `target` in the folder `home`."""
    target, config, model = home / "target", home / "other" / "any.json", home / "other" / "model"
    if path.suffix == ".json":
        arguments: dict[str, list[object]] = {
            "explain": [path, "layers.0.up"],
            "diff": [path, config],
            "upgrade": [path, target.with_suffix(".json")],
            "plan": [model, path],
            "quantize": [model, target, "--config", path],
        }
    else:
        arguments = {
            "diff": [path, path],
            "upgrade": [path, target],
            "plan": [path, config],
            "quantize": [path, target, "--config", config],
        }
    return call(verb, *arguments.get(verb, [path]), *options)


def state(folder: Path) -> dict[str, str]:
    """Return what lies below a folder: hashes of files, targets of links, kinds of the rest."""
    found = {}
    for home, folders, files in os.walk(folder):
        for name in folders + files:
            path = Path(home, name)
            if path.is_symlink():
                found[str(path)] = f"link to {path.readlink()}"
            elif path.is_file():
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                found[str(path)] = oct(path.lstat().st_mode)
    return found
