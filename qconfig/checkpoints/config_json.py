"""The `quantization_config` of config.json: ours in, ours out, everything else untouched."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve

from qconfig.checkpoints.checkpoint import CONFIG_FILE, CONFIG_KEY, Checkpoint
from qconfig.codec import strict_json
from qconfig.codec.converter import structure_any, unstructure
from qconfig.codec.index_file import check_link
from qconfig.codec.regular_files import read_document
from qconfig.errors import CheckpointError, QconfigError, raise_problems
from qconfig.versioning import Config, registry

QUANT_METHOD = "qconfig"


def read_config_json(directory: Path, *, follow_symlinks: bool = False) -> dict[str, Any] | None:
    """Return config.json of a directory, or None where there is none.

    Args:
        directory: where it lies.
        follow_symlinks: also accept a link to a file elsewhere.

    Raises:
        CheckpointError: it is no object, or its quantization config is none.
        ContainerError, StorageError, DocumentSyntaxError: it cannot be read.
    """
    file = directory / CONFIG_FILE
    if not os.path.lexists(file):
        return None
    check_link(file, follow_symlinks=follow_symlinks)
    data = strict_json.loads(read_document(file), file=file)
    if not isinstance(data, dict):
        raise CheckpointError("not an object", file=file, found=data, expected="a JSON object")
    quantization = data.get(CONFIG_KEY)
    if quantization is not None and not isinstance(quantization, dict):
        raise CheckpointError(
            f"{CONFIG_KEY} is not an object",
            file=file,
            pointer=f"/{CONFIG_KEY}",
            found=quantization,
            expected="an object with quant_method, or null",
        )
    return data


def with_config(config_json: Mapping[str, Any] | None, config: Config | None) -> dict[str, Any]:
    """Return config.json with our quantization config in place of any other."""
    rest = dict(config_json or {})
    if config is not None:
        rest[CONFIG_KEY] = {
            "quant_method": QUANT_METHOD,
            "config": unstructure(registry.convert(config)),
        }
    return rest


def without_config(checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint without its quantization config, and a note that says so."""
    left_out = checkpoint.quantization_config
    if left_out is None:
        return checkpoint
    rest = {k: v for k, v in (checkpoint.config_json or {}).items() if k != CONFIG_KEY}
    note = f"{CONFIG_KEY} is left out, as was asked for: nobody says how the tensors were made"
    return evolve(
        checkpoint,
        config_json=rest,
        config=None,
        left_out=left_out,
        notes=(*checkpoint.notes, note),
    )


def is_foreign(checkpoint: Checkpoint) -> bool:
    """Return whether a checkpoint was quantized by somebody else, and holds no layout of ours."""
    is_quantized = checkpoint.quantization_config is not None
    is_read = checkpoint.layouts or checkpoint.config is not None
    return is_quantized and not is_read and checkpoint.quant_method != QUANT_METHOD


def stored_config(checkpoint: Checkpoint) -> Config | None:
    """Return the config that a checkpoint carries, brought to its current version, or None.

    Raises:
        CheckpointError: the checkpoint was quantized by somebody else.
        DocumentError: our config is wrong.
    """
    data = checkpoint.quantization_config
    if data is None or checkpoint.config is not None:
        return checkpoint.config
    file = checkpoint.directory / CONFIG_FILE
    if checkpoint.quant_method != QUANT_METHOD or set(data) != {"quant_method", "config"}:
        raise CheckpointError(
            "the quantization config is not ours",
            file=file,
            pointer=f"/{CONFIG_KEY}/quant_method",
            found=checkpoint.quant_method,
            expected=f'an object with quant_method "{QUANT_METHOD}" and config',
        )
    try:
        config: Config = structure_any(data["config"])
    except QconfigError as error:
        prefix = f"/{CONFIG_KEY}/config"
        raise_problems([p.at(file=file, pointer_prefix=prefix) for p in error.problems], file=file)
        raise
    return config
