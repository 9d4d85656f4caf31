"""The quantization config in a model's config.json, where torchao or transformers wrote it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qconfig.checkpoints.checkpoint import CONFIG_FILE, CONFIG_KEY
from qconfig.checkpoints.writer import Writer
from qconfig.dialects.torchao.read import read_document
from qconfig.dialects.torchao.wrappers import is_envelope
from qconfig.errors import QconfigError
from qconfig.versioning import Config

_ALONE = "the tensors alone are read with --without-config, in Python keep_config=False"


def is_torchaos(config_json: Mapping[str, Any] | None) -> bool:
    """Return whether a config.json says that torchao quantized the model."""
    found = (config_json or {}).get(CONFIG_KEY)
    return isinstance(found, Mapping) and is_envelope(found)


def model_config(
    config_json: Mapping[str, Any] | None, writer: Writer | None, directory: Path
) -> tuple[Config | None, tuple[str, ...]]:
    """Return the config of a model in its current version, and what to say about it.

    Notes on what the tensors beside it show are left out.

    Raises:
        QconfigError: the document cannot be read; pointers lead into config.json.
    """
    if config_json is None or not is_torchaos(config_json):
        return None, ()
    try:
        read = read_document(config_json[CONFIG_KEY], writer=writer)
    except QconfigError as error:
        for problem in error.problems:
            problem.hint = f"{problem.hint}; {_ALONE}" if problem.hint else _ALONE
        raise error.at(file=directory / CONFIG_FILE, pointer_prefix=f"/{CONFIG_KEY}") from None
    notes = [note for note in read.notes if not note.without_tensors]
    return read.config, tuple(f"{CONFIG_KEY}{note.pointer}: {note.text}" for note in notes)
