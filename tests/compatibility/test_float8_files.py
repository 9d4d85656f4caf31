"""Float8 tensors that real torchao releases stored: upgraded, they give their values."""

import json
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from qconfig import load_checkpoint, upgrade_checkpoint
from qconfig.builders.base import builder_of
from qconfig.configs import PerRow, PerTensor
from qconfig.configs.float8 import Float8MMConfig, Float8WeightOnlyConfig
from qconfig.layouts.float8 import Float8TensorLayout, QuantizeTensorToFloat8Kwargs
from qconfig.migrations.float8_tensor_layout import Float8TensorLayoutV1, Float8TensorLayoutV2
from qconfig.tensors.float8 import Float8Tensor
from qconfig.versioning import Layout
from tests.checkpoints.builders import checkpoint_of
from tests.tensors.float8_samples import bits
from tests.torchao_files import Sample, samples

PREFIXES = ("float8_weight_only", "float8_dynact_per", "float8_static_act", "smoothquant_float8dyn")
SAMPLES = [pytest.param(s, id=s.id) for prefix in PREFIXES for s in samples(prefix)]
CURRENT = [p for p in SAMPLES if p.values[0].release == "0.18.0" and "static" not in p.id]


def layouts(sample: Sample) -> dict[str, Layout]:
    """Return the quantized tensors by parameter name, as layouts of the release's form."""
    with safe_open(sample.file, "pt") as file:
        metadata = file.metadata() or {}
    parts: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in load_file(sample.file).items():
        if "::" in name:
            parameter, _, path = name.partition("::")
            parts.setdefault(parameter, {})[path] = tensor
        elif "._weight_" in name:
            module, _, field = name.partition("._weight_")
            parts.setdefault(f"{module}.weight", {})[field] = tensor
    return {name: _layout(sample, paths, metadata.get(name)) for name, paths in parts.items()}


def _layout(sample: Sample, paths: dict[str, torch.Tensor], record: str | None) -> Layout:
    # A `scale` beside a wrapped weight belongs to the wrapper, that is to the activation.
    is_wrapped = any(path.startswith("original_weight_tensor.") for path in paths)
    outer = paths.get("scale") if is_wrapped else None
    inner = {path: t for path, t in paths.items() if t is not outer}
    fields: dict[str, Any] = {path.rpartition(".")[2]: t for path, t in inner.items()}
    codes = fields.get("float8_data", fields.get("qdata"))
    block = (1, codes.shape[1]) if fields["scale"].numel() > 1 else tuple(codes.shape)
    said = {} if record is None else json.loads(record)["_data"]
    assert tuple(said.get("block_size", block)) == block
    kwargs = _kwargs(sample.id, said)
    dtype = load_file(sample.weights).popitem()[1].dtype
    shared: dict[str, Any] = {"block_size": block, "dtype": dtype, "act_quant_kwargs": kwargs}
    if kwargs is not None:
        shared["mm_config"] = Float8MMConfig(use_fast_accum=True)
    if "float8_data" in fields:
        return Float8TensorLayoutV1(**fields, **shared, act_quant_scale=outer)
    if outer is not None:  # SmoothQuant's wrapper divides by its scale
        return Float8TensorLayout(**fields, **shared, act_pre_scale=1 / outer)
    form = Float8TensorLayoutV2 if sample.release == "0.13.0" else Float8TensorLayout
    return form(**fields, **shared)


def _kwargs(name: str, said: dict[str, Any]) -> QuantizeTensorToFloat8Kwargs | None:
    if "weight_only" in name:
        assert said.get("act_quant_kwargs") is None
        return None
    is_row = "per_row" in name or "smoothquant" in name
    bounds = (0.001, 100.0) if "bounds" in name else (None, None)
    if said:
        stored = said["act_quant_kwargs"]["_data"]
        assert (stored["hp_value_lb"], stored["hp_value_ub"]) == bounds
    granularity = PerRow() if is_row else PerTensor()
    return QuantizeTensorToFloat8Kwargs("float8_e4m3fn", granularity, None, *bounds)


@pytest.mark.parametrize("sample", SAMPLES)
def test_dequantized_weights_are_the_writers(sample: Sample, tmp_path) -> None:
    """Stored in the release's form, upgraded and loaded, a weight is the writer's bit for bit."""
    truth = load_file(sample.truth)
    old = layouts(sample)
    assert old
    upgrade_checkpoint(checkpoint_of(tmp_path / "old", old), tmp_path / "new")
    source = tmp_path / "new" if (tmp_path / "new").exists() else tmp_path / "old"
    for parameter, tensor in load_checkpoint(source).items():
        assert isinstance(tensor, Float8Tensor)
        expected = truth[f"{parameter}.dequant"]
        assert tensor.dtype == expected.dtype
        assert torch.equal(tensor.dequantize(), expected)


@pytest.mark.parametrize("sample", SAMPLES)
def test_linear_outputs_are_the_writers_up_to_rounding(sample: Sample) -> None:
    """The output differs from the writer's by no more than its type's rounding of the sum."""
    truth, inputs = load_file(sample.truth), load_file(sample.inputs)
    biases = load_file(sample.weights)
    for parameter, layout in layouts(sample).items():
        module = parameter.removesuffix(".weight")
        tensor = Float8Tensor.from_layout(layout)
        expected = truth[f"{module}.out"]
        found = torch.nn.functional.linear(inputs[module], tensor, biases.get(f"{module}.bias"))
        error = (found.double() - expected.double()).abs().max() / expected.double().abs().max()
        assert error <= 2 * torch.finfo(expected.dtype).eps


@pytest.mark.parametrize("sample", CURRENT)
def test_our_builder_gives_the_codes_of_torchao_0_18(sample: Sample) -> None:
    """From the same float weight, codes and scales are those that torchao stored."""
    weights = load_file(sample.weights)
    for parameter, layout in layouts(sample).items():
        assert isinstance(layout, Float8TensorLayout)
        granularity = PerRow() if layout.block_size[0] == 1 else PerTensor()
        config = Float8WeightOnlyConfig(granularity=granularity)
        built = builder_of(config).build(config, weights[parameter])
        assert torch.equal(bits(built.qdata), bits(layout.qdata))
        assert torch.equal(built.scale, layout.scale)
