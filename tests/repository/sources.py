"""The files of the repository as its tests see them."""

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Folders whose modules the library consists of, with the package that each is.
LIBRARY = {"qconfig": "qconfig", "migrations": "qconfig.migrations", "schemas": "qconfig.schemas"}


def modules() -> dict[str, Path]:
    """Return the library's modules by dotted name, `qconfig.migrations` included."""
    found = {}
    for folder, package in LIBRARY.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join([package, *parts]).removesuffix(".__init__")
            found[name] = path
    return found


@cache
def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def files_of_tests() -> list[Path]:
    """Return every file of tests."""
    return sorted((ROOT / "tests").rglob("test_*.py"))


def own_files() -> list[Path]:
    """Return what was written for this repository: git's files where git knows, else all."""
    skipped = {".git", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", "__pycache__"}
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0 and listed.stdout:
        paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    else:
        paths = [
            p
            for p in ROOT.rglob("*")
            if not any(part in skipped or part.startswith(".venv") for part in p.parts)
        ]
    return sorted(p for p in paths if p.is_file())
