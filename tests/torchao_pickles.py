"""Pickles that real torchao releases wrote, as `tests.torchao_files` has their inner tensors."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import torch

from qconfig.checkpoints.writer import Writer
from qconfig.codec.pickled_values import PickledSubclass, PickledTensor
from qconfig.codec.torch_files import read_torch_file
from qconfig.dialects.torchao.stored import stored_from_pickle
from qconfig.dialects.torchao.tensors.modules import swapped_modules
from qconfig.dialects.torchao.tensors.names import NAMES
from qconfig.dialects.torchao.tensors.reading import Read
from qconfig.dialects.torchao.tensors.table import read_tensor
from qconfig.tensors.base import PackedTensor
from qconfig.tensors.classes import tensor_class_of
from qconfig.versioning import registry
from tests.torchao_files import CORPUS, DATA, Sample

PICKLES = DATA / "pickles"


def pickles() -> list[Sample]:
    """Return our copies and what is in the collection besides; some have no known values."""
    ours = list(_from_data())
    known = {s.id for s in ours}
    return ours + [s for s in _from_corpus() if s.id not in known]


def reads(sample: Sample, *, known: bool = True) -> dict[str, Read]:
    """Return the quantized tensors of a pickle by parameter name.

    Args:
        sample: the pickle.
        known: whether its writer is named.
    """
    major, minor = sample.release.split(".")[:2]
    writer = Writer("torchao", (int(major), int(minor))) if known else None
    root = read_torch_file(sample.file, NAMES).root
    plain = {n: v.value for n, v in root.items() if isinstance(v, PickledTensor)}
    found = {
        name: read_tensor(stored_from_pickle(value), writer)
        for name, value in root.items()
        if isinstance(value, PickledSubclass)
    }
    return found | {swapped.fqn: swapped.read for swapped in swapped_modules(plain)}


def biases(sample: Sample) -> dict[str, torch.Tensor]:
    """Return the plain tensors of a pickle by name; swapped modules up to 0.9 lost their biases."""
    root = read_torch_file(sample.file, NAMES).root
    return {n: v.value.load() for n, v in root.items() if isinstance(v, PickledTensor)}


def packed(layout: Any) -> PackedTensor:
    """Return the tensor of today for a layout of any version, its elements read."""
    current = registry.convert(layout)
    loaded = {
        field.name: value.load()
        for field in attrs.fields(type(current))
        if hasattr(value := getattr(current, field.name), "load")
    }
    cls = tensor_class_of(type(current))
    return cls.from_layout(cls.simplify(attrs.evolve(current, **loaded)))


def _from_data() -> Iterator[Sample]:
    for name, facts in json.loads((PICKLES / "INDEX.json").read_text()).items():
        release, _, file = name.partition("/")
        yield Sample(
            f"{release}-{file.removesuffix('.pt')}",
            release,
            PICKLES / name,
            DATA / "truth" / facts["truth"],
            DATA / "float" / facts["float"],
            DATA / "float" / facts["inputs"],
        )


def _from_corpus() -> Iterator[Sample]:
    for manifest in sorted(CORPUS.glob("torchao/*/MANIFEST.json")):
        release = manifest.parent.name
        fixtures: Mapping[str, Any] = json.loads(manifest.read_text())["fixtures"]
        for name, fixture in fixtures.items():
            file = manifest.parent / f"{name}.pt"
            if file.exists():
                yield Sample(
                    f"{release}-{name}",
                    release,
                    file,
                    CORPUS / fixture.get("truth", "missing"),
                    CORPUS / fixture["float_weights"],
                    CORPUS / fixture["inputs"],
                )
