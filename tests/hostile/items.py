"""Hostile inputs 1 to 40, each through every verb that could read it, and through Python.

For each the exit code, what the error says, that nothing is written and that the source stays as it
is. Codes: 0 works, 1 findings, 2 usage, 3 invalid. Where verbs differ, `but` has those that do.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

from tests.hostile import samples as s
from tests.hostile.calls import ON_CHECKPOINTS, ON_CONFIGS


@frozen
class Item:
    """One hostile input and what becomes of it."""

    number: int
    what: str
    make: s.Make
    code: int = 3
    words: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ON_CHECKPOINTS
    options: tuple[str, ...] = ()
    but: Mapping[str, int] = field(factory=dict)


NAMES = "the index names a shard that does not hold the tensor"
LINK = "symbolic link"
VALUES = ("verify",)
DEEP = '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}"
ONLY_PLANNED = {"validate": 0, "explain": 0, "diff": 1, "upgrade": 0, "convert": 0, "load": 0}
OLDER = {"validate": 0, "inspect": 0, "diff": 0, "verify": 1}
FILE = "source/model.safetensors: "

ITEMS = [
    Item(
        1, "header of 2^64-1 bytes", s.header({}, length=2**64 - 1), words=("header is too long",)
    ),
    Item(2, "header beyond the file", s.header({}, length=999), words=("ends after the file",)),
    Item(3, "header of 100 MB and 1", s.sparse, words=("100000001 bytes", "at most 100000000")),
    Item(4, "empty file", s.bare(b""), words=("too short", "0 bytes")),
    Item(4, "seven bytes", s.bare(bytes(7)), words=("too short", "7 bytes")),
    Item(5, "last shard cut", s.sharded(s.cut), words=(s.SHARDS[2], "cut short", "expected: ")),
    Item(6, "trailing bytes", s.header({"a": s.entry()}, bytes(5)), words=("bytes after the",)),
    Item(
        7,
        "name twice",
        s.header(
            b'{"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},'
            b'"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}}'
        ),
        words=("a: /a: in the header: duplicate key 'a'", "first at line 1, column 2"),
    ),
    Item(
        8,
        "name twice, other dtype",
        s.header(
            b'{"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},'
            b'"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
        ),
        words=("a: /a: in the header: duplicate key 'a'",),
    ),
    Item(
        9,
        "metadata key twice",
        s.header(b'{"__metadata__":{"qconfig":"{}","qconfig":"[]"}}', b""),
        words=("/__metadata__/qconfig", "duplicate key 'qconfig'"),
    ),
    Item(
        10,
        "key twice in config.json",
        s.text("config.json", '{"a": 1,\n "a": 2}'),
        words=(
            "config.json: /a: duplicate key 'a' at line 2, column 2",
            "first at line 1, column 2",
        ),
    ),
    Item(
        10,
        "key twice in the index",
        s.text(s.INDEX, '{"weight_map": {"a": "x.safetensors",\n "a": "y.safetensors"}}'),
        words=("index.json: /weight_map/a: duplicate key 'a' at line 2", "first at line 1"),
    ),
    Item(
        10,
        "key twice in a config",
        s.document('{"type": "FqnToConfig",\n "rules": [],\n "rules": []}'),
        words=("quant.json: /rules: duplicate key 'rules' at line 3", "first at line 2"),
        verbs=ON_CONFIGS,
    ),
    Item(
        11,
        "tensor in two shards",
        s.sharded(s.in_two_shards),
        words=("norm.weight: the tensor lies in two shards", s.SHARDS[0], s.SHARDS[1]),
    ),
    Item(
        12,
        "tensor missing in the index",
        s.indexed("norm.weight", None),
        code=0,
        words=("holds norm.weight, which is not in the index",),
        verbs=("validate", "inspect", "plan", "quantize"),
    ),
    Item(
        12,
        "tensor missing in the index, verified",
        s.indexed("norm.weight", None),
        code=1,
        words=("holds norm.weight, which is not in the index",),
        verbs=("verify",),
    ),
    Item(
        12,
        "tensor missing in the index, strict",
        s.indexed("norm.weight", None),
        words=("holds norm.weight, which is not in the index",),
        verbs=VALUES,
        options=("--strict",),
    ),
    Item(
        12,
        "stray file, strict",
        s.sharded(lambda folder: shutil.copy(folder / s.SHARDS[0], folder / "stray.safetensors")),
        words=("stray.safetensors is not in the index",),
        verbs=VALUES,
        options=("--strict",),
    ),
    Item(
        13,
        "missing shard",
        s.indexed("norm.weight", "absent.safetensors"),
        words=("absent.safetensors: a shard is missing",),
    ),
    Item(
        14, "tensor absent in its shard", s.indexed("nope", s.SHARDS[0]), words=(f"nope: {NAMES}",)
    ),
    Item(
        15,
        "shard in the parent",
        s.outside("../x.safetensors"),
        words=("norm.weight: /weight_map/norm.weight: a shard's name has '/'", "a plain file name"),
    ),
    Item(16, "absolute shard", s.outside("{}/x.safetensors"), words=("a shard's name has '/'",)),
    *(
        Item(
            17,
            f"shard called {what}",
            s.indexed("norm.weight", name),
            words=("/weight_map/norm.weight: a shard's name", "a plain file name"),
        )
        for what, name in {
            "with a NUL": "a\0.safetensors",
            "with a backslash": "..\\x.safetensors",
            "with a drive": "c:x.safetensors",
            "with a dot at the end": "x.safetensors.",
            "of 300 characters": "x" * 300 + ".safetensors",
        }.items()
    ),
    Item(
        18,
        "link out of the folder",
        s.replace_shard(s.linked_outside),
        words=(s.SHARDS[1], f"{LINK} that leaves its directory", "--follow-symlinks"),
    ),
    Item(
        18,
        "link out of the folder, followed",
        s.replace_shard(s.linked_outside),
        code=0,
        options=("--follow-symlinks",),
    ),
    Item(18, "links of the cache", s.in_the_cache, code=0),
    Item(
        18,
        "carried file that is a link out of the folder",
        s.single(lambda folder: (folder / "tokenizer.json").symlink_to(os.devnull)),
        words=("tokenizer.json: not a regular file",),
        verbs=("quantize",),
    ),
    Item(
        18,
        "carried file that is a link to a file elsewhere",
        s.single(lambda folder: (folder / "tokenizer.json").symlink_to(Path(__file__))),
        words=("tokenizer.json: a symbolic link that leaves its directory", "--follow-symlinks"),
        verbs=("quantize",),
    ),
    Item(19, "shard is a FIFO", s.replace_shard(os.mkfifo), words=(s.SHARDS[1], "a FIFO")),
    Item(19, "shard is a directory", s.replace_shard(os.mkdir), words=(s.SHARDS[1], "a directory")),
    Item(
        19,
        "shard is a device",
        s.replace_shard(lambda path: path.symlink_to("/dev/zero")),
        words=(s.SHARDS[1], LINK),
    ),
    Item(
        19,
        "device that is followed",
        s.replace_shard(lambda path: path.symlink_to("/dev/zero")),
        words=(s.SHARDS[1], "a character device"),
        options=("--follow-symlinks",),
    ),
    Item(
        20,
        "dangling shard",
        s.replace_shard(lambda path: path.symlink_to("nowhere")),
        words=(s.SHARDS[1], f"{LINK} that leads nowhere"),
    ),
    *(
        Item(
            20,
            f"dangling {name}",
            s.single(s.dangling(name)),
            words=(f"{name}: a {LINK} that leads nowhere",),
        )
        for name in ("config.json", s.INDEX)
    ),
    Item(22, "name that is a path", s.named("../../etc/passwd"), code=0),
    *(
        Item(23, f"name with {what}", s.named(name), words=(FILE, "control or invisible", code))
        for what, name, code in (
            ("an escape", "a\x1b[31mb", "U+001B"),
            ("a newline", "a\nb", "U+000A"),
            ("a bidi override", "a\u202eb", "U+202E"),
        )
    ),
    Item(24, "empty name", s.named(""), code=0),
    Item(24, "name without a dot", s.named("weight", "w"), code=0),
    Item(25, "NFC and NFD twins", s.named("\u00e9", "e\u0301"), words=("Unicode normal form",)),
    Item(26, "name of 1 MB", s.header({"a" * 10**6: s.entry()}), words=("name is too long",)),
    Item(
        27,
        "shape of 2^62 x 4",
        s.header({"a": s.entry(shape=[2**62, 4])}),
        words=(f"{FILE}a: a dimension is too large",),
    ),
    Item(
        27,
        "shape of 2^40 x 2^40",
        s.header({"a": s.entry(shape=[2**40, 2**40])}),
        words=(f"{FILE}a: the shape overflows",),
    ),
    Item(
        28,
        "empty with 2^60",
        s.header({"a": s.entry(shape=[0, 2**60], end=0)}, b""),
        words=(f"{FILE}a: a dimension is too large",),
    ),
    Item(
        29,
        "rank 100000",
        s.header({"a": s.entry(shape=[1] * 100_000, end=1)}, bytes(1)),
        words=(f"{FILE}a: the shape has too many dimensions", "100000", "at most 16"),
    ),
    *(
        Item(
            30,
            f"dimension {literal}",
            s.header(b'{"a":{"dtype":"I8","shape":[%s],"data_offsets":[0,4]}}' % literal.encode()),
            words=(f"{FILE}a: a dimension is not a size", "integers from 0"),
        )
        for literal in ("4.0", '"4"', "true", "1e23", "-4")
    ),
    *(
        Item(
            31,
            f"group_size {literal[:9]}",
            s.group_size(literal),
            words=("quant.json: /group_size: ", f"found: {literal}", "expected: "),
            verbs=ON_CONFIGS,
        )
        for literal in ("-1", "0", "1" + "0" * 30)
    ),
    *(
        Item(
            31,
            f"group_size {literal[:9]} for K = 32",
            s.group_size(literal),
            words=("layers.0.up.weight", "/group_size", "K = 32"),
            verbs=ON_CONFIGS,
            but=ONLY_PLANNED,
        )
        for literal in ("5", "64")
    ),
    *(
        Item(
            32,
            f"number {literal[:9]}",
            s.group_size(literal),
            words=("quant.json: /group_size: ", "expected: "),
            verbs=ON_CONFIGS,
        )
        for literal in ("3.5", '"4"', "true", "1" + "0" * 400)
    ),
    Item(33, "deep config.json", s.text("config.json", DEEP), words=("nested too deeply",)),
    Item(33, "deep config", s.document(DEEP), words=("nested too deeply",), verbs=ON_CONFIGS),
    *(
        Item(
            34,
            f"{literal} in a config",
            s.group_size(literal),
            words=(f"quant.json: /group_size: {literal} is not JSON, at line 2",),
            verbs=ON_CONFIGS,
        )
        for literal in ("NaN", "Infinity", "-Infinity")
    ),
    *(
        Item(
            35,
            f"scale {value}",
            s.scaled(value),
            code=1,
            words=("a.weight: /scale: ", "[3, 0]"),
            verbs=VALUES,
        )
        for value in (float("nan"), float("inf"), -1.0, 0.0)
    ),
    Item(
        36,
        "zero point 1000",
        s.old(zero_point=1000),
        words=("a.weight", "/zero_point: zero_point does not fit int8", "found: 1000"),
        verbs=("verify", "upgrade"),
        but=OLDER,
    ),
    Item(
        37,
        "codes beyond the declared range",
        s.old(quant_min=-8, quant_max=7),
        words=("a.weight", "/int_data: int_data holds", "codes from -8 to 7"),
        verbs=("verify", "upgrade"),
        but=OLDER,
    ),
    Item(
        38,
        "transposed scale",
        s.quantized(s.transposed_scale),
        words=(f"{FILE}/__metadata__/qconfig/layouts/0/scale: ", "(1, 8)", "shape (8, 1)"),
    ),
    Item(
        39,
        "missing inner tensor",
        s.renamed("a.weight.scale", "b.scale"),
        words=("a.weight.scale: an inner tensor is missing", "float32 (8, 1)"),
    ),
    Item(
        39,
        "surplus inner tensor",
        s.quantized(
            lambda head, record: (
                head.update({"a.weight.more": head.pop("a.weight.scale")}),
                record.update(tensors={}),
                record.update(tensors={"a.weight": 0}),
            )
        ),
        words=("a.weight.scale: an inner tensor is missing",),
    ),
    Item(
        40,
        "scale in another shard",
        s.scale_elsewhere,
        code=0,
        verbs=("validate", "inspect", "verify", "diff", "upgrade"),
    ),
]
