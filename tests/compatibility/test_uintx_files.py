"""Uintx, NF4 and FPX tensors that real torchao releases stored give their writers' values."""

from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import linear

from qconfig import load_checkpoint, upgrade_checkpoint
from qconfig.layouts import NF4TensorLayout
from qconfig.migrations.floatx_tensor_layout import FloatxTensorLayoutV1
from qconfig.migrations.uintx_tensor_layout import UintxTensorLayoutV1
from qconfig.versioning import Layout
from tests.checkpoints.builders import checkpoint_of
from tests.torchao_files import Sample, samples

PREFIXES = ("uintx_weight_only", "direct_nf4", "direct_fpx")
SAMPLES = [pytest.param(s, id=s.id) for prefix in PREFIXES for s in samples(prefix)]
WITH_OUTPUTS = [p for p in SAMPLES if "fpx" not in p.id and not p.id.startswith("0.4")]


def layouts(sample: Sample) -> dict[str, Layout]:
    """Return the quantized tensors by parameter name, as layouts of the release's form."""
    floats = load_file(sample.weights)
    parts: dict[str, dict[str, Any]] = {}
    for name, tensor in load_file(sample.file).items():
        if "::" in name:
            parameter, _, path = name.partition("::")
            parts.setdefault(parameter, {})[path.rpartition(".")[2]] = tensor
    return {name: _layout(fields, floats[name]) for name, fields in parts.items()}


def _layout(fields: dict[str, Any], weight: torch.Tensor) -> Layout:
    if "packed_floatx_data" in fields:
        return FloatxTensorLayoutV1(**fields, ebits=3, mbits=2, dtype=weight.dtype)
    shape = tuple(weight.shape)
    if "nf4" in fields:
        block = weight.numel() // fields["quantized_scalers"].numel()
        group = fields["quantized_scalers"].numel() // fields["quantization_factor"].numel()
        return NF4TensorLayout(
            **fields, block_size=block, scaler_block_size=group, shape=shape, dtype=weight.dtype
        )
    bits = sum(int(name[3]) for name in fields if name.endswith("_shard"))
    block = (1, shape[1] // fields["scale"].shape[1])
    return UintxTensorLayoutV1(
        **fields, packed_shape=shape, bit_width=bits, block_size=block, dtype=weight.dtype
    )


@pytest.mark.parametrize("sample", SAMPLES)
def test_dequantized_weights_are_the_writers(sample: Sample, tmp_path) -> None:
    """Stored in the release's form, upgraded and loaded, a weight is the writer's bit for bit."""
    truth, stored = load_file(sample.truth), layouts(sample)
    assert stored
    report = upgrade_checkpoint(checkpoint_of(tmp_path / "old", stored), tmp_path / "new")
    source = tmp_path / ("new" if report.needed else "old")
    for parameter, tensor in load_checkpoint(source).items():
        expected = truth[f"{parameter}.dequant"]
        assert tensor.dtype == expected.dtype
        assert torch.equal(tensor.dequantize(), expected)


@pytest.mark.parametrize("sample", WITH_OUTPUTS)
def test_linear_outputs_are_the_writers_up_to_rounding(sample: Sample, tmp_path) -> None:
    """The output differs from the writer's by no more than its type's rounding of the sum."""
    truth, inputs = load_file(sample.truth), load_file(sample.inputs)
    floats = load_file(sample.weights)
    for parameter, tensor in load_checkpoint(checkpoint_of(tmp_path, layouts(sample))).items():
        module = parameter.removesuffix(".weight")
        result = linear(inputs[module], tensor, floats.get(f"{module}.bias"))
        expected = truth[f"{module}.out"]
        error = (result.double() - expected.double()).abs().max()
        assert error <= 8 * torch.finfo(expected.dtype).eps * expected.abs().max()
