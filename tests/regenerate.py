"""Write the files that follow from the classes: `python -m tests.regenerate`.

It writes what is missing and never changes what a release has fixed:

- `schemas/<name>/v<n>.json` and `schemas/qconfig.json`. A released file changes only where no
  document can notice (see `qconfig.versioning.released`).
- `schemas/released/<release>.json` and its line in `SHA256SUMS`, for the version in pyproject.toml.
- `tests/golden/<name>/v<n>/<case>.upgraded.json` beside every `<case>.json`, and examples for a
  version that has no case yet. Cases with a name are better: add a `<case>.json` by hand and run
  this once more.
- `<case>.safetensors` and `<case>.upgraded.safetensors` beside every golden document of a layout.
- What is upgraded, once more, when a version is raised: but only if the new steps make of it what
  all steps make of the case. Otherwise it stays, and a test fails.

To remake something that no release holds yet, delete the file and run this again; before the first
release of a version that includes its snapshot.
"""

import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import NoSuchExample

from qconfig.codec import strict_json
from qconfig.codec.converter import structure_as_written, unstructure
from qconfig.versioning import Entry, Kind, registry
from qconfig.versioning.released import (
    LOCK_NAME,
    Tree,
    digest,
    findings,
    lock_text,
    parse_lock,
    snapshot_text,
    writable,
)
from qconfig.versioning.schema import COMBINED_PATH, all_schemas, combined_schema, schema_text
from tests.golden_checkpoints import golden_checkpoints
from tests.strategies import documented_entries, instances

ROOT = Path(__file__).parents[1]
SCHEMAS = ROOT / "schemas"
GOLDEN = ROOT / "tests" / "golden"
EXAMPLES = 3
_VERSION = re.compile(r'"version": \d+')

Files = Iterator[tuple[Path, bytes]]


def package_version() -> str:
    """Return the version in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["version"])


def schema_tree() -> Tree:
    """Return what lies in `schemas/`, and what the classes give."""
    entries = documented_entries()
    released = SCHEMAS / "released"
    lock = released / LOCK_NAME
    return Tree(
        files={
            path.relative_to(SCHEMAS).as_posix(): path.read_bytes()
            for path in SCHEMAS.glob("*/v*.json")
        },
        generated=all_schemas(entries),
        current=frozenset(e.schema_path for e in entries if registry.is_current(e)),
        snapshots={path.stem: path.read_bytes() for path in released.glob("*.json")},
        lock=parse_lock(lock.read_text("utf-8")) if lock.exists() else {},
    )


def schemas() -> Files:
    """Yield the schema files that no release has fixed in another form."""
    for path, text in writable(schema_tree()).items():
        yield SCHEMAS / path, text.encode()
    yield SCHEMAS / COMBINED_PATH, schema_text(combined_schema()).encode()


def snapshot() -> Files:
    """Yield the snapshot of the version in pyproject.toml, if it is missing, and the lock."""
    tree, version = schema_tree(), package_version()
    lock = {release: digest(text) for release, text in tree.snapshots.items()} | tree.lock
    if ".dev" not in version and version not in tree.snapshots:
        now = {path: strict_json.loads(text) for path, text in tree.files.items()}
        text = snapshot_text(version, now).encode()
        lock[version] = digest(text)
        yield SCHEMAS / "released" / f"{version}.json", text
    yield SCHEMAS / "released" / LOCK_NAME, lock_text(lock).encode()


def golden_folder(entry: Entry) -> Path:
    """Return where the golden documents of a version lie."""
    return GOLDEN / entry.schema_path.removesuffix(".json")


def golden_cases(entry: Entry) -> list[Path]:
    """Return the golden documents of a version as they were written."""
    found = golden_folder(entry).glob("*.json")
    return sorted(path for path in found if not path.name.endswith(".upgraded.json"))


def upgraded_text(case: Path, entry: Entry) -> str:
    """Return the golden document brought to the current version, as text."""
    written = structure_as_written(strict_json.loads(case.read_bytes()), entry.kind)
    return strict_json.dumps(unstructure(registry.convert(written)))


def is_superseded(case: Path, entry: Entry) -> bool:
    """Say if the upgraded document is of an older version, and leads where the case leads."""
    written = case.with_suffix(".upgraded.json")
    today = upgraded_text(written, entry)
    raised = _VERSION.findall(written.read_text("utf-8")) != _VERSION.findall(today)
    return raised and today == upgraded_text(case, entry)


def golden_documents() -> Files:
    """Yield examples for versions without a case, and upgraded documents missing or superseded."""
    for entry in documented_entries():
        cases = golden_cases(entry)
        if not cases:
            yield from _examples(entry)
    for entry in documented_entries():
        for case in golden_cases(entry):
            target = case.with_suffix(".upgraded.json")
            if not target.exists() or is_superseded(case, entry):
                yield target, upgraded_text(case, entry).encode()


def _examples(entry: Entry) -> Files:
    seen: list[str] = []
    quick = settings(
        max_examples=500,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    def text_of(value: object) -> str:
        return strict_json.dumps(unstructure(value))

    for number in range(EXAMPLES):
        # Longer texts set more of the optional fields.
        least = 1 + max(map(len, seen), default=0)
        longer = instances(entry).map(text_of).filter(partial(_is_longer, least))
        try:
            seen.append(find(longer, bool, settings=quick))
        except NoSuchExample:
            return
        yield golden_folder(entry) / f"example_{number}.json", seen[-1].encode()


def layout_checkpoints() -> Files:
    """Yield the golden checkpoints that are missing."""
    layouts = [e for e in documented_entries() if e.kind is Kind.LAYOUT]
    yield from golden_checkpoints(case for e in layouts for case in golden_cases(e))


def _is_longer(least: int, text: str) -> bool:
    return len(text) >= least


PRODUCERS: list[Callable[[], Files]] = [schemas, snapshot, golden_documents, layout_checkpoints]
"""What writes files; a later one may read what an earlier one wrote."""


def main() -> int:
    """Write what is missing; return 1 if a rule of `qconfig.versioning.released` is broken."""
    for producer in PRODUCERS:
        for path, text in producer():
            if path.exists() and path.read_bytes() == text:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
            sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")
    broken = findings(schema_tree(), package_version())
    sys.stderr.write("".join(f"{finding}\n" for finding in broken))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
