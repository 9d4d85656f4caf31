"""MX tensors that real torchao releases stored: upgraded, they give their values."""

import pytest
import torch
from safetensors.torch import load_file

from qconfig import load_checkpoint, upgrade_checkpoint
from qconfig.builders.base import builder_of
from qconfig.configs.choices import KernelPreference, ScaleCalculationMode
from qconfig.configs.mx import MXDynamicActivationMXWeightConfig
from qconfig.tensors.mx import MXTensor
from qconfig.tensors.mx_quantize import quantize_mx
from tests.checkpoints.builders import checkpoint_of
from tests.compatibility.fp4_samples import layouts
from tests.torchao_files import Sample, samples

PREFIXES = ("direct_mxfp", "mxfp8_dynact_config", "mxfp8_inference_config")
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
        assert isinstance(tensor, MXTensor)
        expected = truth[f"{parameter}.dequant"]
        assert tensor.shape == expected.shape
        assert torch.equal(tensor.dequantize(), expected)


@pytest.mark.parametrize("sample", SAMPLES)
def test_linear_outputs_are_the_writers_up_to_rounding(sample: Sample) -> None:
    """With and without quantized activations, the output differs by its type's rounding only."""
    truth, inputs = load_file(sample.truth), load_file(sample.inputs)
    biases = load_file(sample.weights)
    for parameter, layout in layouts(sample).items():
        module = parameter.removesuffix(".weight")
        expected = truth.get(f"{module}.out")
        if expected is None:
            assert "direct" in sample.id or "default" in sample.id
            continue
        bias = biases.get(f"{module}.bias")
        weight = MXTensor.from_layout(layout)
        result = torch.nn.functional.linear(inputs[module], weight, bias)
        error = (result.double() - expected.double()).abs().max() / expected.abs().max()
        assert error <= 8 * torch.finfo(expected.dtype).eps


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.values[0].release == "0.18.0"])
def test_our_quantizer_gives_the_codes_of_torchao_0_18(sample: Sample) -> None:
    """From the same float weight, codes and scales are those that torchao stored."""
    weights = load_file(sample.weights)
    for parameter, layout in layouts(sample).items():
        stored = MXTensor.from_layout(layout)
        swizzled = stored.is_swizzled_scales
        mode = ScaleCalculationMode.RCEIL if swizzled else ScaleCalculationMode.FLOOR
        codes, scale = quantize_mx(weights[parameter], stored.elem_dtype, 32, mode)
        ours = MXTensor(codes, scale, stored.elem_dtype, 32, stored.dtype)
        assert torch.equal(codes.view(torch.uint8), stored.qdata.view(torch.uint8))
        assert torch.equal(ours.dequantize(), stored.dequantize())


@pytest.mark.parametrize("sample", [s for s in SAMPLES if "0.18.0-mxfp8_dynact" in s.id])
def test_our_builder_computes_what_the_stored_tensor_does(sample: Sample) -> None:
    """A weight that our builder quantizes gives bit for bit the outputs of the stored one."""
    weights, inputs = load_file(sample.weights), load_file(sample.inputs)
    config = MXDynamicActivationMXWeightConfig(kernel_preference=KernelPreference.EMULATED)
    for parameter, layout in layouts(sample).items():
        built = builder_of(config).build(config, weights[parameter])
        x = inputs[parameter.removesuffix(".weight")]
        linear = torch.nn.functional.linear
        assert torch.equal(linear(x, built), linear(x, MXTensor.from_layout(layout)))


def test_fp4_and_fp8_are_among_the_samples() -> None:
    """Samples hold packed and plain codes, so that neither is read untested."""
    found = {layout.elem_dtype.value for s in SAMPLES for layout in layouts(s.values[0]).values()}
    assert {"float4_e2m1fn_x2", "float8_e4m3fn", "fp4_e2m1", "fp6_e2m3"} <= found
