"""Checkpoints of 10,000 to 100,000 tiny tensors, and configs of 20,000 entries.

Run: `python -m tests.benchmarks.bench_scale [--most 100000] [--folder DIR]`.

Microseconds of processor time a weight, of one call each, in one file and in 50. `load_file` and
`save_file` of safetensors read and write the same bytes as plain tensors. Documents are compared
with torchao's `config_from_dict` and `config_to_dict`, medians in turn, in ms of processor time.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from qconfig import (
    Int8WeightOnlyConfig,
    inspect_checkpoint,
    load_checkpoint,
    quantize_checkpoint,
    save_checkpoint,
    upgrade_checkpoint,
    verify_checkpoint,
)
from qconfig.checkpoints.checkpoint import SINGLE_FILE
from qconfig.codec import strict_json
from qconfig.codec.converter import structure_any, unstructure
from qconfig.codec.dtypes import DType
from qconfig.codec.safetensors_header import read_header
from qconfig.dialects.torchao import from_envelope, to_envelope
from qconfig.engine.plan import make_plan
from qconfig.engine.targets import named_targets
from tests.benchmarks.timing import row, side_by_side

SHARDS = 50
ENTRIES = 20_000
FORMS = {
    "exact names": "model.layers.{}.mlp.experts.{}.up_proj",
    "regular expressions": r"re:model\.layers\.{}\.mlp\.experts\.{}\.(gate|up)_proj",
    "none matches": r"re:.*block{}\.thing{}.*_x",
}


def main() -> None:
    """Print two Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    torch.set_num_threads(1)
    verbs = ("open header", "load", "save", "quantize", "upgrade", "verify", "inspect")
    row("weights", "files", *verbs, "load_file", "save_file", "bytes of header")
    row(*["---:"] * 12)
    for count in (10_000, 30_000, 100_000):
        for shards in (1, SHARDS) if count <= options.most else ():
            folder = Path(tempfile.mkdtemp(dir=options.folder))
            try:
                checkpoints(folder, count, shards)
            finally:
                shutil.rmtree(folder)
    documents()


def checkpoints(folder: Path, count: int, shards: int) -> None:
    """Print the row of one number of weights."""
    source, new = folder / "source", folder / "q"
    write_weights(source, count, shards)

    def each(call: Callable[[], Any]) -> float:
        start = time.process_time()
        call()
        return (time.process_time() - start) / count * 1e6

    quantize = each(partial(quantize_checkpoint, source, new, Int8WeightOnlyConfig()))
    shutil.rmtree(source)
    files = sorted(new.glob("*.safetensors"))
    state_dict = load_checkpoint(new)
    tensors = [load_file(file) for file in files]
    header = sum(read_header(file).data_start for file in files) / count
    row(
        f"{count:,}",
        shards,
        each(lambda: [read_header(file) for file in files]),
        each(partial(load_checkpoint, new)),
        each(partial(save_checkpoint, state_dict, folder / "s")),
        quantize,
        each(partial(upgrade_checkpoint, new, folder / "u")),
        each(partial(verify_checkpoint, new)),
        each(partial(inspect_checkpoint, new)),
        each(lambda: [load_file(file) for file in files]),
        each(lambda: [save_file(t, folder / f"{i}.x") for i, t in enumerate(tensors)]),
        header,
    )


def write_weights(folder: Path, count: int, shards: int) -> None:
    """Write tiny bf16 weights, each shard with as many."""
    folder.mkdir()
    weight = torch.randn(4, 8).to(torch.bfloat16)
    weight_map = {}
    for shard in range(shards):
        name = SINGLE_FILE if shards == 1 else f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        part = {weight_name(i): weight.clone() for i in range(shard, count, shards)}
        save_file(part, folder / name, {"format": "pt"})
        weight_map |= dict.fromkeys(part, name)
    if shards > 1:
        index = {"metadata": {"total_size": 64 * count}, "weight_map": weight_map}
        (folder / f"{SINGLE_FILE}.index.json").write_text(json.dumps(index))


def weight_name(number: int) -> str:
    """Return the name of an expert's weight."""
    return f"model.layers.{number // 100}.mlp.experts.{number % 100}.up_proj.weight"


def documents() -> None:
    """Print what documents of very many entries cost, in ms."""
    from torchao.core.config import config_from_dict, config_to_dict
    from torchao.quantization import FqnToConfig as TorchaoMap
    from torchao.quantization import Int8WeightOnlyConfig as TorchaoInt8
    from torchao.quantization import PerGroup, PerRow, PerTensor

    kinds = [{"type": "PerRow"}, {"type": "PerTensor"}]
    kinds += [{"type": "PerGroup", "group_size": size} for size in (32, 64)]
    head = {"type": "Int8WeightOnlyConfig", "version": 3}
    configs = {f"c{i}": head | {"granularity": kind} for i, kind in enumerate(kinds)}
    granularities = (PerRow(), PerTensor(), PerGroup(32), PerGroup(64))
    theirs = [TorchaoInt8(granularity=g, version=2) for g in granularities]
    shape = (64, 64)
    targets = named_targets((weight_name(i), shape, DType.BFLOAT16) for i in range(ENTRIES))
    columns = (
        "load",
        "plan",
        "dump",
        "load torchao's form",
        "dump it",
        "torchao's load",
        "its dump",
    )
    print()
    row(f"{ENTRIES:,} entries", *columns)
    row("---", *["---:"] * 7)
    for words, form in FORMS.items():
        matches = [form.format(i // 100, i % 100) for i in range(ENTRIES)]
        rules = [{"match": m, "use": f"c{i % 4}"} for i, m in enumerate(matches)]
        data = {"type": "FqnToConfig", "version": 2, "configs": configs, "rules": rules}
        text = json.dumps(data)
        config = structure_any(data)
        other = TorchaoMap(OrderedDict((m, theirs[i % 4]) for i, m in enumerate(matches)))
        other_text = json.dumps(config_to_dict(other))
        read = from_envelope(json.loads(other_text))
        calls: dict[str, Callable[[], Any]] = {
            "load": partial(_then, strict_json.loads, structure_any, text),
            "plan": partial(make_plan, targets, config, allow_unmatched=True),
            "dump": partial(_then, unstructure, strict_json.dumps, config),
            "theirs": partial(_then, strict_json.loads, from_envelope, other_text),
            "dump theirs": partial(_then, to_envelope, strict_json.dumps, read),
            "torchao": partial(_then, json.loads, config_from_dict, other_text),
            "torchao dump": partial(_then, config_to_dict, json.dumps, other),
        }
        ms = side_by_side(calls, 5, time.process_time)
        row(words, *ms.values())


def _then(first: Callable[[Any], Any], second: Callable[[Any], Any], value: Any) -> Any:
    return second(first(value))


if __name__ == "__main__":
    main()
