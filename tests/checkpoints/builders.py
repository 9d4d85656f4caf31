"""Small checkpoints for the tests of this folder: float, current, and of old layout versions."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.write import write_checkpoint
from qconfig.codec.layout_values import wrapped
from qconfig.codec.tensor_values import LazyTensor
from qconfig.layouts import Int8TensorLayout
from qconfig.migrations.int8_tensor_layout import Int8TensorLayoutV1
from qconfig.versioning import Layout

LINEARS = ("layers.0.up.weight", "layers.0.down.weight")


def float_state_dict(dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    """Return two linear weights with biases, a norm and an embedding."""
    generator = torch.Generator().manual_seed(0)

    def rand(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).to(dtype)

    return {
        "layers.0.up.weight": rand(64, 32),
        "layers.0.up.bias": rand(64),
        "layers.0.down.weight": rand(32, 64),
        "layers.0.down.bias": rand(32),
        "norm.weight": rand(32),
        "embed_tokens.weight": rand(16, 32),
    }


def float_checkpoint(directory: Path, *, shards: int = 1) -> Path:
    """Write a float checkpoint with config.json, one more file, and an index for several shards."""
    directory.mkdir(parents=True)
    tensors = list(float_state_dict().items())
    (directory / "config.json").write_text(json.dumps({"model_type": "tiny", "x-mine": [1]}))
    (directory / "tokenizer.txt").write_text("a b c")
    if shards == 1:
        save_file(dict(tensors), directory / "model.safetensors", {"format": "pt"})
        return directory
    weight_map = {}
    for i in range(shards):
        name = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        part = dict(tensors[i::shards])
        save_file(part, directory / name, {"format": "pt"})
        weight_map |= dict.fromkeys(part, name)
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    return directory


def v1_layout(rows: int = 8, columns: int = 16, *, group: int | None = None) -> Int8TensorLayoutV1:
    """Return AffineQuantizedTensor's plain form with random codes and bf16 scales."""
    generator = torch.Generator().manual_seed(rows)
    codes = torch.randint(-128, 128, (rows, columns), generator=generator, dtype=torch.int8)
    shape = (rows,) if group is None else (rows, columns // group)
    scale = (torch.rand(shape, generator=generator) + 0.1).to(torch.bfloat16)
    zero_point = torch.zeros(shape, dtype=torch.int64)
    return Int8TensorLayoutV1(
        codes, scale, (1, group or columns), torch.bfloat16, zero_point=zero_point
    )


def current_layout(rows: int = 8, columns: int = 16) -> Int8TensorLayout:
    """Return today's form with random codes, per row."""
    generator = torch.Generator().manual_seed(rows)
    codes = torch.randint(-128, 128, (rows, columns), generator=generator, dtype=torch.int8)
    scale = torch.rand((rows, 1), generator=generator) + 0.1
    return Int8TensorLayout(codes, scale, (1, columns), torch.float32)


def checkpoint_of(
    directory: Path,
    layouts: dict[str, Layout],
    plain: dict[str, torch.Tensor] | None = None,
    config_json: dict[str, object] | None = None,
    ties: dict[str, str] | None = None,
) -> Path:
    """Write a checkpoint of one shard that holds the given layouts, of whatever version."""
    contents = ShardContents(
        {name: LazyTensor.of(t) for name, t in (plain or {}).items()},
        {fqn: wrapped(layout) for fqn, layout in layouts.items()},
        ties=ties or {},
    )
    write_checkpoint(directory, {"model.safetensors": contents}, config_json or {})
    return directory
