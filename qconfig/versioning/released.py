"""What a release has fixed for good.

Each release has a snapshot, `schemas/released/<release>.json`: every schema of that release. A file
of checksums beside them locks the snapshots themselves. The rules:

- A snapshot never changes, and none is lost.
- A version that is no longer current keeps the very schema of its last snapshot.
- A current version may differ from every snapshot it is in, but only so that all documents of
  that time stay valid and keep their meaning.
- A class accepts what its file says, or more: an enum that several versions share may grow.
- Every registered version has a schema file, and every release a snapshot.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from attrs import frozen

from qconfig.versioning.breaking import breaking_changes
from qconfig.versioning.schema import schema_text
from qconfig.versioning.schema_types import Schema

LOCK_NAME = "SHA256SUMS"
COMMAND = "python -m tests.regenerate"


@frozen
class Finding:
    """A rule that is broken.

    Args:
        path: the file below `schemas/`.
        message: what is wrong and what to do.
    """

    path: str
    message: str

    def __str__(self) -> str:
        return f"schemas/{self.path}: {self.message}"


@frozen
class Tree:
    """What lies in `schemas/`, and what the registered classes give.

    Args:
        files: texts of the schema files, by path.
        generated: schemas of the registered classes, by path.
        current: paths of the newest version of each name.
        snapshots: texts of the snapshots, by release.
        lock: SHA-256 of each snapshot, by release.
    """

    files: Mapping[str, bytes]
    generated: Mapping[str, Schema]
    current: frozenset[str]
    snapshots: Mapping[str, bytes]
    lock: Mapping[str, str]

    @cached_property
    def released(self) -> dict[str, dict[str, Schema]]:
        """The schemas of each release that has a snapshot, by release and path."""
        return {release: json.loads(text)["schemas"] for release, text in self.snapshots.items()}


def findings(tree: Tree, package_version: str) -> list[Finding]:
    """Return all breaches of the rules; empty is good.

    Args:
        tree: files and classes.
        package_version: the version in `pyproject.toml`; one with `.dev` needs no snapshot.
    """
    found = [*_snapshots(tree), *_files(tree)]
    for release, schemas in tree.released.items():
        for path, schema in schemas.items():
            found += _against_release(tree, release, path, schema)
    if ".dev" not in package_version and package_version not in tree.snapshots:
        found.append(
            Finding(
                f"released/{package_version}.json",
                f"release {package_version} has no snapshot; run: {COMMAND}",
            )
        )
    return found


def _snapshots(tree: Tree) -> Iterator[Finding]:
    for release in sorted({*tree.snapshots, *tree.lock}):
        path = f"released/{release}.json"
        text, locked = tree.snapshots.get(release), tree.lock.get(release)
        if text is None:
            yield Finding(path, "a released snapshot is gone; restore it from git")
        elif locked is None:
            yield Finding(path, f"the snapshot is not in {LOCK_NAME}; run: {COMMAND}")
        elif digest(text) != locked:
            yield Finding(path, "a released snapshot has changed; restore it from git")


def _files(tree: Tree) -> Iterator[Finding]:
    released = {path for schemas in tree.released.values() for path in schemas}
    for path, schema in tree.generated.items():
        text = tree.files.get(path)
        if text is None:
            yield Finding(path, f"a registered version has no schema file; run: {COMMAND}")
        elif text.decode() == schema_text(schema):
            continue
        elif path in tree.current or path not in released:
            yield Finding(path, f"the file differs from the class; run: {COMMAND}")
        else:
            for change in breaking_changes(json.loads(text), schema):
                yield Finding(path, f"the class of a retired version has changed: {change}")
    for path in sorted({*tree.files} - {*tree.generated}):
        yield Finding(path, "no class is registered for this file")


def _against_release(tree: Tree, release: str, path: str, schema: Schema) -> Iterator[Finding]:
    text = tree.files.get(path)
    if text is None:
        yield Finding(path, f"released with {release}, and gone now; restore file and class")
    elif path in tree.current:
        for change in breaking_changes(schema, tree.generated.get(path, json.loads(text))):
            yield Finding(
                path, f"differs from {release}: {change}; make a new version of the class instead"
            )
    elif _last_release(tree, path) == release and text.decode() != schema_text(schema):
        yield Finding(path, f"is retired and differs from {release}; restore it from git")


def writable(tree: Tree) -> dict[str, str]:
    """Return the texts of the schema files that no release forbids to write, by path.

    A released version that is retired keeps its file; a current one keeps it where the class now
    breaks documents of an earlier release.
    """
    texts = {}
    releases = tree.released.values()
    for path, schema in tree.generated.items():
        held = [schemas[path] for schemas in releases if path in schemas]
        is_retired = path not in tree.current and held and path in tree.files
        if not is_retired and not any(breaking_changes(old, schema) for old in held):
            texts[path] = schema_text(schema)
    return texts


def _last_release(tree: Tree, path: str) -> str:
    holding = [release for release, schemas in tree.released.items() if path in schemas]
    return max(holding, key=release_order)


def release_order(release: str) -> tuple[Any, ...]:
    """Return the key by which releases (`0.10.0`) are ordered."""
    return tuple(int(part) if part.isdigit() else -1 for part in release.split("."))


def digest(text: bytes) -> str:
    """Return the SHA-256 of a snapshot, in hexadecimal."""
    return hashlib.sha256(text).hexdigest()


def snapshot_text(release: str, schemas: Mapping[str, Schema]) -> str:
    """Return the text of a snapshot: all schemas of one release."""
    return schema_text({"release": release, "schemas": dict(sorted(schemas.items()))})


def parse_lock(text: str) -> dict[str, str]:
    """Return the SHA-256 of each release from the text of the lock, as `sha256sum` writes it."""
    pairs = (line.split() for line in text.splitlines() if line.strip())
    return {name.removesuffix(".json"): value for value, name in pairs}


def lock_text(lock: Mapping[str, str]) -> str:
    """Return the text of the lock, as `sha256sum` writes it; `sha256sum -c` checks it."""
    return "".join(f"{lock[r]}  {r}.json\n" for r in sorted(lock, key=release_order))
