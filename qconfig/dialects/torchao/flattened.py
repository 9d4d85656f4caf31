"""torchao's safetensors: its tensors flattened, described by JSON in the header's metadata."""

from collections.abc import Mapping
from typing import Any

from qconfig.checkpoints.checkpoint import Checkpoint
from qconfig.checkpoints.dialects import Found
from qconfig.checkpoints.writer import Writer
from qconfig.codec.safetensors_header import Header
from qconfig.dialects.torchao.agreed_config import agreed_config
from qconfig.dialects.torchao.forms import NEWEST
from qconfig.dialects.torchao.interpreted import interpreted
from qconfig.dialects.torchao.model_config import is_torchaos, model_config
from qconfig.dialects.torchao.safetensors_read import is_torchao, read_flattened


class TorchaoSafetensors:
    """Safetensors files as torchao 0.14 and later and transformers write them."""

    name = "torchao"
    library = "torchao"
    newest = NEWEST

    def recognises(
        self, headers: Mapping[str, Header], config_json: Mapping[str, Any] | None
    ) -> bool:
        """Return whether the metadata or config.json says so."""
        return is_torchaos(config_json) or any(is_torchao(h.metadata) for h in headers.values())

    def assemble(self, found: Found, writer: Writer | None) -> Checkpoint:
        """Return the checkpoint that the files are.

        Raises:
            CheckpointError: tensors are incomplete or not as the metadata says; all at once.
            QconfigError: a tensor or the config cannot be read.
        """
        config, notes = model_config(found.config_json, writer, found.directory)
        flattened = read_flattened(found.headers, found.tensors)
        result = interpreted(
            flattened.plain, flattened.stored, flattened.shard_of, writer, found.directory
        )
        config, notes = agreed_config(config, notes, result.layouts, result.plain)
        return Checkpoint(
            found.directory,
            found.headers,
            result.plain,
            result.layouts,
            result.shard_of,
            {},
            found.config_json,
            flattened.metadata,
            (*notes, *flattened.notes, *result.notes()),
            dialect=self.name,
            origins=result.origins,
            config=config,
        )
