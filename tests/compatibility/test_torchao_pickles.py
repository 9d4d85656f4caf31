"""Pickles that real torchao releases wrote: all open, with the inner tensors the release had."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from qconfig.codec.pickled_values import PickledSubclass, PickledTensor
from qconfig.codec.torch_files import read_torch_file
from qconfig.dialects.torchao.tensors.names import NAMES
from tests.torchao_files import CORPUS, DATA

RELEASES = sorted(
    {p.parent for root in (DATA / "pickles", CORPUS / "torchao") for p in root.glob("*/*.pt")}
)


def inner(value: Any, path: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Give the tensors of a tree as `<parameter>::<attribute>.<attribute>`."""
    if isinstance(value, PickledTensor):
        yield path, value.value.load()
    elif isinstance(value, PickledSubclass):
        for name, part in value.state.items():
            yield from inner(part, f"{path}{'.' if '::' in path else '::'}{name}")
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from inner(part, name)


def raw(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a tensor."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


@pytest.mark.skipif(not RELEASES, reason="needs files of real releases")
@pytest.mark.parametrize("release", RELEASES, ids=lambda f: f"{f.parent.name}-{f.name}")
def test_every_pickle_of_a_release_opens_with_its_tensors(release: Path):
    """The same names and bytes as the release itself gave beside it."""
    for path in sorted(release.glob("*.pt")):
        found = dict(inner(read_torch_file(path, NAMES).root))
        expected = path.with_suffix(".inner.safetensors")
        if expected.exists():
            for name, tensor in load_file(expected).items():
                assert found[name].shape == tensor.shape, (path, name)
                assert torch.equal(raw(found[name]), raw(tensor)), (path, name)
