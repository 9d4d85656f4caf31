"""More hostile checkpoints: names of shards, files that are none, headers.

Numbers from 41 on are ours; the list of the page ends at 40.
"""

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

from tests.checkpoints.builders import float_checkpoint
from tests.hostile import samples as s
from tests.hostile.items import FILE, LINK, Item

QUANTIZE = ("quantize",)
_DEVICES = ("CON", "nul.x", "Com1", "lpt\u00b2", "CONIN$", "aux ")


def renamed(*names: str) -> s.Make:
    """Return a maker of a sharded checkpoint whose shards have other names, in the index too."""

    def make(folder: Path) -> Path:
        float_checkpoint(folder, shards=len(names))
        text = (folder / s.INDEX).read_text()
        old = sorted({*json.loads(text)["weight_map"].values()})
        for before, after in zip(old, names, strict=True):
            (folder / before).rename(folder / after)
            text = text.replace(json.dumps(before), json.dumps(after))
        (folder / s.INDEX).write_text(text)
        return folder

    return make


def instead_of(name: str, put: Callable[[Path], object]) -> s.Make:
    """Return a maker of a sharded checkpoint with something else in the place of a file."""

    def change(folder: Path) -> None:
        (folder / name).unlink()
        put(folder / name)

    return s.sharded(change)


def bind(path: Path) -> None:
    """Make a socket."""
    with chdir(path.parent), socket.socket(socket.AF_UNIX) as bound:  # names have 108 bytes
        bound.bind(path.name)


def linked_out(name: str) -> s.Make:
    """Return a maker of a sharded checkpoint with a link to where one of its files went."""

    def change(folder: Path) -> None:
        target = folder.parent / "moved.json"
        (folder / name).rename(target)
        (folder / name).symlink_to(target)

    return s.sharded(change)


def huge(path: Path) -> None:
    """Make a file of a terabyte that takes no room."""
    path.touch()
    os.truncate(path, 2**40)


def huge_shard(folder: Path) -> Path:
    """Make a sound file of one tensor that goes on for a terabyte."""
    s.raw(folder, {"a": s.entry()})
    os.truncate(folder / "model.safetensors", 2**40)
    return folder


def index(**members: Any) -> s.Make:
    """Return a maker of a sharded checkpoint whose index has other members."""

    def change(folder: Path) -> None:
        document = json.loads((folder / s.INDEX).read_text())
        (folder / s.INDEX).write_text(json.dumps(document | members))

    return s.sharded(change)


def nested_folders(folder: Path) -> None:
    """Make folders in folders in folders."""
    with chdir(folder):
        for _ in range(200):
            Path("d").mkdir()
            os.chdir("d")
        Path("f").touch()


def files(*names: str) -> s.Make:
    """Return a maker of a float checkpoint with more files in it."""
    return s.single(lambda folder: [(folder / name).write_bytes(b"") for name in names])


def _shards() -> Iterator[Item]:
    for what, names in {
        "in upper and lower case": ("A.safetensors", "a.safetensors"),
        "of sharp s and ss": ("stra\u00dfe.safetensors", "STRASSE.safetensors"),
        "in NFC and NFD": ("\u00e9.safetensors", "e\u0301.safetensors"),
    }.items():
        yield Item(41, f"shards {what}", renamed(*names), words=("one on some systems", "index"))
    for stem, number, words in (
        *((stem, 42, "is that of a device on some system") for stem in _DEVICES),
        *((f"a{wild}", 43, "which no name may have on some system") for wild in '<>"|?*'),
        *(
            (f"a{seen}", 44, "characters that cannot be seen")
            for seen in ("\x1b[2J", "\u202e", "\t")
        ),
    ):
        make = renamed(f"{stem}.safetensors", "b.safetensors")
        yield Item(number, f"shard called {stem!a}", make, words=("a shard's name", words))
    for what, value in {"a number": 1, "null": None, "a list": [], "empty": ""}.items():
        make = index(weight_map={"norm.weight": value})
        yield Item(45, f"shard that is {what}", make, words=("/weight_map/norm.weight: a shard's",))
    yield Item(45, "shard that is the index", s.indexed("a", s.INDEX), words=("does not end in",))


def _no_files() -> Iterator[Item]:
    kinds: dict[str, tuple[Callable[[Path], object], str]] = {
        "a FIFO": (os.mkfifo, "a FIFO"),
        "a socket": (bind, "a socket"),
        "a directory": (os.mkdir, "a directory"),
        "endless": (lambda path: path.symlink_to("/dev/zero"), f"{LINK} that leaves its directory"),
        "a link to itself": (lambda path: path.symlink_to(path.name), "leads nowhere"),
        "a terabyte": (huge, "1099511627776 bytes"),
    }
    for number, name in ((46, "config.json"), (47, s.INDEX)):
        for what, (put, words) in kinds.items():
            yield Item(number, f"{name} is {what}", instead_of(name, put), words=(name, words))
        what, make = f"{name} is a link out", linked_out(name)
        words = f"{LINK} that leaves its directory"
        yield Item(number, what, make, words=(name, words))
        yield Item(number, f"{what}, followed", make, code=0, options=("--follow-symlinks",))
    yield Item(48, "file of a terabyte", huge_shard, words=("bytes after the last tensor",))
    yield Item(48, "shard is a socket", s.replace_shard(bind), words=(s.SHARDS[1], "a socket"))


