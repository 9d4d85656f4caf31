"""State_dicts of Brevitas' modules that were saved as safetensors."""

from collections.abc import Mapping
from typing import Any

from qconfig.checkpoints.checkpoint import Checkpoint
from qconfig.checkpoints.dialects import AnyDialect, Found
from qconfig.checkpoints.guidance import Guidance
from qconfig.checkpoints.writer import Writer
from qconfig.codec.safetensors_header import Header
from qconfig.dialects.brevitas.forms import LIBRARY, NEWEST
from qconfig.dialects.brevitas.guided_state import converted_state
from qconfig.dialects.brevitas.quantizer_keys import has_quantizers


class BrevitasSafetensors:
    """Safetensors files with the keys of Brevitas' quantizers; found by themselves.

    Args:
        guidance: what the caller says of a state_dict, which lacks most of what it was made with;
            None to leave it under its own names.
    """

    name: str = "brevitas-safetensors"
    library: str = LIBRARY
    newest: tuple[int, int] = NEWEST

    def __init__(self, guidance: Guidance | None = None) -> None:
        self.guidance = guidance

    def recognises(
        self, headers: Mapping[str, Header], config_json: Mapping[str, Any] | None
    ) -> bool:
        """Return whether a file has keys of quantizers."""
        return any(has_quantizers(header.tensors) for header in headers.values())

    def guided(self, guidance: Guidance) -> AnyDialect:
        """Return the dialect with what the caller says."""
        return BrevitasSafetensors(guidance)

    def assemble(self, found: Found, writer: Writer | None) -> Checkpoint:
        """Return the checkpoint that the files are.

        Raises:
            QconfigError: a key has no place, a tensor is missing, or the config contradicts them.
        """
        plain, notes = converted_state(found.tensors, {}, self.guidance, found.directory)
        # What was only renamed is the same value.
        names = {id(tensor): name for name, tensor in found.tensors.items()}
        first = next(iter(found.headers))
        shard_of = {
            name: found.located[names[id(tensor)]] if id(tensor) in names else first
            for name, tensor in plain.items()
        }
        return Checkpoint(
            found.directory,
            found.headers,
            plain,
            {},
            shard_of,
            {},
            found.config_json,
            {name: dict(header.metadata) for name, header in found.headers.items()},
            notes,
            dialect=self.name,
        )
