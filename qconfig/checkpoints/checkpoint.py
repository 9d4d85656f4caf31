"""An opened checkpoint: what its files hold, before any tensor is read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from qconfig.checkpoints.origin import Origin
from qconfig.codec.digests import Digests
from qconfig.codec.index_file import ShardIndex
from qconfig.codec.regular_files import SourceFile
from qconfig.codec.tensor_values import LazyTensor
from qconfig.versioning import Config, Layout

CONFIG_FILE = "config.json"
CONFIG_KEY = "quantization_config"
INDEX_FILE = "model.safetensors.index.json"
SINGLE_FILE = "model.safetensors"


@frozen
class Checkpoint:
    """An opened checkpoint.

    Args:
        directory: where its files lie.
        shards: the files that hold tensors, by name; those of a new checkpoint follow them.
        plain: tensors that belong to no layout, by name.
        layouts: quantized tensors by FQN, in the version they were written in; their tensor
            fields are lazy.
        shard_of: file name of each plain tensor and of the first field of each quantized one.
        ties: further names of stored tensors.
        config_json: the whole of config.json, or None.
        metadata: header metadata of each shard, without our record.
        notes: what is odd but harmless.
        is_directory: whether a directory was opened, and not one file of it.
        index: what the index says, where there is one.
        dialect: in whose form the files were written.
        origins: what each quantized tensor was, in another library's checkpoint.
        config: the quantization config, where a dialect has read it already.
        consumed: names of further files of the directory that are part of the checkpoint, so that
            they are not carried along.
        left_out: the quantization config, where it was asked to be left out.
        digests: of the shards that have them, by file name.
    """

    directory: Path
    shards: Mapping[str, SourceFile]
    plain: dict[str, LazyTensor]
    layouts: dict[str, Layout]
    shard_of: dict[str, str]
    ties: dict[str, str]
    config_json: dict[str, Any] | None
    metadata: dict[str, dict[str, str]]
    notes: tuple[str, ...] = ()
    is_directory: bool = True
    index: ShardIndex | None = None
    dialect: str = "qconfig"
    origins: dict[str, Origin] = field(factory=dict)
    config: Config | None = None
    consumed: frozenset[str] = frozenset()
    left_out: Any = field(default=None, repr=False)
    digests: dict[str, Digests] = field(factory=dict, repr=False)

    @property
    def place(self) -> Path:
        """What errors name: the directory, or the one file of it that was opened."""
        return self.directory if self.is_directory else self.directory / next(iter(self.shards))

    @property
    def quantization_config(self) -> Any:
        """The `quantization_config` of config.json, or None."""
        return (self.config_json or {}).get(CONFIG_KEY)

    @property
    def quant_method(self) -> Any:
        """The `quant_method` of the quantization config: who quantized the checkpoint, or None."""
        return (self.quantization_config or {}).get("quant_method")
