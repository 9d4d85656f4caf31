"""What is fuzzed: each target reads bytes from outside, and may raise errors of ours only.

Where a reader stops at the first wrong length or checksum, a target puts those right itself, so
that changes reach what lies behind. What it raises that is no `QconfigError` is a finding.
"""

import json
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from qconfig import load_checkpoint, verify_checkpoint
from qconfig.api import config_from_dict, config_to_dict, read_config
from qconfig.checkpoints.open import open_checkpoint
from qconfig.codec.documents import parse_document
from qconfig.codec.index_file import read_index
from qconfig.codec.safetensors_header import LENGTH_BYTES, parse_header, read_header
from qconfig.codec.safetensors_reader import lazy_tensors
from qconfig.codec.torch_files import read_torch_file
from qconfig.dialects.brevitas.pickles import NAMES as BREVITAS_NAMES
from qconfig.dialects.torchao.tensors.names import NAMES as TORCHAO_NAMES
from qconfig.errors import InexactWarning, QconfigError
from tests.codec.torch_samples import of_pickle

Target = Callable[[bytes, Path], object]
MOST_BYTES = 1 << 20
"""Of one made file: larger ones are slow and find nothing else."""


def header(data: bytes, folder: Path) -> None:
    """Read a safetensors file, and its tensors."""
    path = folder / "model.safetensors"
    path.write_bytes(data)
    for tensor in lazy_tensors(read_header(path)).values():
        tensor.load()


def header_text(data: bytes, folder: Path) -> None:
    """Read a header whose length is right; what the data is too short for is the last check."""
    buffer = len(data).to_bytes(LENGTH_BYTES, "little") + data
    parse_header(buffer, file_size=len(buffer) + 64, path=folder / "model.safetensors")


def index(data: bytes, folder: Path) -> None:
    """Read the index of a sharded checkpoint."""
    path = folder / "model.safetensors.index.json"
    path.write_bytes(data)
    read_index(path)


def config(form: str, data: bytes, folder: Path) -> None:
    """Read a config document of ours or torchao's; what was read can be written and read again."""
    document = parse_document(data, form, file=folder / f"quant.{form}")
    read = read_config(document).config
    written = config_to_dict(read)
    if config_from_dict(written) != read:
        raise AssertionError(f"{written} is not read as what was written")


def metadata(data: bytes, folder: Path) -> None:
    """Read a safetensors file made from a description of its tensors and metadata.

    The description is `{"tensors": {name: [dtype, shape]}, "metadata": {key: value}}`. A value
    that is no string is written as JSON, which is what metadata is for torchao, Brevitas and us.
    """
    made = safetensors_of(data)
    if made is None:
        return
    path = folder / "model.safetensors"
    path.write_bytes(made)
    open_checkpoint(path)
    verify_checkpoint(path)
    load_checkpoint(path, mmap=False)


def archive(data: bytes, folder: Path) -> None:
    """Read a file of torch.save whole."""
    path = folder / "m.pt"
    path.write_bytes(data)
    for names in (TORCHAO_NAMES, BREVITAS_NAMES):
        repr(read_torch_file(path, names).root)


def pickled(dialect: str, data: bytes, folder: Path) -> None:
    """Read a pickle in a sound archive: a line with the sizes of its storages, then its bytes."""
    line, _, pickle = data.partition(b"\n")
    sizes = [int(word) for word in line.split() if word.isdigit() and len(word) < 8]
    if sum(sizes) > MOST_BYTES or len(sizes) > 64:
        return
    path = folder / "m.pt"
    path.write_bytes(of_pickle(pickle, {str(i): bytes(size) for i, size in enumerate(sizes)}))
    open_checkpoint(path, dialect=dialect)
    load_checkpoint(path, dialect=dialect)


TARGETS: Mapping[str, Target] = {
    "header": header,
    "header_text": header_text,
    "index": index,
    "config_json": partial(config, "json"),
    "config_yaml": partial(config, "yaml"),
    "config_toml": partial(config, "toml"),
    "torchao_metadata": metadata,
    "qconfig_record": metadata,
    "brevitas_metadata": metadata,
    "torch_archive": archive,
    "torchao_pickle": partial(pickled, "torchao-pickle"),
    "brevitas_pickle": partial(pickled, "brevitas"),
}
"""By the name of the folder of seeds in `corpus`."""


def attempt(name: str, data: bytes, folder: Path) -> bool:
    """Run a target and return whether it took the bytes; anything but an error of ours raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InexactWarning)
        try:
            TARGETS[name](data, folder)
        except QconfigError as error:
            # What an error says is made of the bytes, too.
            str(error)
            json.dumps(error.to_dict())
            return False
    return True


def safetensors_of(description: bytes) -> bytes | None:
    """Return the file that a description asks for, or None where it is no description."""
    try:
        made = json.loads(description)
        tensors, said = made["tensors"], made["metadata"]
        head: dict[str, Any] = {"__metadata__": {k: _text(v) for k, v in said.items()}}
        end = 0
        for name, (dtype, shape) in tensors.items():
            size = _bits(dtype)
            for extent in shape:
                size *= extent if type(extent) is int and extent < MOST_BYTES else 0
            start, end = end, end + size // 8
            head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
        text = json.dumps(head).encode()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return None
    if not 0 <= end <= MOST_BYTES:
        return None
    return len(text).to_bytes(LENGTH_BYTES, "little") + text + bytes(end)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _bits(dtype: str) -> int:
    # BOOL has no number in its name, and takes 8.
    digits = "".join(c for c in dtype.partition("_")[0] if c in "0123456789")
    return int(digits[:4]) if digits else 8
