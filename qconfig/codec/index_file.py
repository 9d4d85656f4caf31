"""The index of a sharded checkpoint: `model.safetensors.index.json` as Hugging Face writes it.

An index names files, so it is the one place where a checkpoint could point out of its directory.
"""

import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from qconfig.codec.regular_files import kind_of, read_document
from qconfig.codec.strict_json import loads
from qconfig.codec.tensor_names import check_name, check_twins
from qconfig.errors import ContainerError, StorageError, json_pointer
from qconfig.limits import current_limits

SUFFIX = ".safetensors"
# Devices of Windows, whatever follows the first dot.
_DEVICE = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9\u00b9\u00b2\u00b3]) *\.", re.IGNORECASE
)
_MEANINGS = {
    **dict.fromkeys("/\\", "ends a directory"),
    ":": "ends a drive",
    **dict.fromkeys('<>"|?*', "no name may have"),
}


@frozen
class ShardIndex:
    """What an index file says.

    Args:
        metadata: free data about the whole checkpoint, such as `total_size`.
        weight_map: the shard's file name of each tensor.
        extra: members that only other programs know; they are carried along.
    """

    metadata: dict[str, Any]
    weight_map: dict[str, str]
    extra: dict[str, Any] = field(factory=dict)


def read_index(path: Path | str, *, suffix: str = SUFFIX) -> ShardIndex:
    """Read and check an index file; the shards are not looked at.

    Args:
        path: the file.
        suffix: what the names of its shards end in.

    Raises:
        ContainerError: the file lacks its parts, or a tensor or shard has a name that is refused.
        DocumentSyntaxError: the file is not strict JSON.
        StorageError: the file is missing or may not be read.
    """
    document = loads(read_document(path), file=path)
    try:
        return _index(document, suffix)
    except ContainerError as error:
        error.at(file=path)
        raise


def index_document(weight_map: Mapping[str, str], total_size: int) -> dict[str, Any]:
    """Return an index as a JSON value, sorted by tensor name.

    Args:
        weight_map: the shard's file name of each tensor.
        total_size: bytes of all tensors.

    Raises:
        ContainerError: a shard has a name that `read_index` would refuse.
    """
    shards = dict.fromkeys(weight_map.values())
    for shard in shards:
        check_shard_name(shard)
    check_shard_twins(shards)
    return {"metadata": {"total_size": total_size}, "weight_map": dict(sorted(weight_map.items()))}


def check_shard_name(name: object, suffix: str = SUFFIX) -> None:
    """Refuse a shard name that is not a plain file name on every system.

    Args:
        name: the name.
        suffix: what it ends in.

    Raises:
        ContainerError: the name has a directory or drive, or would change when it is created.
    """
    problem = _name_problem(name, suffix) if isinstance(name, str) else "is no string"
    if problem:
        raise ContainerError(
            f"a shard's name {problem}",
            found=name,
            expected=f"a plain file name that ends in {suffix}",
            hint="shards lie beside their index; do not trust a checkpoint that says otherwise",
        )


def check_shard_twins(names: Iterable[str]) -> None:
    """Refuse shard names of which some systems see one file: in upper and lower case, NFC and NFD.

    Args:
        names: distinct names.

    Raises:
        ContainerError: two of the names are one on some system.
    """
    for name, twin in twins(names):
        raise ContainerError(
            "two shards have names that are one on some systems",
            **differ(name, twin),
            hint="rename one of the two, in the index too",
        )


