"""The config of a quantizer as a buffer: what was trained says what it was trained as.

Neither metadata of a state dict nor `_extra_state` would do: a file of safetensors keeps neither.
A tensor of the bytes of the document goes wherever the weights go, and a quantizer of another
config refuses it by both names instead of taking thresholds for what they are not.
"""

from typing import Any

import torch
from attrs import evolve, fields
from torch import nn

from qconfig.codec.converter import unstructure
from qconfig.codec.documents import parse_config_document
from qconfig.codec.strict_json import dumps_compact, loads
from qconfig.errors import QconfigError, shown
from qconfig.versioning import Config

RECORD = "config"
"""Name of the buffer."""


def own_part(config: Any) -> Any:
    """Return a config without those of input, output and bias: what one quantizer records."""
    return evolve(config, input=None, output=None, bias=None)


def document_bytes(config: Config) -> torch.Tensor:
    """Return the canonical document of a config in UTF-8, as uint8 of shape (bytes,)."""
    text = dumps_compact(unstructure(config))
    return torch.tensor(list(text.encode()), dtype=torch.uint8)


def recorded_config(record: torch.Tensor) -> Config:
    """Return the config that a buffer holds, in its current version.

    Raises:
        QconfigError: it holds no document of a config.
    """
    data = bytes(record.detach().cpu().flatten().to(torch.uint8).tolist())
    return parse_config_document(loads(data))


class RecordsConfig(nn.Module):
    """A module with the document of its config in a buffer, which state dicts are checked against.

    Args:
        config: what is recorded.

    Attributes:
        config: uint8, shape (bytes,); the canonical document.
    """

    config: torch.Tensor

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._recorded = config
        self.register_buffer(RECORD, document_bytes(config))

    @property
    def recorded(self) -> Any:
        """The config."""
        return self._recorded

    def _load_from_state_dict(  # noqa: PLR0917
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,  # noqa: FBT001
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        key = prefix + RECORD
        found = state_dict.get(key)
        if found is not None:
            problem = contradiction(self._recorded, found)
            if problem is not None:
                error_msgs.append(f"{key}: {problem}")
            # An older version of the same document has other bytes, and is the same config.
            state_dict = {**state_dict, key: self.config}
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


def contradiction(own: Any, record: torch.Tensor) -> str | None:
    """Return how a recorded config differs from the one at hand, or None if it does not."""
    try:
        stored: Any = recorded_config(record)
    except QconfigError as error:
        return f"the state dict has no config of a quantizer there ({error.message})"
    if stored == own:
        return None
    if type(stored) is not type(own):
        return _refused(type(stored).__name__, type(own).__name__)
    names = [f.name for f in fields(type(own)) if getattr(stored, f.name) != getattr(own, f.name)]
    return _refused(*(_described(config, names) for config in (stored, own)))


def _refused(stored: str, own: str) -> str:
    return (
        f"the state dict is of a quantizer with another config\n  found: {stored}\n"
        f"  expected: {own}\n  hint: quantize the model with the config that the state dict records"
    )


def _described(config: Any, names: list[str]) -> str:
    values = ", ".join(f"{name}={shown(unstructure(getattr(config, name)))}" for name in names)
    return f"{type(config).__name__}({values})"
