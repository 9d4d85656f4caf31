"""What transformers and compressed-tensors make of hostile inputs.

Neither is installed for tests: `python -m tests.docs.hostile_table --measure` calls these where
they are. A checkpoint gets the config.json of a tiny model, so that transformers gets as far as
the weights.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.hostile.reader_cases import OURS, Case
from tests.hostile.readers import HANGS, REFUSES, TAKES

DIES, FILLS = "dies", "fills memory"
RELEASES = {"transformers": "transformers", "compressed-tensors": "compressed_tensors"}
"""The module of each library."""
_SECONDS = 20
_MOST_BYTES = 10**6
_MOST_MEMORY = 2 * 10**9
_MODEL = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 16,
    "max_position_embeddings": 8,
}


def with_model(path: Path) -> Path:
    """Put the members of a tiny model last in config.json, whatever else it has."""
    file = path / "config.json"
    members = json.dumps(_MODEL)[1:]
    if not os.path.lexists(file):
        file.write_text("{" + members, "utf-8")
    elif file.is_file() and file.stat().st_size < _MOST_BYTES:
        text = file.read_text("utf-8")
        if text.endswith("}") and text.count("{") == 1:
            between = "" if text.endswith("{}") else ", "
            file.write_text(f"{text[:-1]}{between}{members}", "utf-8")
    return path


def of_transformers(path: Path) -> None:
    """Load a model from a folder."""
    import torch
    from transformers import AutoModel

    # Of the first tensor's dtype, which is int8 in many items, no model can be made.
    options = {"dtype": torch.float32, "trust_remote_code": False}
    AutoModel.from_pretrained(with_model(path), **options)


def of_transformers_config(path: Path) -> None:
    """Read torchao's config as a quantization_config."""
    from transformers import TorchAoConfig

    document = json.loads(path.read_text("utf-8"))
    TorchAoConfig.from_dict({"quant_method": "torchao", "quant_type": {"default": document}})


def of_compressed(path: Path) -> None:
    """Read config.json and load all tensors of a folder with compressed-tensors."""
    from compressed_tensors.utils.safetensors_load import (
        get_quantization_config,
        get_weight_mappings,
        load_tensors_from_inverse_weight_map,
    )

    if os.path.lexists(path / "config.json"):
        get_quantization_config(str(path / "config.json"))
    names: dict[str, list[str]] = {}
    for name, file in get_weight_mappings(str(path)).items():
        names.setdefault(file, []).append(name)
    load_tensors_from_inverse_weight_map(names)


def of_compressed_config(path: Path) -> None:
    """Read a config of compressed-tensors."""
    from compressed_tensors.quantization import QuantizationConfig

    QuantizationConfig.model_validate(json.loads(path.read_text("utf-8")))


def foreign(case: Case) -> Mapping[str, tuple[str, Callable[[Path], None]]]:
    """Return who reads a case, by name, with the form that it reads."""
    if case.group == "configs":
        return {
            "transformers": ("torchao", of_transformers_config),
            "compressed-tensors": ("compressed-tensors", of_compressed_config),
        }
    if case.group == "files" and case.number not in (35, 36, 37, 38, 39, 40):
        return {
            "transformers": (OURS, of_transformers),
            "compressed-tensors": (OURS, of_compressed),
        }
    return {}


def _data_bytes() -> int:
    """Return how much memory this process has of its own."""
    said = Path("/proc/self/status").read_text("utf-8")
    line = next(line for line in said.splitlines() if line.startswith("VmData:"))
    return int(line.split()[1]) * 1024


def verdict_apart(read: Callable[[Path], None], path: Path) -> str:
    """Return what a reader makes of a path, in a fork of this process."""
    child = os.fork()
    if child == 0:
        signal.alarm(_SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        most = _MOST_MEMORY + _data_bytes()
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        try:
            read(path)
        except MemoryError:
            os._exit(2)
        except BaseException:  # noqa: BLE001 - whatever it is, the fork ends here
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.stdout.flush()
    if status == -signal.SIGALRM:
        return HANGS
    return {0: TAKES, 1: REFUSES, 2: FILLS}.get(status, DIES)
