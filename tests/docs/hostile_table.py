"""The tables of docs/hostile-files.md: what readers take, and where we differ.

    python -m tests.docs.hostile_table              writes the tables into the page
    python -m tests.docs.hostile_table --measure    measures the libraries that are installed first

Verdicts are kept in `tests/data/hostile/readers.json`, with the release of each library.
"""

import argparse
import importlib
import importlib.metadata
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.docs.torchao_tables import marked
from tests.hostile.foreign_readers import RELEASES, foreign, verdict_apart
from tests.hostile.reader_cases import OURS, Case, cases
from tests.hostile.readers import NONE, REFUSES, TAKES, VERIFY, readers, verdict
from tests.repository.sources import ROOT

PAGE = ROOT / "docs" / "hostile-files.md"
BASELINE = ROOT / "tests" / "data" / "hostile" / "readers.json"
PEERS = ("safetensors", "torchao", "transformers", "compressed-tensors")
REASONS = ROOT / "tests" / "data" / "hostile" / "reasons.json"
_MARKUP = re.compile(r"[|*]")
Verdicts = dict[str, dict[str, str]]


def baseline() -> dict[str, Any]:
    """Return `{"releases": {library: release}, "verdicts": {case: {library: verdict}}}`."""
    stored: dict[str, Any] = json.loads(BASELINE.read_text("utf-8"))
    return stored


def reasons() -> dict[str, str]:
    """Return why we do what we do: by the key of a case, or by its group and number."""
    stored: dict[str, str] = json.loads(REASONS.read_text("utf-8"))
    return stored


def reason(case: Case) -> str:
    """Return why qconfig does with a case what it does.

    Raises:
        KeyError: nobody has written it down.
    """
    found = reasons()
    return found[case.key] if case.key in found else found[f"{case.group} {case.number:02d}"]


def differs(verdicts: Mapping[str, str]) -> bool:
    """Return whether a library takes what we refuse, or refuses what we take."""
    ours = verdicts[OURS] in (REFUSES, VERIFY)
    return any((said == REFUSES) != ours for name, said in verdicts.items() if name != OURS)


def releases() -> Iterator[str]:
    """Yield the table of the libraries."""
    yield from ("| library | release |", "|---|---|")
    found = baseline()["releases"]
    yield from (f"| {name} | {found[name]} |" for name in PEERS)


def table(group: str) -> Iterator[str]:
    """Yield the rows of a group in which a library differs from us."""
    stored: Verdicts = baseline()["verdicts"]
    found = {name for key, each in stored.items() if key.startswith(group) for name in each}
    heads = [name for name in (OURS, *PEERS) if name in found]
    yield f"| input | {' | '.join(heads)} | why |"
    yield "|---|" + "---|" * (len(heads) + 1)
    for case in cases():
        verdicts = stored[case.key]
        if case.group == group and differs(verdicts):
            cells = [_said(case), *(verdicts.get(n, NONE) for n in heads), reason(case)]
            yield f"| {' | '.join(map(_escaped, cells))} |"


def agreed(group: str) -> Iterator[str]:
    """Yield what all that read it refuse, and what all take."""
    stored: Verdicts = baseline()["verdicts"]
    for heading, ours in (("Refused by all that read it", True), ("Taken by all", False)):
        same = [
            _said(case)
            for case in cases()
            if case.group == group
            and not differs(stored[case.key])
            and (stored[case.key][OURS] != TAKES) is ours
        ]
        if same:
            yield f"- {heading}: {'; '.join(map(_escaped, same))}."


TABLES: Mapping[str, Callable[[], Iterator[str]]] = {
    "releases": releases,
    **{
        f"{group} {kind}": partial(make, group)
        for group in ("files", "configs", "torchao tensors")
        for kind, make in (("table", table), ("agreed", agreed))
    },
}
"""By the name in the page's comments."""


def measured(names: tuple[str, ...] = (OURS, "safetensors", "torchao")) -> Verdicts:
    """Return the verdicts of qconfig and of the libraries that tests install."""
    found: Verdicts = {}
    for case in cases():
        with tempfile.TemporaryDirectory() as folder:
            forms = case.make(Path(folder) / "source")
            found[case.key] = {
                name: verdict(name, read, forms)
                for name, read in readers(case).items()
                if name in names
            }
    return found


def _measure_foreign(names: list[str]) -> Verdicts:
    for name in names:
        importlib.import_module(RELEASES[name])  # once, and not in every fork
    os.environ["HF_HUB_OFFLINE"] = "1"
    found: Verdicts = {}
    for case in cases():
        for name, (form, read) in foreign(case).items():
            with tempfile.TemporaryDirectory() as folder:
                forms = case.make(Path(folder) / "source")
                if name in names and form in forms:
                    said = verdict_apart(read, forms[form])
                    found.setdefault(case.key, {})[name] = said
    return found


def measure() -> None:
    """Measure what is installed and keep it; what is not installed stays as it was."""
    installed = {
        d.metadata["Name"].lower().replace("_", "-") for d in importlib.metadata.distributions()
    }
    names = [name for name in RELEASES if name in installed]
    stored = baseline() if BASELINE.exists() else {"releases": {}, "verdicts": {}}
    new = measured()
    others = _measure_foreign(names)
    for key in new:
        old = stored["verdicts"].get(key, {})
        kept = {n: v for n, v in old.items() if n in RELEASES and n not in names}
        new[key] |= kept | others.get(key, {})
    for name in PEERS:
        if name in installed:
            stored["releases"][name] = importlib.metadata.version(name)
    stored["verdicts"] = new
    BASELINE.parent.mkdir(parents=True, exist_ok=True)
    BASELINE.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", "utf-8")


def _said(case: Case) -> str:
    return f"{case.number}: {case.what}" if case.number else case.what


def _escaped(cell: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", cell)


def main() -> None:
    """Write the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    if parser.parse_args().measure:
        measure()
    text = PAGE.read_text(encoding="utf-8")
    for name, lines in TABLES.items():
        match = marked(name, text)
        if match is not None:
            written = "".join(f"{line}\n" for line in lines())
            text = text[: match.start(1)] + written + text[match.end(1) :]
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
