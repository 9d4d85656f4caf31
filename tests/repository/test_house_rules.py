"""The rules of style that no linter holds."""

import ast
import re
import statistics
from pathlib import Path

import pytest

from tests.repository.sources import ROOT, files_of_tests, modules, own_files, tree

MODULES = modules()
MAX_LINES, MEDIAN_LINES = 400, 150


def lines(path: Path) -> int:
    """Return the number of lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("name", MODULES)
def test_module_is_small(name):
    """No module has more than 400 lines."""
    assert lines(MODULES[name]) <= MAX_LINES


def test_modules_are_small_on_the_whole():
    """Half of the modules have fewer than 150 lines."""
    assert statistics.median(map(lines, MODULES.values())) < MEDIAN_LINES


def test_no_drawers():
    """Every module has a subject: there is no utils, helpers, common or misc."""
    drawers = {"utils", "util", "helpers", "common", "misc"}
    assert not [name for name in MODULES if drawers & set(name.split("."))]


@pytest.mark.parametrize("name", MODULES)
def test_no_forbidden_statement(name):
    """Library code has no star import, no assert, and no except that names nothing."""
    found = []
    for node in ast.walk(tree(MODULES[name])):
        if isinstance(node, ast.ImportFrom) and any(a.name == "*" for a in node.names):
            found.append(f"line {node.lineno}: star import")
        elif isinstance(node, ast.Assert):
            found.append(f"line {node.lineno}: assert, which -O removes; raise an error of ours")
        elif isinstance(node, ast.ExceptHandler) and node.type is None:
            found.append(f"line {node.lineno}: bare except")
    assert not found


@pytest.mark.parametrize("name", MODULES)
def test_nothing_is_left_to_do(name):
    """Library code has no notes about work that remains; those belong in the issue tracker."""
    text = MODULES[name].read_text(encoding="utf-8")
    assert not re.findall(r"\b(?:TODO|FIXME|XXX|HACK)\b", text)


@pytest.mark.parametrize("name", MODULES)
def test_public_things_have_docstrings(name):
    """Every public module, class, function and method says what it does."""
    module = tree(MODULES[name])
    if not module.body:
        return
    missing = [] if ast.get_docstring(module) else ["the module"]

    def visit(node: ast.Module | ast.ClassDef, prefix: str) -> None:
        for child in node.body:
            kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            if not isinstance(child, kinds) or child.name.startswith("_") or _is_setter(child):
                continue
            if not ast.get_docstring(child):
                missing.append(prefix + child.name)
            if isinstance(child, ast.ClassDef):
                visit(child, f"{prefix}{child.name}.")

    visit(module, "")
    assert not missing


def _is_setter(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function repeats one that has its docstring elsewhere."""
    return any(
        (isinstance(d, ast.Attribute) and d.attr in ("setter", "deleter"))
        or (isinstance(d, ast.Name) and d.id in ("overload", "override"))
        for d in node.decorator_list
    )


@pytest.mark.parametrize("path", files_of_tests(), ids=lambda p: str(p.relative_to(ROOT)))
def test_every_test_states_its_claim(path):
    """Every test function has a docstring of one sentence."""
    unclear = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            doc = ast.get_docstring(node) or ""
            if not re.fullmatch(r"[^\s](?:(?![.!?]\s+[A-Z])(?!\n\n).)*[.…]", doc, re.DOTALL):
                unclear.append(f"line {node.lineno}: {node.name}")
    assert not unclear


# Places that exist on one machine only, and hosts from which packages come. Patterns do not match
# themselves. What others wrote (data for tests) is left as it is.
PLACES = {
    "a folder of one machine": r"(?<![\w.~*>}-])/(?:home|mnt|opt|root|srv|work|Users)/[\w.-]",
    "an interpreter's folder": r"\.pyenv[/\\]|site-packages/[a-z]",
    "a package index": r"\b(?:pypi|pythonhosted|npmjs|anaconda)\.(?:org|com)\b"
    r"|download\.pytorch\.org|whl/(?:cpu|cu\d)|(?:extra-)?index-url\s*[= ]\s*[\"']?https?:",
}
TEXT = {".cfg", ".in", ".json", ".md", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml", ""}


def test_nothing_names_one_machine():
    """No file names a folder of somebody's machine or a host of a package registry."""
    found = []
    for path in own_files():
        place = path.relative_to(ROOT)
        if path.suffix not in TEXT or place.parts[:2] in (("tests", "data"), ("tests", "golden")):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found += [
                f"{place}:{number} names {what}: {line.strip()[:80]}"
                for what, pattern in PLACES.items()
                if re.search(pattern, line)
            ]
    assert not found


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("open('/" + "home/ada/x.json')", "a folder of one machine"),
        ("see /" + "work/main", "a folder of one machine"),
        ("index-url" + " = https://example.org/simple", "a package index"),
        ("https://py" + "pi.org/project/qconfig", "a package index"),
    ],
)
def test_a_place_is_seen(text, what):
    """The test above sees the places it looks for."""
    assert re.search(PLACES[what], text)