_CONFIGS = {
    "an array": ("[]", "not an object"),
    "empty": ("", "the text ends too early"),
    "with a byte order mark": ("\ufeff{}", "a byte order mark"),
    "two documents": ("{} {}", "Extra data"),
    "with a number beyond float64": ('{"a": -1E400}', "/a: a number beyond float64"),
    "with a number below float64": ('{"a": 1e-400}', "/a: a number below float64"),
    "with an integer of 5000 digits": ('{"a": ' + "1" * 5000 + "}", "Limits.number_digits"),
    "with half a character": ('{"a": "\\ud800"}', "/a: half of a surrogate pair"),
    "with half a character as a key": ('{"\\ud800": 1}', "half of a surrogate pair"),
}
_INDICES = {
    "an array": ("[]", "the index is not an object"),
    "without a map": ("{}", "weight_map is not an object"),
    "with a list for a map": ('{"weight_map": []}', "weight_map is not an object"),
    "with half a character": ('{"weight_map": {"a": "\\ud800"}}', "half of a surrogate pair"),
    "with an escape": ('{"weight_map": {"a\\u001b": "x.safetensors"}}', "a\\x1b: a tensor name"),
    "with metadata that is none": ('{"metadata": [], "weight_map": {}}', "/metadata: metadata is"),
}


def _texts() -> Iterator[Item]:
    for number, name, texts in ((49, "config.json", _CONFIGS), (50, s.INDEX, _INDICES)):
        for what, (text, words) in texts.items():
            yield Item(number, f"{name} {what}", s.text(name, text), words=(name, words))


_ENTRIES: dict[str, tuple[Any, str]] = {
    "entry that is null": ({"a": None}, "the entry is not an object"),
    "entry with another field": ({"a": s.entry() | {"x": 1}}, "an unknown field"),
    "entry without offsets": ({"a": {"dtype": "I8", "shape": [4]}}, "lacks data_offsets"),
    "reversed offsets": ({"a": s.entry(start=4, end=0)}, "does not fit dtype and shape"),
    "negative offset": ({"a": s.entry(start=-4, end=0)}, "not two sizes"),
    "three offsets": ({"a": s.entry() | {"data_offsets": [0, 4, 4]}}, "not two sizes"),
    "offsets beyond 2^64": ({"a": s.entry(start=2**64, end=2**64 + 4)}, "a hole in the data"),
    "overlap": ({"a": s.entry(), "b": s.entry()}, "b: the bytes overlap"),
    "hole": ({"a": s.entry(start=2, end=6)}, "a hole in the data"),
    "dtype in lower case": ({"a": s.entry(dtype="i8")}, "unknown dtype code"),
    "dtype that is a list": ({"a": s.entry() | {"dtype": ["I8"]}}, "unknown dtype code"),
    "half a byte": ({"a": s.entry(dtype="F4", shape=[3], end=2)}, "half a byte left over"),
    "metadata that is null": ({"__metadata__": None, "a": s.entry()}, "is not an object"),
    "metadata with a number": ({"__metadata__": {"a": 1}, "b": s.entry()}, "no string"),
    "metadata key with an escape": ({"__metadata__": {"\x1b": ""}, "a": s.entry()}, "metadata key"),
    "zero-width name": ({"a\u200bb": s.entry()}, "U+200B"),
    "name with a NUL": ({"a\0": s.entry()}, "U+0000"),
    "byte order mark": (b"\xef\xbb\xbf{}", "does not start with '{'"),
    "two objects": (b"{}{}", "Extra data"),
    "space before": (b" {}", "does not start with '{'"),
    "no UTF-8": (b'{"\xff":{}}', "not UTF-8"),
    "half a character": (b'{"\\ud800":{}}', "half of a surrogate pair"),
    "flood of brackets": (b'{"a":' + b"[" * 17_000_000, "Limits.tensors"),
    "deep": (b"{" + b'"a":{' * 1000, "Limits.json_depth"),
    "nothing": (b"", "does not start with '{'"),
}


def _headers() -> Iterator[Item]:
    for what, (content, words) in _ENTRIES.items():
        yield Item(51, f"header: {what}", s.header(content), words=(FILE, words))


def _carried() -> Iterator[Item]:
    puts: dict[str, tuple[s.Make, str]] = {
        "a FIFO": (s.single(lambda folder: os.mkfifo(folder / "x")), "x: not a regular file"),
        "a socket": (s.single(lambda folder: bind(folder / "x")), "x: not a regular file"),
        "a link to the parent": (
            s.single(lambda folder: (folder / "x").symlink_to("..")),
            "x: a link to a directory",
        ),
        "in 200 folders": (s.single(nested_folders), "Limits.folder_depth"),
        "another CONFIG.JSON": (files("CONFIG.JSON"), "one on some systems"),
        "twins in case": (files("LICENSE", "license"), "one on some systems"),
    }
    for what, (make, words) in puts.items():
        yield Item(52, f"carried: {what}", make, words=(words,), verbs=QUANTIZE)
    names = ("lock", "journal", "content", ".source.qconfig-tmp", "a\x1b[31m\nb", "-rf")
    for name in names:
        yield Item(53, f"carried: {name!a}", files(name), code=0, verbs=QUANTIZE)


FILES = [*_shards(), *_no_files(), *_texts(), *_headers(), *_carried()]
