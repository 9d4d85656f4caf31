"""Imports run one way: a room imports the rooms before it in the list, never one after it."""

import ast
from pathlib import Path

import pytest

from tests.repository.sources import modules, tree

# The rooms of docs/architecture.md, lowest first. The facade is qconfig/__init__.py and the other
# modules beside it: what users import, which only the outermost rooms may import in turn.
FACADE = "facade"
ROOMS = (
    "errors",
    "limits",
    "versioning",
    "codec",
    "configs",
    "layouts",
    "tensors",
    "modules",
    "builders",
    "calibration",
    "rules",
    "engine",
    "checkpoints",
    "dialects",
    FACADE,
    "integrations",
    "testing",
    "cli",
)
# Two folders stand beside the list. Steps are reached through the registry, which the catalog
# fills, but a dialect says which retired class a foreign form is; schemas are files, read by the
# outermost rooms.
BESIDE = {
    "migrations": {"errors", "limits", "versioning", "codec", "configs", "layouts", "rules"},
    "schemas": {"errors", "versioning"},
}


def room_of(module: str) -> str:
    """Return the room of a dotted module name that starts with qconfig."""
    parts = module.split(".")
    if len(parts) == 1:
        return FACADE
    return parts[1] if parts[1] in BESIDE or parts[1] in ROOMS else FACADE


def imported(code: ast.Module, package: str, known: set[str]) -> list[tuple[int, str]]:
    """Return line and module of every import of qconfig, those in functions and by name included.

    Args:
        code: the importing module.
        package: its package, for relative imports.
        known: all modules, which tell `from package import module` from a name in the package.
    """
    found: list[tuple[int, str]] = []
    for node in ast.walk(code):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *([node.module] if node.module else [])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.append((node.lineno, full if full in known else base))
        elif isinstance(node, ast.Call) and _is_import_module(node.func) and node.args:
            argument = node.args[0]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                found.append((node.lineno, argument.value))
    return [(line, name) for line, name in found if name.split(".")[0] in ("qconfig", *BESIDE)]


def _is_import_module(function: ast.expr) -> bool:
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", None)
    return name in ("import_module", "__import__")


def _may_import(own: str, other: str) -> bool:
    if own in BESIDE:
        return other in BESIDE[own]
    if other == "migrations":
        return own in (FACADE, "dialects")
    if other == "schemas":
        return ROOMS.index(own) >= ROOMS.index(FACADE)
    return ROOMS.index(other) < ROOMS.index(own)


def violations(name: str, path: Path, code: ast.Module) -> list[str]:
    """Return every import of `name` that runs the wrong way, in words."""
    own = room_of(name)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    wrong = []
    for line, target in imported(code, package, set(modules())):
        if target.split(".")[0] in BESIDE:
            wrong.append(f"{name}:{line} imports {target}; it is qconfig.{target}")
            continue
        other = room_of(target)
        if other != own and not _may_import(own, other):
            wrong.append(f"{name}:{line} ({own}) imports {target} ({other})")
    return wrong


@pytest.mark.parametrize("name", modules())
def test_imports_run_down(name):
    """No module imports a room after its own, be it inside a function or for types only."""
    path = modules()[name]
    assert violations(name, path, tree(path)) == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("qconfig.errors", "from qconfig.versioning import registry"),
        ("qconfig.versioning.registry", "from qconfig import codec"),
        ("qconfig.versioning.registry", "from ..codec import dtypes"),
        ("qconfig.codec.converter", "def f():\n    import qconfig.configs.int8"),
        (
            "qconfig.configs.int8",
            "if TYPE_CHECKING:\n    from qconfig.layouts import Int8TensorLayout",
        ),
        ("qconfig.layouts.int8", "from qconfig.migrations.int8_tensor_layout import X"),
        ("qconfig.layouts.int8", "import qconfig"),
        ("qconfig.engine.plan", "importlib.import_module('qconfig.cli')"),
        ("qconfig.migrations.fqn_to_config", "from qconfig.engine import plan"),
        ("qconfig.schemas", "from qconfig import codec"),
        ("qconfig.codec.converter", "from qconfig.schemas import read_schema"),
        ("qconfig.cli.main", "import migrations.fqn_to_config"),
    ],
)
def test_a_violation_is_seen(name, source):
    """The test above sees every form of an import that runs the wrong way."""
    assert len(violations(name, Path("module.py"), ast.parse(source))) == 1


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("qconfig.cli.main", "from qconfig import errors\nimport qconfig"),
        ("qconfig.migrations.fqn_to_config", "from qconfig.rules.patterns import is_exact"),
        ("qconfig.catalog", "import_module('qconfig.migrations')"),
        ("qconfig.cli.schema", "from qconfig.schemas import read_schema"),
        ("qconfig.schemas", "from qconfig.versioning.registry import registry"),
        ("qconfig.codec.converter", "from . import limits\nimport json\nimport qconfig_plugin"),
    ],
)
def test_a_lawful_import_passes(name, source):
    """The test above lets through what runs down, stays within a room or is not ours."""
    assert violations(name, Path("module.py"), ast.parse(source)) == []
