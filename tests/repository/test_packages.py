"""What is shipped: the list of packages, and modules that import."""

import importlib
import tomllib

import pytest

from tests.repository.sources import LIBRARY, ROOT, modules

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_packages_are_the_folders():
    """pyproject.toml names exactly the folders that hold Python modules."""
    listed = PROJECT["tool"]["setuptools"]["packages"]
    found = {
        name if path.name == "__init__.py" else name.rpartition(".")[0]
        for name, path in modules().items()
    }
    assert listed == sorted(found)


@pytest.mark.parametrize("folder", LIBRARY)
def test_folders_are_packages(folder):
    """Every folder with modules has an __init__.py, so that setuptools ships it."""
    bare = {
        str(path.parent.relative_to(ROOT))
        for path in (ROOT / folder).rglob("*.py")
        if not (path.parent / "__init__.py").exists()
    }
    assert not bare


@pytest.mark.parametrize("name", modules())
def test_module_imports(name):
    """Every module can be imported by itself."""
    importlib.import_module(name)


def test_torch_is_pinned():
    """What the tests run on is pinned, torch and its peers above all."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert pins["torch"] == "2.13.0"
    assert pins["torchao"] == "0.18.0"
