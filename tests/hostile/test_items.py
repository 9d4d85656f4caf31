"""Each hostile input of `items`, through every verb of the command line that could read it."""

import shutil
from pathlib import Path

import pytest

from tests.cli.calls import call
from tests.hostile import samples as s
from tests.hostile.calls import prepare, run, state
from tests.hostile.items import ITEMS
from tests.hostile.more_documents import DOCUMENTS
from tests.hostile.more_files import FILES
from tests.hostile.more_records import RECORDS

ALL = [*ITEMS, *FILES, *RECORDS, *DOCUMENTS]


@pytest.mark.parametrize("item", ALL, ids=lambda i: f"{i.number:02d} {i.what}")
def test_item(item, tmp_path):
    """An item gets its exit code and its words from every verb, and leaves everything as it was."""
    path = item.make(tmp_path / "source")
    for verb in item.verbs:
        prepare(tmp_path)
        before = state(tmp_path)
        result = run(verb, path, tmp_path, *item.options)
        said = result.stderr + result.stdout
        code = item.but.get(verb, item.code)
        assert result.exit_code == code, f"{verb}: {said}"
        if code == item.code or verb == "verify":
            assert [w for w in item.words if w not in said] == [], f"{verb}: {said}"
        assert [c for c in said if not (c.isprintable() or c == "\n")] == [], verb
        after = state(tmp_path)
        written = {p: v for p, v in after.items() if not p.startswith(str(tmp_path / "target"))}
        assert written == before, verb
        if code in (2, 3):
            assert after == before, verb
        # What was never quantized can be in the form of torchao, and be noted as odd.
        remove(tmp_path / "target", *((0, 1) if verb == "convert" else (0,)))


def remove(target: Path, *codes: int) -> None:
    """Remove what a verb wrote, after a look at whether it is sound."""
    if target.exists():
        assert call("verify", target, "--strict").exit_code in codes
        shutil.rmtree(target)
    target.with_suffix(".json").unlink(missing_ok=True)


@pytest.mark.parametrize("target", ["source", "source/new", "source/model.safetensors", "."])
def test_item_21(target, tmp_path):
    """A target that is the source, lies in it or holds it is a usage error for both verbs."""
    source = s.single(lambda _: None)(tmp_path / "source")
    old = s.old()(tmp_path / "old")
    config = tmp_path / "any.json"
    config.write_text('{"type": "Int8WeightOnlyConfig", "version": 3}')
    before = state(tmp_path)
    calls = (
        ("quantize", source, tmp_path / target, "--config", config),
        ("upgrade", old, tmp_path / target.replace("source", "old")),
    )
    for words in calls:
        result = call(*words)
        assert result.exit_code == 2
        assert "the target exists" in result.stderr or "overlap" in result.stderr
        assert state(tmp_path) == before


def test_every_item_is_here():
    """The table has all items of the page, apart from 21, which is about targets."""
    assert {i.number for i in ITEMS} | {21} == set(range(1, 41))
