"""Hostile inputs for several readers: each input in every form that one of the readers takes.

Files are those of `items`. A config is the same wrong statement in our words, in torchao's and in
those of compressed-tensors. Tensors of torchao are a file of its release 0.18 with one change.
"""

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from tests.hostile.items import ITEMS
from tests.hostile.more_files import FILES
from tests.hostile.samples import INDEX, SHARDS, document, sharded
from tests.torchao_files import DATA

OURS = "qconfig"
Change = Callable[[dict[str, Any], bytearray], object]
"""Changes the header of a safetensors file, or its data."""


@frozen
class Case:
    """One hostile input.

    Args:
        group: "files", "configs" or "torchao tensors".
        number: of the item that it is a form of.
        what: what is wrong, in a few words.
        make: writes it into a new folder and returns the path for each form.
    """

    group: str
    number: int
    what: str
    make: Callable[[Path], Mapping[str, Path]]

    @property
    def key(self) -> str:
        """The name in the baseline."""
        return f"{self.group} {self.number:02d} {self.what}"


def files() -> Iterator[Case]:
    """Yield the items that are checkpoints, without those that differ in options alone."""
    yield Case("files", 0, "nothing wrong", lambda folder: {OURS: sharded()(folder)})
    seen = set()
    for item in [*ITEMS, *FILES]:
        what = item.what.partition(",")[0] if item.number == 12 else item.what
        if item.options or "config" in item.verbs or item.verbs[-1:] == ("quantize",):
            continue
        if "explain" in item.verbs or (item.number, what) in seen:
            continue
        seen.add((item.number, what))
        written = _SOUND_BUT_FOR_IT.get(what, item.make)

        def make(folder: Path, make: Callable[[Path], Path] = written) -> Mapping[str, Path]:
            return {OURS: make(folder)}

        yield Case("files", item.number, what, make)


def _twice(folder: Path) -> None:
    index = folder / INDEX
    text = index.read_text("utf-8")
    more = f'"weight_map": {{"norm.weight": "{SHARDS[0]}", '
    index.write_text(text.replace('"weight_map": {', more), "utf-8")


def _called(name: str) -> Callable[[Path], Path]:
    """Return a maker of a checkpoint with a shard of that name, and an index that knows it."""

    def change(folder: Path) -> None:
        (folder / SHARDS[1]).rename(folder / name)
        index = folder / INDEX
        text = index.read_text("utf-8").replace(SHARDS[1], json.dumps(name)[1:-1])
        index.write_text(text, "utf-8")

    return sharded(change)


_SOUND_BUT_FOR_IT = {
    "key twice in the index": sharded(_twice),
    "shard called with a backslash": _called("..\\x.safetensors"),
    "shard called with a drive": _called("c:x.safetensors"),
    "shard called with a dot at the end": _called("x.safetensors."),
}
"""Where an item has more wrong with it than its name says, for which others would refuse it."""


_LITERALS = {
    0: {"nothing wrong": "32"},
    10: {"a key twice": '32, "group_size": 64'},
    31: {
        **{f"group_size {literal}": literal for literal in ("-1", "0")},
        "group_size of 31 digits": "1" + "0" * 30,
    },
    32: {
        **{f"group_size {literal}": literal for literal in ("3.5", '"4"', "true")},
        "group_size of 401 digits": "1" + "0" * 400,
    },
    33: {"100000 levels": "[" * 100_000 + "]" * 100_000},
    34: {f"group_size {literal}": literal for literal in ("NaN", "Infinity", "-Infinity")},
    59: {
        **{f"group_size {literal}": literal for literal in ("1e999", "1e-999")},
        "group_size of half a character": '"\\ud800"',
        "two documents": "32} {",
        "a key that is a NUL": '32, "\\u0000": 1',
    },
}
FORMS = {
    OURS: '{"type": "Int4WeightOnlyConfig", "version": 1, "group_size": %s}',
    "torchao": '{"_type": "Int4WeightOnlyConfig", "_version": 2, "_data": {"group_size": %s}}',
    "compressed-tensors": (
        '{"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": '
        '["Linear"], "weights": {"num_bits": 4, "strategy": "group", "group_size": %s}}}}'
    ),
}
"""A config of groups of 32 in the words of each library, open at the size."""


def rules(match: str) -> dict[str, str]:
    """Return rules with one pattern, in our words and in those of torchao."""
    row = {"type": "Int8WeightOnlyConfig", "version": 3}
    rule = {"match": match, "use": "row"}
    theirs = {"_type": "Int8WeightOnlyConfig", "_version": 2, "_data": {}}
    named = {"_type": "FqnToConfig", "_version": 1, "_data": {"fqn_to_config": {match: theirs}}}
    ours = {"type": "FqnToConfig", "version": 2, "configs": {"row": row}, "rules": [rule]}
    return {OURS: json.dumps(ours), "torchao": json.dumps(named)}


