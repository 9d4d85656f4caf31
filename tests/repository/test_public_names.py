"""The public API: `qconfig.__all__`, sorted, importable, documented, and cheap to import."""

import subprocess
import sys

import pytest

import qconfig
from tests.repository.sources import modules

NAMES = list(getattr(qconfig, "__all__", ()))

# Rooms that work on documents, names and shapes; with torch they would not answer in 0.4 s.
TORCH_FREE = ("errors", "versioning", "codec", "configs", "layouts", "rules", "migrations")


def test_all_is_sorted():
    """`__all__` is sorted and names nothing twice."""
    assert sorted(set(NAMES)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_name_exists_and_is_documented(name):
    """Every public name exists, and what can be called says what it does."""
    value = getattr(qconfig, name)
    if callable(value):
        assert value.__doc__


def test_nothing_public_is_unlisted():
    """A class or function of ours that `import qconfig` shows is listed or private."""
    shown = {
        name
        for name, value in vars(qconfig).items()
        if callable(value)
        and not name.startswith("_")
        and str(getattr(value, "__module__", "")).startswith("qconfig")
    }
    assert shown <= set(NAMES)


def first_to_import(culprit: str, names: list[str]) -> str | None:
    """Import modules in turn in a new process; return the first that brings `culprit` in."""
    code = (
        "import importlib, sys\n"
        f"for name in {names!r}:\n"
        "    importlib.import_module(name)\n"
        f"    if {culprit!r} in sys.modules:\n"
        "        sys.exit(name)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return run.stderr.strip() or None


def test_documents_need_no_torch():
    """Neither `import qconfig` nor any module that works on documents imports torch."""
    names = [
        name for name in modules() if name.split(".")[1:2] and name.split(".")[1] in TORCH_FREE
    ]
    assert first_to_import("torch", ["qconfig", *names, "qconfig.builders.base"]) is None


def test_an_import_of_torch_is_seen():
    """The test above names the module at fault."""
    assert first_to_import("json", ["string", "json.tool", "os"]) == "json.tool"


def test_the_registry_fills_without_torch():
    """Looking up a class loads every config, layout and step, and still no torch."""
    code = (
        "import sys, qconfig\n"
        "from qconfig.versioning import registry\n"
        "list(registry.entries()), list(registry.steps())\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
