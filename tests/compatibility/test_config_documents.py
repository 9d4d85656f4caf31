"""Every config document of the collection is read, or refused by its name; counted in the docs.

Without the collection the documents are skipped. `tests/data/torchao/config_table.json` has, by
release and fixture, whether qconfig reads it and torchao's code (see `LOAD_TABLE.md` there); with
QCONFIG_WRITE_TABLE set, the test that counts writes it anew.
"""

import json
import os
from collections import Counter
from typing import Any

import pytest

from qconfig import config_from_dict
from qconfig.errors import QconfigError
from tests.compatibility.load_docs import PAGE, put
from tests.torchao_files import CORPUS, DATA

TABLE = DATA / "config_table.json"
ROWS: dict[str, dict[str, list[str]]] = json.loads(TABLE.read_text("utf-8"))
FILES = sorted(CORPUS.glob("torchao/*/*configs*.json"))


def documents() -> list[Any]:
    """Return release, name and document of each that a release wrote."""
    found = []
    for file in FILES:
        for name, entry in json.loads(file.read_text("utf-8")).items():
            form = entry.get("config_json", entry) if isinstance(entry, dict) else None
            if isinstance(form, dict) and "_type" in form:
                release, place = file.parent.name, f"{file.stem}/{name}"
                found.append(pytest.param(release, place, form, id=f"{release}/{place}"))
    return found


DOCUMENTS = documents()


def state_of(document: Any) -> str:
    """Return whether a document is read."""
    try:
        config_from_dict(document)
    except QconfigError:
        return "refused"
    return "read"


def torchaos_codes() -> dict[tuple[str, str], str]:
    """Return what torchao 0.18 does with each fixture's document, by release and recipe."""
    text = (CORPUS / "torchao" / "LOAD_TABLE.md").read_text("utf-8").split("\n### ")[3]
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line[:1] == "|"]
    codes = {}
    for name, *cells in lines[2:]:
        for release, code in zip(lines[0][1:], cells, strict=True):
            if code != ".":
                codes[release, "configs/" + name.partition("/")[0]] = code
    return codes


@pytest.mark.skipif(not DOCUMENTS, reason="the collection is not beside the repository")
@pytest.mark.parametrize(("release", "name", "document"), DOCUMENTS)
def test_no_document_worsens(release: str, name: str, document: Any) -> None:
    """What was read once is read; nothing raises anything but our errors."""
    before = ROWS.get(release, {}).get(name, ["refused"])[0]
    assert state_of(document) == "read" or before == "refused"


@pytest.mark.skipif(not DOCUMENTS, reason="the collection is not beside the repository")
def test_the_table_has_every_document() -> None:
    """The table is that of the documents of today."""
    codes = torchaos_codes()
    rows: dict[str, dict[str, list[str]]] = {}
    for release, name, document in (p.values for p in DOCUMENTS):
        code = codes.get((release, name), "")
        rows.setdefault(release, {})[name] = [state_of(document), code]
    if os.environ.get("QCONFIG_WRITE_TABLE"):
        TABLE.write_text(json.dumps(rows, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
        PAGE.write_text(put(PAGE, "config table", "\n".join(page_table(rows))), "utf-8")
    assert rows == ROWS


def page_table(rows: dict[str, dict[str, list[str]]]) -> list[str]:
    """Return the table for the page on old checkpoints."""
    head = "| torchao | documents compared | torchao 0.18 decodes | and applies as it was meant |"
    lines = [f"{head} qconfig reads | of all documents |", "|---|" + "---:|" * 5]
    for release in sorted(rows, key=lambda r: [int(n) for n in r.split(".")]):
        each = list(rows[release].values())
        compared = [(state, code) for state, code in each if code]
        if not compared:
            continue
        decodes = sum(code[:1] != "X" for _, code in compared)
        applies = sum(code.endswith(("/=", "/hw")) for _, code in compared)
        ours = Counter(state for state, _ in compared)["read"]
        all_read = Counter(state for state, _ in each)["read"]
        cells = [len(compared), decodes, applies, ours, f"{all_read} of {len(each)}"]
        lines.append(f"| {release} | {' | '.join(map(str, cells))} |")
    return lines


def test_the_page_shows_the_table() -> None:
    """The page on old checkpoints has these numbers."""
    text = PAGE.read_text("utf-8")
    assert put(PAGE, "config table", "\n".join(page_table(ROWS))) == text
    assert page_table(ROWS)[-1] in text
