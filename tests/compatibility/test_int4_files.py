"""Int4 tensors that real torchao releases stored: upgraded, they give their writers' values."""

from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import linear

from qconfig import Int4WeightOnlyConfig, load_checkpoint, upgrade_checkpoint
from qconfig.builders.base import builder_of
from qconfig.layouts.int4 import Int4TensorLayout
from qconfig.migrations.int4_tensor_layout import (
    Int4TensorLayoutV1,
    Int4TensorLayoutV2,
    Int4TensorLayoutV3,
)
from qconfig.tensors.int4 import Int4Tensor
from qconfig.versioning import Layout
from tests.checkpoints.builders import checkpoint_of
from tests.torchao_files import Sample, samples

PREFIXES = ("int4_weight_only_g32_v2_plain", "awq_int4_plain", "float8_dynact_int4_weight_plain")
SAMPLES = [pytest.param(s, id=s.id) for prefix in PREFIXES for s in samples(prefix)]


def layouts(sample: Sample) -> dict[str, Layout]:
    """Return the quantized tensors by parameter name, as layouts of the release's form."""
    parts: dict[str, dict[str, Any]] = {}
    for name, tensor in load_file(sample.file).items():
        if "::" in name:
            parameter, _, path = name.partition("::")
            _store(parts.setdefault(parameter, {}), path, tensor)
        elif "._weight_" in name:
            module, _, field = name.partition("._weight_")
            parts.setdefault(f"{module}.weight", {})[field] = tensor
    return {parameter: _layout(sample, fields) for parameter, fields in parts.items()}


def _store(fields: dict[str, Any], path: str, tensor: torch.Tensor) -> None:
    if path == "scale" and tensor.dim() == 1:  # of the wrapper, which divides by it
        fields["act_pre_scale"] = tensor.reciprocal()
    else:
        fields[path.rpartition(".")[2]] = tensor


def _layout(sample: Sample, fields: dict[str, Any]) -> Layout:
    rows, half = fields["qdata"].shape
    group = 128 if "float8" in sample.id else 32
    fields |= {"block_size": (1, group), "shape": (rows, 2 * half), "dtype": fields["scale"].dtype}
    minor = int(sample.release.split(".")[1])
    if minor < 17:
        is_plain = minor == 13 and "act_pre_scale" not in fields
        form = Int4TensorLayoutV2 if is_plain else Int4TensorLayoutV3
        return form(**fields)
    activation = "float8_e4m3fn" if "float8" in sample.id else "bfloat16"
    return Int4TensorLayout(**fields, activation_dtype=activation)


@pytest.mark.parametrize("sample", SAMPLES)
def test_dequantized_weights_are_the_writers(sample: Sample, tmp_path) -> None:
    """Stored in the release's form, upgraded and loaded, a weight is the writer's bit for bit."""
    truth = load_file(sample.truth)
    found = layouts(sample)
    assert found
    upgrade_checkpoint(checkpoint_of(tmp_path / "old", found), tmp_path / "new")
    source = tmp_path / "new" if (tmp_path / "new").exists() else tmp_path / "old"
    for parameter, tensor in load_checkpoint(source).items():
        assert isinstance(tensor, Int4Tensor)
        expected = truth[f"{parameter}.dequant"]
        assert tensor.dtype == expected.dtype
        assert torch.equal(tensor.dequantize(), expected)


@pytest.mark.parametrize("sample", SAMPLES)
def test_linear_outputs_are_the_writers_up_to_rounding(sample: Sample) -> None:
    """The output differs from the writer's by no more than its type's rounding of the sum."""
    truth, inputs = load_file(sample.truth), load_file(sample.inputs)
    biases = load_file(sample.weights)
    outputs = {p: truth.get(f"{p.removesuffix('.weight')}.out") for p in layouts(sample)}
    # No release could run a float8 activation without the GPU package that has its kernel.
    assert all((out is None) == ("float8" in sample.id) for out in outputs.values())
    for parameter, layout in layouts(sample).items():
        expected, module = outputs[parameter], parameter.removesuffix(".weight")
        if expected is None:
            continue
        bias = biases.get(f"{module}.bias")
        result = linear(inputs[module], Int4Tensor.from_layout(layout), bias)
        error = (result.double() - expected.double()).abs().max() / expected.abs().max()
        assert error <= 8 * torch.finfo(expected.dtype).eps


@pytest.mark.parametrize(
    "sample", [p for p in SAMPLES if p.values[0].id.partition("-")[2].startswith("int4")]
)
def test_our_builder_gives_the_codes_that_torchao_stored(sample: Sample) -> None:
    """From the same float weight, codes, scales and zero points are equal bit for bit."""
    weights = load_file(sample.weights)
    for parameter, layout in layouts(sample).items():
        config = Int4WeightOnlyConfig(group_size=32)
        built = builder_of(config).build(config, weights[parameter])
        for field in ("qdata", "scale", "zero_point"):
            assert torch.equal(getattr(built, field), getattr(layout, field))


def test_the_form_of_torchao_0_12_has_the_same_bytes() -> None:
    """FbgemmInt4Tensor keeps bytes, scales and zero points; only what is said of them is new."""
    layout = next(iter(layouts(SAMPLES[0].values[0]).values()))
    old = Int4TensorLayoutV1(layout.qdata, layout.scale, layout.zero_point, 32, layout.dtype)
    ours, theirs = (Int4Tensor.from_layout(each) for each in (old, layout))
    assert torch.equal(ours, theirs)
