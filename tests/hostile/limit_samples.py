"""For each field of `Limits` a sound file that asks for a known amount of what the field bounds."""

import json
import pickletools
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from attrs import frozen
from safetensors.torch import save_file

from tests.cli.calls import ROW
from tests.codec.torch_samples import saved
from tests.hostile import samples as s


@frozen
class Sample:
    """A file, the verb that reads it, and how much it asks for.

    Args:
        make: writes it into a new folder and returns the arguments of the verb.
        needs: the smallest bound under which it is read; a function gets the folder.
    """

    make: Callable[[Path], list[object]]
    needs: int | Callable[[Path], int]


def _config(text: str, suffix: str = ".json") -> Callable[[Path], list[object]]:
    def make(folder: Path) -> list[object]:
        folder.mkdir()
        (folder / f"c{suffix}").write_text(text, "utf-8")
        return ["validate", folder / f"c{suffix}"]

    return make


def _rules(*matches: str) -> Callable[[Path], list[object]]:
    rules = [{"match": match, "use": "row"} for match in matches]
    document = {"type": "FqnToConfig", "version": 2, "configs": {"row": ROW}, "rules": rules}
    return _config(json.dumps(document))


def _tensors(
    metadata: dict[str, str] | None = None, **tensors: torch.Tensor
) -> Callable[[Path], list[object]]:
    def make(folder: Path) -> list[object]:
        folder.mkdir()
        save_file(tensors, folder / "model.safetensors", metadata)
        return ["inspect", folder]

    return make


def _pickle(value: Any) -> Callable[[Path], list[object]]:
    def make(folder: Path) -> list[object]:
        folder.mkdir()
        return ["inspect", saved(value, folder / "m.pt"), "--from", "torchao-pickle"]

    return make


def _planned(folder: Path) -> list[object]:
    folder.mkdir()
    save_file({"a" * 40: torch.ones(4, 4)}, folder / "model.safetensors")
    config = {"type": "FqnToConfig", "version": 2, "configs": {"row": ROW}, "default": "row"}
    (folder / "quant.json").write_text(json.dumps(config))
    return ["plan", folder, folder / "quant.json", "--allow-unmatched"]


def _carried(folder: Path) -> list[object]:
    s.single(lambda home: (home / "a" / "b").mkdir(parents=True))(folder)
    config = folder.parent / "c.json"
    config.write_text(json.dumps(ROW))
    return ["quantize", folder, folder.parent / "target", "--config", config]


def _sharded(folder: Path) -> list[object]:
    return ["inspect", s.sharded()(folder)]


def _header_bytes(folder: Path) -> int:
    return int.from_bytes((folder / "model.safetensors").read_bytes()[:8], "little")


def _records(folder: Path) -> int:
    with zipfile.ZipFile(folder / "m.pt") as file:
        return len(file.namelist())


def _stored_pickle(folder: Path) -> bytes:
    with zipfile.ZipFile(folder / "m.pt") as file:
        return next(file.read(name) for name in file.namelist() if name.endswith("data.pkl"))


def _pickle_bytes(folder: Path) -> int:
    return len(_stored_pickle(folder))


def _operations(folder: Path) -> int:
    return sum(1 for _ in pickletools.genops(_stored_pickle(folder)))


_TEXT = json.dumps(ROW)
_SHARED = torch.zeros(1000)
SAMPLES = {
    "header_bytes": Sample(_tensors(a=torch.ones(2)), _header_bytes),
    "tensors": Sample(_tensors(a=torch.ones(2), b=torch.ones(2)), 2),
    "rank": Sample(_tensors(a=torch.ones(1, 1, 2)), 3),
    "dimension": Sample(_tensors(a=torch.ones(7, 2)), 7),
    "name_bytes": Sample(_tensors(**{"a" * 50: torch.ones(2)}), 50),
    "file_name_bytes": Sample(_sharded, len(s.SHARDS[0])),
    "metadata_value_bytes": Sample(_tensors({"x": "é" * 20}, a=torch.ones(2)), 40),
    "json_depth": Sample(_rules("a"), 3),
    "folder_depth": Sample(_carried, 2),
    "json_values": Sample(_config(_TEXT), _TEXT.count(",") + 1),
    "document_bytes": Sample(_config(_TEXT), len(_TEXT)),
    "written_bytes": Sample(_config(_TEXT, ".yaml"), len(_TEXT)),
    "number_digits": Sample(
        _config('{"type": "Int4WeightOnlyConfig", "version": 1, "group_size": 128}'), 3
    ),
    "rules": Sample(_rules("a", "b", "c"), 3),
    "pattern_characters": Sample(_rules("a.*.b"), 5),
    "pattern_groups": Sample(_rules("re:(a)(b)"), 2),
    "pattern_cost": Sample(_rules("re:.*a.*b"), 14),
    "matched_characters": Sample(_planned, 40),
    "archive_records": Sample(_pickle({"x": torch.ones(2)}), _records),
    "pickle_bytes": Sample(_pickle({"x": torch.ones(2)}), _pickle_bytes),
    "pickle_operations": Sample(_pickle({"x": torch.ones(2)}), _operations),
    "pickle_depth": Sample(_pickle({"x": torch.ones(2)}), 4),
    "expanded_bytes": Sample(_pickle({"x": torch.zeros(4).expand(10, 4)}), 160),
    "shared_bytes": Sample(
        _pickle({str(i): _SHARED.view(10, 100) for i in range(9)}),
        lambda f: 36_000 - (f / "m.pt").stat().st_size,
    ),
}
"""By the name of the field."""
