"""What a user of the installed package `sketch` does; run by `test_third_party.py`.

Prints one JSON object. It imports nothing of `sketch` itself: all of it comes by the entry point.
"""

import json
import sys
from pathlib import Path

import torch
from torch import nn

import qconfig
from qconfig.checkpoints.contents import ShardContents
from qconfig.codec.safetensors_writer import write_safetensors
from qconfig.codec.tensor_values import LazyTensor
from qconfig.testing import conformance
from qconfig.versioning.schema import combined_schema, schema_of

MIXED = {
    "type": "FqnToConfig",
    "version": 2,
    "configs": {
        "sketch": {"type": "SketchConfig", "version": 1, "halved": True},
        "row": {"type": "Int8WeightOnlyConfig", "version": 3},
    },
    "rules": [{"match": "0", "use": "sketch"}],
    "default": "row",
}
REFUSED = {
    "type": "FqnToConfig",
    "version": 2,
    "configs": {"a": {"type": "SketchConfig", "version": 2, "bits": 3}},
}


def model() -> nn.Sequential:
    """Return the same small model each time."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 16))


def documents() -> dict:
    """Use the config's documents and schemas."""
    problems = qconfig.validate_config({"type": "SketchConfig", "version": 2, "bits": 9, "bit": 1})
    current, first = (qconfig.registry.get("SketchConfig", version) for version in (2, 1))
    return {
        "upgraded": qconfig.upgrade_config({"type": "SketchConfig", "version": 1, "halved": True}),
        "problems": [problem.pointer for problem in problems],
        "refused": qconfig.validate_config(REFUSED)[0].to_dict(),
        "bits": schema_of(current)["properties"]["bits"],
        "combined": [
            f"{e.name}.v{e.version}" in combined_schema()["$defs"] for e in (first, current)
        ],
    }


def live(folder: Path) -> dict:
    """Plan, quantize, save, inspect, verify and load a live model."""
    config = qconfig.config_from_dict(MIXED)
    planned, quantized = qconfig.plan(model(), config), model()
    done = qconfig.quantize_(quantized, config)
    qconfig.save_checkpoint(quantized, folder, config=config)
    loaded, inputs = model(), torch.randn(3, 64)
    qconfig.load_checkpoint(folder, model=loaded)
    return {
        "planned": planned == done,
        "classes": [type(layer.weight).__name__ for layer in loaded],
        "equal": torch.equal(loaded(inputs), quantized(inputs)),
        "explained": str(qconfig.explain("0", config)).splitlines()[0],
        "layouts": {t.fqn: t.layout for t in qconfig.inspect_checkpoint(folder).tensors},
        "problems": [str(p) for p in qconfig.verify_checkpoint(folder).problems],
    }


def shards(folder: Path) -> dict:
    """Quantize a float checkpoint without a model."""
    config = qconfig.config_from_dict(MIXED)
    qconfig.save_checkpoint(model(), folder / "float")
    qconfig.quantize_checkpoint(folder / "float", folder / "quantized", config)
    found, expected = qconfig.load_checkpoint(folder / "quantized"), model()
    qconfig.quantize_(expected, config)
    pairs = [
        (found[name].dequantize(), expected.get_parameter(name).dequantize())
        for name in ("0.weight", "1.weight")
    ]
    return {"equal": all(torch.equal(first, second) for first, second in pairs)}


def old(folder: Path) -> dict:
    """Upgrade a checkpoint of the first layout."""
    form = qconfig.registry.get("SketchLayout", 1).cls
    codes = torch.arange(6, dtype=torch.int8).reshape(2, 3)
    layout = form(LazyTensor.of(codes), LazyTensor.of(torch.tensor(0.5)), "float32")
    contents = ShardContents({}, {"layer.weight": layout})
    folder.mkdir()
    write_safetensors(folder / "model.safetensors", contents.tensors(), contents.header_metadata())
    before = qconfig.load_checkpoint(folder)["layer.weight"].dequantize()
    qconfig.upgrade_checkpoint(folder, folder.with_name("new"))
    upgraded = qconfig.load_checkpoint(folder.with_name("new"))["layer.weight"]
    versions = [
        qconfig.inspect_checkpoint(f).tensors[0].version for f in (folder, folder.with_name("new"))
    ]
    values = (codes * 0.5).tolist()
    return {
        "versions": versions,
        "values": before.tolist() == upgraded.dequantize().tolist() == values,
    }


def failed_checks() -> list[str]:
    """Run the conformance kit on the default config."""
    config = type(qconfig.config_from_dict({"type": "SketchConfig", "version": 2}))
    failed = []
    for check in conformance(config):
        try:
            check()
        except Exception as error:  # noqa: BLE001 (what fails, and how, is the result)
            failed.append(f"{check}: {error}")
    return failed


def main() -> None:
    """Print what happened."""
    folder = Path(sys.argv[1])
    folder.mkdir()
    result = {
        "documents": documents(),
        "live": live(folder / "live"),
        "shards": shards(folder),
        "old": old(folder / "old"),
        "failed_checks": failed_checks(),
    }
    print(json.dumps(result))  # noqa: T201


if __name__ == "__main__":
    main()
