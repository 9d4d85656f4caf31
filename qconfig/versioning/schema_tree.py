"""Trees of schema files, from a folder or from a commit of a git repository."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from qconfig.errors import DocumentSyntaxError, StorageError, UsageError

_VERSION_FILE = re.compile(r"[a-z0-9_]+/v[1-9][0-9]*\.json")


def read_tree(folder: str | Path) -> dict[str, dict[str, Any]]:
    """Return the schemas of all versions below a folder, by path (`int8_tensor_layout/v1.json`).

    Args:
        folder: a `schemas/` folder; other files in it are left alone.

    Raises:
        StorageError: the folder or a file cannot be read.
        DocumentSyntaxError: a schema is not a JSON object.
    """
    root = Path(folder)
    if not root.is_dir():
        raise StorageError("no such folder", file=root, hint="name a schemas folder or a git ref")
    texts = {p.relative_to(root).as_posix(): p for p in sorted(root.glob("*/v*.json"))}
    try:
        return _parsed((name, path.read_bytes()) for name, path in texts.items())
    except OSError as error:
        raise StorageError(f"cannot read: {error.strerror}", file=error.filename) from error


def read_tree_at_git_ref(
    ref: str, *, repository: str | Path = ".", folder: str = "schemas"
) -> dict[str, dict[str, Any]]:
    """Return the schemas of all versions as a commit of a git repository holds them.

    Args:
        ref: a branch, tag or commit. It is passed to git as data, never as an option.
        repository: any folder of the repository.
        folder: the schemas folder, from the root of the repository.

    Raises:
        UsageError: git knows no such commit, or `repository` is none.
        StorageError: git is not installed or failed.
        DocumentSyntaxError: a schema is not a JSON object.
    """
    if not ref or ref.startswith("-") or not ref.isprintable():
        raise UsageError("not a git ref", found=ref, expected="a branch, a tag or a commit")
    git = ["git", "-C", str(repository)]
    found = _run(
        [*git, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"]
    )
    if found is None:
        raise UsageError(
            "git knows no such commit",
            found=ref,
            expected=f"a branch, a tag or a commit of the repository at {repository}",
            hint="fetch it first, or name a folder",
        )
    commit = found.decode().strip()
    listing = _run([*git, "ls-tree", "-r", "-z", "--full-tree", commit, "--", f"{folder}/"])

    def blobs() -> Iterator[tuple[str, bytes]]:
        for line in (listing or b"").decode(errors="replace").split("\0"):
            head, _, path = line.partition("\t")
            name = path.removeprefix(f"{folder}/")
            if _VERSION_FILE.fullmatch(name):
                yield name, _run([*git, "cat-file", "blob", head.split()[2]]) or b""

    return _parsed(blobs())


def _run(command: list[str]) -> bytes | None:
    """Return what git prints, or None where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=60)  # noqa: S603
    except FileNotFoundError:
        raise StorageError("git is not installed", hint="name a folder instead of a ref") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StorageError("git did not answer", hint=str(error)) from error
    return done.stdout if done.returncode == 0 else None


def _parsed(texts: "Iterator[tuple[str, bytes]]") -> dict[str, dict[str, Any]]:
    tree = {}
    for name, text in texts:
        if not _VERSION_FILE.fullmatch(name):
            continue
        try:
            schema = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DocumentSyntaxError(f"not JSON: {error}", file=name) from None
        if not isinstance(schema, Mapping):
            raise DocumentSyntaxError("a schema is a JSON object", file=name, found=schema)
        tree[name] = dict(schema)
    return tree
