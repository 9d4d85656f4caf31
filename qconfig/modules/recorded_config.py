"""The config of a quantizer as a buffer: what was trained says what it was trained as.

Neither metadata of a state dict nor `_extra_state` would do: a file of safetensors keeps neither.
A tensor of the bytes of the document goes wherever the weights go, and a quantizer of another
config refuses it by both names instead of taking thresholds for what they are not.
"""

from collections.abc import Mapping
from typing import Any

import torch
from attrs import evolve, fields
from torch import nn

from qconfig.codec.converter import unstructure
from qconfig.codec.documents import parse_config_document
from qconfig.codec.strict_json import dumps_compact, loads
from qconfig.configs.float_formats import minifloat_of
from qconfig.configs.quant_relations import FakeQuantizedConfig
from qconfig.errors import CheckpointError, QconfigError, UsageError, shown
from qconfig.versioning import Config

RECORD = "config"
"""Name of the buffer."""


def own_part(config: Any) -> Any:
    """Return a config without those of input, output and bias: what one quantizer records.

    Raises:
        UsageError: it is no config of the fake-quantized family.
    """
    if not isinstance(config, FakeQuantizedConfig):
        raise UsageError(
            "a quantizer is made of a config",
            found=config,
            expected="a config of the fake-quantized family",
            hint="such as IntQuantConfig(bit_width=4)",
        )
    own: Any = config
    return evolve(own, input=None, output=None, bias=None)


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

    def extra_repr(self) -> str:
        """Return what the config says beside its defaults."""
        config = self.recorded
        said = {f.name: getattr(config, f.name) for f in fields(type(config))}
        plain = type(config)()
        return _described(config, [n for n, v in said.items() if v != getattr(plain, n)])

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
                error_msgs.append(str(problem.at(fqn=key)))
            # An older version of the same document has other bytes, and is the same config. The
            # buffer is not taken: a module that was on the meta device has no bytes there.
            state_dict = {**state_dict, key: own_record(self, found)}
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def _apply(self, fn: Any, recurse: bool = True) -> "RecordsConfig":  # noqa: FBT001, FBT002
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if not (self.config.is_meta or self.config.is_inference()):
            with torch.no_grad():
                # Module.to_empty, for one, leaves whatever lay in memory.
                self.config.copy_(document_bytes(self._recorded))
        return self


def own_record(module: RecordsConfig, found: torch.Tensor) -> torch.Tensor:
    """Return the record of a module in place of one that was found, on the device of that one."""
    record = document_bytes(module.recorded)
    return record if found.is_meta else record.to(found.device)


def check_records(
    model: nn.Module, tensors: Mapping[str, torch.Tensor]
) -> tuple[list[QconfigError], dict[str, torch.Tensor]]:
    """Compare the configs that tensors record with those of a model, before any is loaded.

    Args:
        model: any module.
        tensors: a state dict for it.

    Returns:
        A problem for each quantizer of another config; and the records that the model has itself,
        which stand for equal ones of other bytes.
    """
    problems: list[QconfigError] = []
    own: dict[str, torch.Tensor] = {}
    for prefix, module in model.named_modules(remove_duplicate=False):
        if not isinstance(module, RecordsConfig):
            continue
        key = f"{prefix}.{RECORD}" if prefix else RECORD
        if key not in tensors:
            continue
        problem = contradiction(module.recorded, tensors[key])
        own[key] = own_record(module, tensors[key])
        if problem is not None:
            problems.append(problem.at(fqn=key))
    return problems, own


def contradiction(own: Any, record: torch.Tensor) -> CheckpointError | None:
    """Return how a recorded config differs from the one at hand, or None if it does not.

    A record on the meta device says nothing.
    """
    if record.is_meta:
        return None
    try:
        stored: Any = recorded_config(record)
    except QconfigError as error:
        return CheckpointError(
            f"no config of a quantizer is recorded here: {error.message}",
            expected=type(own).__name__,
        )
    stored, own = _spelt_out(stored), _spelt_out(own)
    if stored == own:
        return None
    names: list[str] = []
    if type(stored) is type(own):
        known = [f.name for f in fields(type(own))]
        names = [name for name in known if getattr(stored, name) != getattr(own, name)]
    problem = CheckpointError(
        "this is the state of a quantizer with another config",
        expected=_described(own, names),
        hint="quantize the model with the config that is recorded",
    )
    problem.found = _described(stored, names)
    return problem


def _spelt_out(config: Any) -> Any:
    """Return a config whose format says its exponent bias, by default too."""
    if getattr(config, "exponent_bias", 0) is not None:
        return config
    return evolve(config, exponent_bias=minifloat_of(config).exponent_bias)


def _described(config: Any, names: list[str]) -> str:
    if not names:
        return type(config).__name__
    values = ", ".join(f"{name}={shown(unstructure(getattr(config, name)))}" for name in names)
    return f"{type(config).__name__}({values})"
