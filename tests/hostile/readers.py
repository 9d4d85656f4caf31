"""What readers make of a hostile input: qconfig, and the libraries that tests install.

A reader is a function of a path. It raises what the library raises, or returns a verdict.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from safetensors import safe_open

from qconfig import load_checkpoint, load_config, verify_checkpoint
from qconfig.errors import QconfigError
from tests.hostile.reader_cases import OURS, Case
from tests.tensors.torchao_peer import quiet_torchao

TAKES, REFUSES, VERIFY, DROPS, HANGS = "takes", "refuses", "verify refuses", "drops", "hangs"
NONE = "–"
Read = Callable[[Path], str | None]

_UNSEEN = frozenset({10, 11, 12, 13, 14, 15, 16, 17, 33, 36, 37, 40, 45, 46, 47, 49, 50})
_LAYOUTS = frozenset({35, 38, 39})
_MAY_BLOCK = frozenset({18, 19, 20, 48})
_SECONDS = 3
_OPEN_ALL = (
    "import sys, safetensors\n"
    "for path in sys.argv[1:]:\n"
    "    with safetensors.safe_open(path, 'np') as file: [*map(file.get_tensor, file.keys())]"
)


def of_qconfig(path: Path) -> str | None:
    """Load with qconfig, then verify; a config is loaded only."""
    if path.suffix == ".json":
        load_config(path)
        return None
    load_checkpoint(path, mmap=False)
    return None if verify_checkpoint(path).ok else VERIFY


def of_safetensors(path: Path) -> None:
    """Load every file of a folder with safetensors."""
    for file in [path] if path.is_file() else sorted(path.glob("*.safetensors")):
        with safe_open(file, "pt") as opened:
            for name in opened.keys():  # noqa: SIM118 - no mapping
                opened.get_tensor(name)


def of_safetensors_apart(path: Path) -> str | None:
    """Do the same in a process of its own, which may wait for ever or be killed."""
    words = [sys.executable, "-c", _OPEN_ALL, *map(str, sorted(path.glob("*.safetensors")))]
    try:
        done = subprocess.run(words, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return HANGS
    return TAKES if done.returncode == 0 else REFUSES


def of_torchao_config(path: Path) -> None:
    """Read a config with torchao."""
    with quiet_torchao():
        from torchao.core.config import config_from_dict

    config_from_dict(json.loads(path.read_text("utf-8")))


def of_torchao(path: Path) -> str | None:
    """Put tensors together with torchao; drops are those that it leaves out."""
    with quiet_torchao():
        from torchao.prototype.safetensors.safetensors_support import unflatten_tensor_state_dict

    with safe_open(path, "pt") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    whole, left = unflatten_tensor_state_dict(tensors, metadata)
    return DROPS if left or {*json.loads(metadata["tensor_names"])} - whole.keys() else None


def readers(case: Case) -> Mapping[str, Read]:
    """Return who reads a case, of those that tests install; forms that one lacks are not here."""
    if case.group == "configs":
        return {OURS: of_qconfig, "torchao": of_torchao_config}
    if case.group == "torchao tensors":
        return {OURS: of_qconfig, "torchao": of_torchao}
    if case.number in _UNSEEN | _LAYOUTS or (case.number, case.what[:8]) == (20, "dangling"):
        return {OURS: of_qconfig}  # an index or our own record, which others do not read
    apart = case.number in _MAY_BLOCK
    return {OURS: of_qconfig, "safetensors": of_safetensors_apart if apart else of_safetensors}


def verdict(reader: str, read: Read, forms: Mapping[str, Path]) -> str:
    """Return what a reader makes of a case, in the reader's own form where there is one.

    qconfig gets torchao's form too, and takes a case if it takes one of the two.

    Raises:
        Exception: qconfig raised what is no error of ours.
    """
    names = (OURS, "torchao") if reader == OURS else (reader,)
    paths = [forms[name] for name in names if name in forms] or [forms[OURS]]
    found = []
    for path in paths:
        try:
            found.append(read(path) or TAKES)
        except Exception as error:
            if reader == OURS and not isinstance(error, QconfigError):
                raise
            found.append(REFUSES)
    return TAKES if TAKES in found else found[0]