def configs() -> Iterator[Case]:
    """Yield configs with a wrong group size, and with types that name code."""
    texts = {
        (number, what): {name: form % literal for name, form in FORMS.items()}
        for number, each in _LITERALS.items()
        for what, literal in each.items()
    }
    texts[(0, "a type that names code")] = {
        OURS: '{"type": "os.system", "version": 1}',
        "torchao": '{"_type": "os.system", "_version": 1, "_data": {"command": "true"}}',
    }
    texts[(0, "a dtype that is a function of torch")] = {
        OURS: '{"type": "IntxWeightOnlyConfig", "version": 1, "weight_dtype": "load"}',
        "torchao": (
            '{"_type": "IntxWeightOnlyConfig", "_version": 2, "_data": '
            '{"weight_dtype": {"_type": "torch.dtype", "_data": "load"}}}'
        ),
    }
    for match in ("re:(a+)+$", "re:[", "re:(?P<\u202e>a)"):
        texts[(63, f"pattern {match!a}")] = rules(match)
    for (number, what), forms in texts.items():

        def make(folder: Path, forms: Mapping[str, str] = forms) -> Mapping[str, Path]:
            folder.mkdir()
            return {name: document(text)(folder / name) for name, text in forms.items()}

        yield Case("configs", number, what, make)


_NAME = "model.layers.0.self_attn.q_proj"
_INT8 = "int8_weight_only_v2__bf16"
_INT4 = "int8_dynact_intx_weight_int4_g32_hqq__bf16"


def torchao_tensors() -> Iterator[Case]:
    """Yield files of torchao's tensors with one change."""
    scale, codes = f"{_NAME}._weight_scale", f"{_NAME}._weight_qdata"
    cases: list[tuple[int, str, str, Change]] = [
        (0, "nothing wrong", _INT8, lambda *_: None),
        *(
            (35, f"scale {number}", _INT8, _put(scale, struct.pack("<f", number)))
            for number in (float("nan"), float("inf"), -1.0, 0.0)
        ),
        (37, "codes beyond int4", _INT4, _put(codes, b"\x64")),
        (38, "transposed scale", _INT8, lambda head, _: head[scale].update(shape=[1, 32])),
        (39, "missing part", _INT8, _renamed(codes, "other")),
        (39, "a part too many", _INT8, _renamed(f"{_NAME}.bias", f"{_NAME}._weight_more")),
        (39, "name that is not described", _INT8, _listed("more")),
        (39, "tensor that is not listed", _INT8, _listed(_NAME + ".weight", remove=True)),
        (0, "type that names code", _INT8, _described(_type="os.system")),
        (0, "class of torchao that is no tensor", _INT8, _described(_type="PerRow")),
        (0, "dtype that is a function", _INT8, _data(dtype=_dtype("load"))),
        (0, "dtype that is a module", _INT8, _data(dtype=_dtype("hub"))),
        (31, "block of no elements", _INT8, _data(block_size=[1, 0])),
        (31, "block of negative size", _INT8, _data(block_size=[1, -64])),
        (31, "block of text", _INT8, _data(block_size="16")),
        (24, "name without a dot", _INT8, _without_a_dot),
        (10, "field that torchao does not have", _INT8, _data(more=1)),
    ]
    for number, what, name, change in cases:

        def make(folder: Path, name: str = name, change: Change = change) -> Mapping[str, Path]:
            folder.mkdir()
            return {OURS: _changed(DATA / "0.18.0" / f"{name}.safetensors", change, folder)}

        yield Case("torchao tensors", number, what, make)


def cases() -> list[Case]:
    """Return all of them."""
    return [*files(), *configs(), *torchao_tensors()]


def _changed(source: Path, change: Change, folder: Path) -> Path:
    content = source.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    head, data = json.loads(content[8:end]), bytearray(content[end:])
    change(head, data)
    text = json.dumps(head).encode()
    path = folder / "model.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def _put(key: str, element: bytes) -> Change:
    """Return a change of the first element of a tensor."""

    def change(head: dict[str, Any], data: bytearray) -> None:
        start = head[key]["data_offsets"][0]
        data[start : start + len(element)] = element

    return change


def _renamed(before: str, after: str) -> Change:
    return lambda head, _: head.update({after: head.pop(before)})


def _without_a_dot(head: dict[str, Any], _: bytearray) -> None:
    before = f"{_NAME}.bias"
    head["bias"] = head.pop(before)
    said = head["__metadata__"]
    said["bias"] = said.pop(before)
    said["tensor_names"] = said["tensor_names"].replace(before, "bias")


def _listed(name: str, *, remove: bool = False) -> Change:
    """Return a change of the list of names."""

    def change(head: dict[str, Any], _: bytearray) -> None:
        names = json.loads(head["__metadata__"]["tensor_names"])
        names = [n for n in names if n != name] if remove else [*names, name]
        head["__metadata__"]["tensor_names"] = json.dumps(names)

    return change


def _described(**members: Any) -> Change:
    """Return a change of what is said of a tensor."""

    def change(head: dict[str, Any], _: bytearray) -> None:
        said = json.loads(head["__metadata__"][f"{_NAME}.weight"])
        head["__metadata__"][f"{_NAME}.weight"] = json.dumps(said | members)

    return change


def _data(**fields: Any) -> Change:
    """Return a change of the fields of a tensor."""

    def change(head: dict[str, Any], _: bytearray) -> None:
        said = json.loads(head["__metadata__"][f"{_NAME}.weight"])
        said["_data"] |= fields
        head["__metadata__"][f"{_NAME}.weight"] = json.dumps(said)

    return change


def _dtype(name: str) -> dict[str, str]:
    return {"_type": "torch.dtype", "_data": name}
