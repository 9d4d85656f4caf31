"""Tiny golden checkpoints: one file for each golden document of a layout, and what it becomes.

`tests/golden/<name>/v<n>/<case>.safetensors` holds one quantized tensor `layer.weight` in the form
of `<case>.json` and a plain `layer.bias`; `<case>.upgraded.safetensors` is the same in today's
layout, byte for byte what `upgrade_checkpoint` has to write. Golden files have no digests: what
0.1.0 wrote stays as it is, and what is written today is compared without them.
"""

import tempfile
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path

import torch

from qconfig import upgrade_checkpoint
from qconfig.checkpoints.contents import ShardContents
from qconfig.checkpoints.record import METADATA_KEY
from qconfig.codec import strict_json
from qconfig.codec.converter import structure_as_written
from qconfig.codec.dtypes import DType
from qconfig.codec.layout_values import present_fields, with_values
from qconfig.codec.safetensors_header import read_header
from qconfig.codec.safetensors_reader import lazy_tensors
from qconfig.codec.safetensors_writer import write_safetensors
from qconfig.codec.tensor_values import LazyTensor, TensorSpec
from qconfig.versioning import Kind, Layout
from tests import golden_int4

FQN = "layer.weight"


def elements(spec: TensorSpec, start: int) -> torch.Tensor:
    """Return values that every type holds exactly: codes over the whole range, positive scales."""
    dtype = spec.dtype.to_torch()
    count = torch.arange(start, start + prod(spec.shape))
    if dtype.is_floating_point:
        values = (count % 7 + 1) / 8
    elif dtype.itemsize == 1:
        values = count * 37 % 256 - 128 if dtype.is_signed else count * 37 % 256
    else:
        values = count % 5 - 2
    return values.to(dtype).reshape(spec.shape)


def with_elements(layout: Layout) -> Layout:
    """Return a layout of specs with real elements in its tensors."""
    fields = present_fields(layout)
    tensors = {f: elements(getattr(layout, f), i) for i, f in enumerate(fields)}
    golden_int4.give_sense(tensors)
    return with_values(layout, {f: LazyTensor.of(t) for f, t in tensors.items()})


def checkpoint_bytes(case: Path) -> bytes:
    """Return the checkpoint file of a golden layout document."""
    layout = structure_as_written(strict_json.loads(case.read_bytes()), Kind.LAYOUT)
    bias = LazyTensor.of(elements(TensorSpec(DType.FLOAT32, (3,)), 0))
    contents = ShardContents({"layer.bias": bias}, {FQN: with_elements(layout)})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        write_safetensors(path, contents.tensors(), contents.header_metadata())
        return path.read_bytes()


def upgraded_bytes(checkpoint: Path) -> bytes:
    """Return what `upgrade_checkpoint` makes of a file; the file itself where nothing is old."""
    with tempfile.TemporaryDirectory() as folder:
        report = upgrade_checkpoint(checkpoint, Path(folder) / "new")
        if not report.needed:
            return checkpoint.read_bytes()
        return without_digests(Path(folder) / "new" / checkpoint.name)


def without_digests(path: Path) -> bytes:
    """Return a file as it would have been written without digests in its record."""
    header = read_header(path)
    record = strict_json.loads(header.metadata[METADATA_KEY])
    del record["digests"]
    record = strict_json.dumps_compact(record | {"container": 1})
    bare = path.with_suffix(".bare")
    write_safetensors(bare, lazy_tensors(header), header.metadata | {METADATA_KEY: record})
    return bare.read_bytes()


def is_superseded(file: Path) -> bool:
    """Say if the upgraded checkpoint has an older layout, and leads where the file leads."""
    written = file.with_suffix(".upgraded.safetensors")
    today = upgraded_bytes(written)
    return written.read_bytes() != today == upgraded_bytes(file)


def golden_checkpoints(cases: Iterable[Path]) -> Iterator[tuple[Path, bytes]]:
    """Yield the checkpoint files that are missing beside golden documents, or superseded."""
    for case in cases:
        file = case.with_suffix(".safetensors")
        if not file.exists():
            yield file, checkpoint_bytes(case)
        upgraded = case.with_suffix(".upgraded.safetensors")
        if not upgraded.exists() or is_superseded(file):
            yield upgraded, upgraded_bytes(file)
