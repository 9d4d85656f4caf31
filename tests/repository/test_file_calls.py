"""Files are written by functions of `os`, which tests can let fail, and by nothing else."""

import ast

import pytest

from tests.repository.sources import modules, tree

# Who may write otherwise, and why.
ALLOWED = {
    "qconfig.codec.documents": "a small document, beside its target and renamed",
    "qconfig.cli.output": "a report: a new file that nobody waits for",
    "qconfig.cli.schema": "schemas, which are made again at any time",
    "qconfig.cli.main": "nothing is written: it stands for a stream that was closed",
    "qconfig.testing.sharding": "messages between the processes of a test",
}
SHUTIL = {"copy", "copy2", "copyfile", "copyfileobj", "copymode", "copystat", "copytree", "move"}
MODES = set("wax+")
MODULES = modules()


def findings(module: ast.Module) -> list[str]:
    """Return the lines that write files in a way that no test can let fail."""
    found = []
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names = {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            copies = node.module == "shutil" and SHUTIL & {a.name for a in node.names}
            names = {"shutil's copies"} if copies else {(node.module or "").partition(".")[0]}
        else:
            names = set()
        found += [f"line {node.lineno}: {n}" for n in names & {"tempfile", "shutil's copies"}]
        if isinstance(node, ast.Call) and (way := writing(node)):
            found.append(f"line {node.lineno}: {way}")
    return found


def writing(call: ast.Call) -> str | None:
    """Return by what a call writes a file, or None where it does not."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in {"write_text", "write_bytes", "touch"}:
        return name
    owner = function.value if isinstance(function, ast.Attribute) else None
    if isinstance(owner, ast.Name) and owner.id == "shutil" and name in SHUTIL:
        return f"shutil.{name}"
    if isinstance(owner, ast.Name) and owner.id == "os":
        return None
    if name in {"open", "fdopen"}:
        # `open(file, mode)` and `path.open(mode)`; what is no text is a mode in no way.
        arguments = [*call.args, *(k.value for k in call.keywords if k.arg == "mode")]
        texts = [a.value for a in arguments if isinstance(a, ast.Constant)]
        modes = [t for t in texts if isinstance(t, str) and set(t) <= set("rwaxbt+") and t]
        return "open" if any(MODES & set(mode) for mode in modes) else None
    return None


@pytest.mark.parametrize("name", sorted(set(MODULES) - set(ALLOWED)))
def test_files_are_written_by_calls_that_can_fail(name):
    """No module opens a file for writing, copies one or makes a temporary one by other means."""
    assert not findings(tree(MODULES[name]))


@pytest.mark.parametrize("name", ALLOWED)
def test_the_list_is_short(name):
    """Who is on the list needs to be."""
    assert findings(tree(MODULES[name]))


@pytest.mark.parametrize(
    "text",
    [
        "open(path, 'w')",
        "path.open('xb')",
        "path.open(mode='a')",
        "path.write_bytes(b'')",
        "path.touch()",
        "shutil.copyfile(a, b)",
        "import tempfile",
        "from tempfile import mkstemp",
        "from shutil import move",
    ],
)
def test_other_ways_are_seen(text):
    """The test above sees what it looks for."""
    assert findings(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    ["os.open(path, os.O_WRONLY)", "path.open()", "open(path, 'rb')", "shutil.rmtree(path)"],
)
def test_reading_is_nothing(text):
    """What reads, and what goes through `os`, is no finding."""
    assert not findings(ast.parse(text))
