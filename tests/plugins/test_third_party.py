"""A family of another package: one class, one builder and one step, and nothing else.

`sketch/` is installed into a folder of its own, with the metadata that an installer writes, and
used in another process: the registry of this one stays as it is.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qconfig.versioning import registry

HERE = Path(__file__).parent
COMMAND = "from qconfig.cli.main import main; main()"
METADATA = "Metadata-Version: 2.1\nName: sketch\nVersion: 1.0\n"


def install(folder: Path, entry_point: str) -> Path:
    """Put `sketch` into a folder that Python can be pointed at, as an installer does."""
    shutil.copytree(HERE / "sketch", folder / "sketch", ignore=shutil.ignore_patterns("*.pyc"))
    metadata = folder / "sketch-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(METADATA, encoding="utf-8")
    (metadata / "entry_points.txt").write_text(
        f"[qconfig]\nsketch = {entry_point}\n", encoding="utf-8"
    )
    return folder


def run(site: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run Python with the folder on its path."""
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the package in it."""
    return install(tmp_path_factory.mktemp("site"), "sketch.classes")


@pytest.fixture(scope="module")
def session(site, tmp_path_factory):
    """What a user of the package gets, see `session.py`."""
    folder = tmp_path_factory.mktemp("session") / "work"
    done = run(site, str(HERE / "session.py"), str(folder))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_documents_are_read_and_upgraded(session):
    """A document of version 1 becomes one of version 2 by the package's step."""
    assert session["documents"]["upgraded"] == {"type": "SketchConfig", "version": 2, "bits": 7}


def test_documents_are_checked(session):
    """Every problem of a document is found, as for our own configs."""
    assert sorted(session["documents"]["problems"]) == ["/bit", "/bits"]


def test_errors_of_a_constructor_are_placed(session):
    """A ValueError of the class becomes a problem of the document, at its place."""
    assert session["documents"]["refused"] == {
        "error": "FieldError",
        "message": "3 bits have no kernel",
        "pointer": "/configs/a",
    }


def test_schemas_follow_from_the_classes(session):
    """Both versions have schemas, and stand in the schema of all configs."""
    assert session["documents"]["bits"] == {
        "description": "Bits of a code.",
        "type": "integer",
        "minimum": 2,
        "maximum": 8,
        "default": 8,
    }
    assert session["documents"]["combined"] == [True, True]


def test_plan_and_quantize_agree(session):
    """The plan of a mixed config is what `quantize_` does."""
    assert session["live"]["planned"]
    assert session["live"]["explained"] == "0.weight: gets sketch by rule 0"


def test_checkpoint_is_loaded_into_its_tensor_class(session):
    """A saved model is loaded again, bit for bit, beside a family of ours."""
    assert session["live"]["classes"] == ["SketchTensor", "Int8Tensor"]
    assert session["live"]["equal"]


def test_checkpoint_is_inspected_and_verified(session):
    """Inspection and verification know the layout, though it says nothing but its fields."""
    assert session["live"]["layouts"]["0.weight"] == "SketchLayout"
    assert session["live"]["problems"] == []


def test_shards_are_quantized(session):
    """`quantize_checkpoint` gives what `quantize_` gives."""
    assert session["shards"]["equal"]


def test_old_checkpoint_is_upgraded(session):
    """A checkpoint of the first layout loads, and is upgraded by the package's step."""
    assert session["old"] == {"versions": [1, 2], "values": True}


def test_family_conforms(session):
    """The conformance kit finds nothing wrong with a tensor that says what its values are."""
    assert session["failed_checks"] == []


def test_command_line_knows_the_family(site):
    """`qconfig history` shows the package's versions and steps."""
    done = run(site, "-c", COMMAND, "history", "SketchLayout", "--json")
    assert done.returncode == 0, done.stderr
    assert "SketchLayout" in done.stdout
    assert "keep_dimensions" in done.stdout or "Rename the codes" in done.stdout


BROKEN = [
    ("sketch.nowhere", "", "ModuleNotFoundError: No module named 'sketch.nowhere'"),
    ("sketch.broken", "1 / 0", "ZeroDivisionError: division by zero"),
    (
        "sketch.broken",
        "from qconfig import register_config\nregister_config('Broken', 1)(int)",
        "must be a class that derives from Config",
    ),
    (
        "sketch.broken",
        (
            "from sketch.configs import SketchConfig\n"
            "from attrs import frozen\n"
            "from qconfig import register_config\n"
            "register_config('SketchConfig', 3)(frozen(type('Third', (SketchConfig,), {})))"
        ),
        "there is no step from SketchConfig v2 to v3",
    ),
]


@pytest.mark.parametrize(("entry_point", "module", "message"), BROKEN)
def test_broken_package_is_named_each_time(tmp_path, entry_point, module, message):
    """A package that cannot be loaded fails every call with its name; nothing is half there."""
    site = install(tmp_path, entry_point)
    (site / "sketch" / "broken.py").write_text(module, encoding="utf-8")
    code = "import qconfig\nfor _ in range(2): print(*qconfig.validate_config({'type': 'X'}))"
    done = run(site, "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(message) == 2


def test_this_process_knows_nothing_of_it():
    """What another process has installed is not registered here."""
    assert "SketchConfig" not in {entry.name for entry in registry.entries()}
