"""NVFP4 tensors that real torchao releases stored: upgraded, they give their values."""

import attrs
import pytest
import torch
from safetensors.torch import load_file

from qconfig import load_checkpoint, upgrade_checkpoint
from qconfig.builders.base import builder_of
from qconfig.configs.nvfp4 import NVFP4DynamicActivationNVFP4WeightConfig, NVFP4WeightOnlyConfig
from qconfig.tensors.nvfp4 import NVFP4Tensor
from qconfig.tensors.small_floats import E2M1, decoded_pairs
from qconfig.tensors.swizzle import unswizzled
from qconfig.versioning import Config
from tests.checkpoints.builders import checkpoint_of
from tests.compatibility.fp4_samples import layouts
from tests.torchao_files import Sample, samples

PREFIXES = ("direct_nvfp4", "nvfp4_")
SAMPLES = [pytest.param(s, id=s.id) for prefix in PREFIXES for s in samples(prefix)]


@pytest.mark.parametrize("sample", SAMPLES)
def test_dequantized_weights_are_the_writers(sample: Sample, tmp_path) -> None:
    """Stored in the release's form, upgraded and loaded, a weight is the writer's bit for bit."""
    truth = load_file(sample.truth)
    stored = layouts(sample)
    assert stored
    upgrade_checkpoint(checkpoint_of(tmp_path / "old", stored), tmp_path / "new")
    source = tmp_path / "new" if (tmp_path / "new").exists() else tmp_path / "old"
    for parameter, tensor in load_checkpoint(source).items():
        assert isinstance(tensor, NVFP4Tensor)
        expected = truth[f"{parameter}.dequant"]
        assert torch.equal(as_computed_then(tensor, sample).dequantize(), expected)


def as_computed_then(tensor: NVFP4Tensor, sample: Sample) -> NVFP4Tensor:
    """Return the tensor with the rounding of scales that the dialect says of a release."""
    rounds = int(sample.release.split(".")[1]) < 18 and tensor.per_tensor_scale is not None
    return NVFP4Tensor.from_layout(attrs.evolve(tensor.to_layout(), rounds_scales=rounds))


@pytest.mark.parametrize("sample", [s for s in SAMPLES if "0.18.0" not in s.id])
def test_unrounded_scales_are_within_a_rounding(sample: Sample) -> None:
    """Without the writer's rounding of scales, values differ by one rounding of both at most."""
    truth = load_file(sample.truth)
    for parameter, layout in layouts(sample).items():
        expected = truth[f"{parameter}.dequant"].double()
        current = NVFP4Tensor.from_layout(layout).to_layout()
        unrounded = NVFP4Tensor.from_layout(attrs.evolve(current, rounds_scales=False))
        found = unrounded.dequantize().double()
        assert ((found - expected).abs() <= 2**-7 * expected.abs()).all()


@pytest.mark.parametrize("sample", SAMPLES)
def test_linear_outputs_are_the_writers_up_to_rounding(sample: Sample) -> None:
    """Where a release could compute an output on a CPU, ours differs by rounding only."""
    truth, inputs = load_file(sample.truth), load_file(sample.inputs)
    biases = load_file(sample.weights)
    for parameter, layout in layouts(sample).items():
        module = parameter.removesuffix(".weight")
        expected = truth.get(f"{module}.out")
        if expected is None:
            assert "dyn" in sample.id
            continue
        bias = biases.get(f"{module}.bias")
        weight = NVFP4Tensor.from_layout(layout)
        result = torch.nn.functional.linear(inputs[module], weight, bias)
        error = (result.double() - expected.double()).abs().max() / expected.abs().max()
        assert error <= 8 * torch.finfo(expected.dtype).eps


@pytest.mark.parametrize("sample", [s for s in SAMPLES if "0.18.0-nvfp4" in s.id])
def test_our_builder_gives_the_codes_of_torchao_0_18(sample: Sample) -> None:
    """From the same float weight, codes and both scales are those that torchao stored."""
    weights = load_file(sample.weights)
    for parameter, layout in layouts(sample).items():
        stored = NVFP4Tensor.from_layout(layout)
        second = stored.per_tensor_scale is not None
        config: Config = NVFP4DynamicActivationNVFP4WeightConfig(
            use_dynamic_per_tensor_scale=second
        )
        if stored.act_quant_kwargs is None:
            config = NVFP4WeightOnlyConfig(use_dynamic_per_tensor_scale=second)
        built = builder_of(config).build(config, weights[parameter])
        shape = tuple(built.scale.shape)
        scale = unswizzled(stored.scale, shape)
        assert torch.equal(built.qdata, stored.qdata)
        assert torch.equal(built.scale.view(torch.uint8), scale.view(torch.uint8))
        assert not second or torch.equal(built.per_tensor_scale, stored.per_tensor_scale)


def test_samples_have_codes_of_every_value() -> None:
    """Samples are no zeros: every code of E2M1 occurs, so that a wrong order would be seen."""
    for parameter in SAMPLES:
        sample = parameter.values[0]
        codes = [
            decoded_pairs(x.qdata, torch.float32)
            for x in map(NVFP4Tensor.from_layout, layouts(sample).values())
        ]
        assert set(E2M1.values) <= set(torch.cat([c.flatten() for c in codes]).tolist())