def twins(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each name that some system takes for an earlier one, and that one.

    Args:
        names: distinct names.
    """
    seen: dict[str, str] = {}
    for name in names:
        twin = seen.setdefault(folded(name), name)
        if twin != name:
            yield name, twin


def differ(name: str, twin: str) -> dict[str, str]:
    """Return what an error about two such names says as `found` and `expected`."""
    return {
        "found": f"{twin!a} and {name!a}",
        "expected": "names that differ in more than case and Unicode normal form",
    }


def folded(name: str) -> str:
    """Return what is the same for names that some file system takes for one another."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def check_link(path: Path, directory: Path | None = None, *, follow_symlinks: bool = False) -> None:
    """Refuse a symbolic link that leads out of its checkpoint; nothing is opened.

    Args:
        path: a file of a checkpoint, such as config.json.
        directory: the checkpoint; None for the directory that the file lies in.
        follow_symlinks: allow it. A link into the `blobs` of the same Hugging Face cache entry is
            always allowed.

    Raises:
        ContainerError: it is such a link.
        StorageError: the file system refused.
    """
    if follow_symlinks or not path.is_symlink():
        return
    try:
        target = path.resolve()
        inside = _stays_inside(target, directory or path.parent)
    except RuntimeError:  # a loop, before Python 3.13; whoever opens it says so
        return
    except OSError as error:
        raise StorageError(f"cannot open: {error.strerror}", file=path) from error
    if not inside:
        raise ContainerError(
            "a symbolic link that leaves its directory",
            file=path,
            found=os.fspath(target),
            expected="a file in the directory or in the blobs of its Hugging Face cache entry",
            hint="follow symbolic links only where you made them yourself (--follow-symlinks)",
        )


def shard_path(
    directory: Path | str, name: str, *, follow_symlinks: bool = False, suffix: str = SUFFIX
) -> Path:
    """Return the path of a shard after looking at what lies there; it is not opened.

    Args:
        directory: where the index lies.
        name: the shard's name in the index.
        follow_symlinks: also allow a symbolic link that leaves the directory. One into the `blobs`
            of the same Hugging Face cache entry is always allowed.
        suffix: what the names of shards end in.

    Raises:
        ContainerError: the name is refused, or names no regular file, or leaves the directory.
        StorageError: the file system refused.
    """
    check_shard_name(name, suffix)
    path = Path(directory) / name
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            mode = _linked_mode(path, follow_symlinks=follow_symlinks)
    except FileNotFoundError:
        raise ContainerError(
            "a shard is missing", file=path, hint="the download is not complete; fetch it again"
        ) from None
    except OSError as error:
        raise StorageError(f"cannot open: {error.strerror}", file=path) from error
    if not stat.S_ISREG(mode):
        raise ContainerError(
            "a shard is not a regular file",
            file=path,
            found=kind_of(mode),
            expected="a regular file",
        )
    return path


def _index(document: Any, suffix: str) -> ShardIndex:
    limits = current_limits()
    if not isinstance(document, dict):
        raise ContainerError("the index is not an object", found=document)
    metadata = document.pop("metadata", {})
    if not isinstance(metadata, dict):
        raise ContainerError("metadata is not an object", pointer="/metadata", found=metadata)
    weight_map = document.pop("weight_map", None)
    if not isinstance(weight_map, dict):
        raise ContainerError(
            "weight_map is not an object",
            pointer="/weight_map",
            found=weight_map,
            expected="an object from tensor names to file names",
        )
    if len(weight_map) > limits.tensors:
        raise ContainerError(
            "the index has too many tensors",
            pointer="/weight_map",
            found=f"{len(weight_map)} tensors",
            expected=f"tensors: {limits.describe('tensors')}",
        )
    checked: dict[str, None] = {}
    for name, shard in weight_map.items():
        check_name(name, limits)
        if isinstance(shard, str) and shard in checked:
            continue
        try:
            check_shard_name(shard, suffix)
        except ContainerError as error:
            error.at(fqn=name, pointer_prefix=json_pointer("weight_map", name))
            raise
        checked[shard] = None
    check_twins(weight_map)
    try:
        check_shard_twins(checked)
    except ContainerError as error:
        error.at(pointer_prefix="/weight_map")
        raise
    return ShardIndex(metadata, weight_map, document)


def _name_problem(name: str, suffix: str) -> str | None:
    size, limits = len(name.encode("utf-8", "surrogatepass")), current_limits()
    if size > limits.file_name_bytes:
        return f"is too long: {size} bytes of {limits.describe('file_name_bytes')}"
    if not name.isprintable():
        return "has characters that cannot be seen"
    bad = next((c for c in name if c in _MEANINGS), None)
    if bad is not None:
        return f"has {bad!r}, which {_MEANINGS[bad]} on some system"
    endings = (
        (name != name.rstrip(". "), "ends in a dot or a space, which some systems drop"),
        (_DEVICE.match(name), "is that of a device on some system"),
        (not name.endswith(suffix), f"does not end in {suffix}"),
    )
    return next((words for is_so, words in endings if is_so), None)


def _linked_mode(path: Path, *, follow_symlinks: bool) -> int:
    try:
        target = path.resolve(strict=True)
    except (FileNotFoundError, RuntimeError) as error:
        # RuntimeError is how pathlib reports a loop before Python 3.13.
        raise ContainerError(
            "a shard is a symbolic link that leads nowhere",
            file=path,
            found=os.fspath(path.readlink()),
            hint="the download is not complete; fetch it again",
        ) from error
    check_link(path, follow_symlinks=follow_symlinks)
    return target.stat().st_mode


def _stays_inside(target: Path, directory: Path) -> bool:
    """Return whether a link of a checkpoint in `directory` may lead to the resolved `target`.

    It may lead into the directory itself, and into the `blobs` of its Hugging Face cache entry.
    """
    home = directory.resolve(strict=True)
    return any(target.is_relative_to(folder) for folder in (home, *_blobs(home)))


def _blobs(home: Path) -> list[Path]:
    """Return the `blobs` of the cache entry that `home` is a snapshot of, if it is one."""
    return [
        folder.parent / "blobs"
        for folder in home.parents
        if folder.name == "snapshots" and folder.parent.name.startswith("models--")
    ]
