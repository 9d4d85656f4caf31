"""Files that real torchao releases wrote, with the values that the same release computed from them.

`tests/data/torchao` holds a few; a larger collection is used where it lies, at `../shared/corpus`
beside the repository or wherever QCONFIG_CORPUS says.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from attrs import frozen
from safetensors import safe_open
from safetensors.torch import load_file

from qconfig.layouts import Int8TensorLayout
from qconfig.migrations.int8_tensor_layout import (
    Int8TensorLayoutV1,
    Int8TensorLayoutV2,
    Int8TensorLayoutV4,
)
from qconfig.versioning import Layout

ROOT = Path(__file__).parents[1]
DATA = ROOT / "tests" / "data" / "torchao"
CORPUS = Path(os.environ.get("QCONFIG_CORPUS", ROOT.parent / "shared" / "corpus"))


@frozen
class Sample:
    """One stored checkpoint and what belongs to it.

    Args:
        id: release and fixture.
        release: torchao release that wrote it.
        file: safetensors with inner tensors, `<param>::<path>` or torchao's own flattened form.
        truth: `<param>.dequant` and `<module>.out` as the release computed them.
        weights: the float weights it was quantized from.
        inputs: the activations by module.
    """

    id: str
    release: str
    file: Path
    truth: Path
    weights: Path
    inputs: Path

    def layouts(self) -> dict[str, Layout]:
        """Return the quantized tensors by parameter name, as layouts of the release's form."""
        tensors = load_file(self.file)
        with safe_open(self.file, "pt") as file:
            metadata = file.metadata() or {}
        dtype = load_file(self.weights).popitem()[1].dtype
        parts: dict[str, dict[str, torch.Tensor]] = {}
        for name, tensor in tensors.items():
            if "::" in name:
                parameter, _, path = name.partition("::")
                parts.setdefault(parameter, {})[path.rpartition(".")[2]] = tensor
            elif "._weight_" in name:
                module, _, field = name.partition("._weight_")
                parts.setdefault(f"{module}.weight", {})[field] = tensor
        return {
            parameter: self._layout(fields, metadata.get(parameter), dtype)
            for parameter, fields in parts.items()
        }

    def _layout(self, fields: dict[str, Any], record: str | None, dtype: torch.dtype) -> Layout:
        if "int_data" in fields:
            columns, scale = fields["int_data"].shape[1], fields["scale"]
            group = columns if scale.dim() == 1 else columns // scale.shape[1]
            return Int8TensorLayoutV1(**fields, block_size=(1, group), dtype=dtype)
        blocks = fields["scale"].shape[:2]  # 0.15 has (N, K/g, 1) for groups
        block = tuple(n // b for n, b in zip(fields["qdata"].shape, blocks, strict=True))
        if record is not None:
            assert tuple(json.loads(record)["_data"]["block_size"]) == block
        by_minor = {15: Int8TensorLayoutV2, 16: Int8TensorLayoutV4, 17: Int8TensorLayoutV4}
        form = by_minor.get(int(self.release.split(".")[1]), Int8TensorLayout)
        return form(**fields, block_size=block, dtype=dtype)


def samples(prefix: str) -> list[Sample]:
    """Return the samples whose fixture begins with `prefix`: our copies, then the collection."""
    ours = [s for s in _from_data() if s.file.name.startswith(prefix)]
    known = {s.id for s in ours}
    return ours + [s for s in _from_corpus(prefix) if s.id not in known]


def _from_data() -> Iterator[Sample]:
    for name, facts in json.loads((DATA / "INDEX.json").read_text()).items():
        release, _, file = name.partition("/")
        yield Sample(
            f"{release}-{file.removesuffix('.safetensors')}",
            release,
            DATA / name,
            DATA / "truth" / facts["truth"],
            DATA / "float" / facts["float"],
            DATA / "float" / facts["inputs"],
        )


def _from_corpus(prefix: str) -> Iterator[Sample]:
    for manifest in sorted(CORPUS.glob("torchao/*/MANIFEST.json")):
        release = manifest.parent.name
        for name, fixture in json.loads(manifest.read_text())["fixtures"].items():
            if not name.startswith(prefix) or "truth" not in fixture:
                continue
            for suffix in (".inner.safetensors", ".safetensors"):
                file = manifest.parent / (name + suffix)
                if file.exists():
                    yield Sample(
                        f"{release}-{file.name.removesuffix('.safetensors')}",
                        release,
                        file,
                        CORPUS / fixture["truth"],
                        CORPUS / fixture["float_weights"],
                        CORPUS / fixture["inputs"],
                    )
