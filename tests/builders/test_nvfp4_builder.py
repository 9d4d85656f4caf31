"""The NVFP4 builders: what they announce, what they refuse, what they give."""

from typing import Any

import pytest
import torch

from qconfig.builders.base import CalibratedBuilder, Target, builder_of
from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.codec.dtypes import DType
from qconfig.configs.choices import QuantizationStep
from qconfig.configs.nvfp4 import NVFP4DynamicActivationNVFP4WeightConfig, NVFP4WeightOnlyConfig
from qconfig.errors import BuildError, LayoutError
from tests.tensors.torchao_mx import same_bytes, torchao_nvfp4

STATIC = NVFP4DynamicActivationNVFP4WeightConfig(
    use_dynamic_per_tensor_scale=False, step=QuantizationStep.CONVERT
)
CONFIGS = {
    "weight_only": NVFP4WeightOnlyConfig(),
    "weight_only_one_scale": NVFP4WeightOnlyConfig(use_dynamic_per_tensor_scale=False),
    "dynamic": NVFP4DynamicActivationNVFP4WeightConfig(),
    "dynamic_one_scale": NVFP4DynamicActivationNVFP4WeightConfig(
        use_dynamic_per_tensor_scale=False
    ),
}


def _target(*shape: int) -> Target:
    return Target("layer.weight", shape, DType.BFLOAT16, ("Linear",))


def _weight(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).bfloat16()


def _calibration(columns: int) -> LayerCalibration:
    return LayerCalibration(act_absmax=torch.arange(columns).float())


@pytest.mark.parametrize("shape", [(8, 64), (2, 8, 64)])
@pytest.mark.parametrize("config", [*CONFIGS.values(), STATIC], ids=[*CONFIGS, "static"])
def test_what_is_announced_is_built(config: Any, shape: tuple[int, ...]) -> None:
    """Shapes, types and attributes of the layout are those of the tensor."""
    builder = builder_of(config)
    announced = builder.layout(config, _target(*shape))
    more = (_calibration(64),) if config is STATIC else ()
    built = builder.build(config, _weight(*shape), *more).to_layout()
    for name in ("qdata", "scale", "per_tensor_scale", "act_per_tensor_scale"):
        spec, tensor = getattr(announced, name), getattr(built, name)
        assert (spec is None) == (tensor is None)
        if spec is not None:
            assert (spec.dtype, spec.shape) == (DType.parse(tensor.dtype), tuple(tensor.shape))
    for name in ("block_size", "dtype", "use_triton_kernel", "act_quant_kwargs"):
        assert getattr(announced, name) == getattr(built, name)
    assert announced.shape == built.shape == shape


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_codes_are_torchaos(config: Any) -> None:
    """Codes and both scales are those of torchao with the same settings."""
    weight = _weight(8, 64)
    built = builder_of(config).build(config, weight)
    theirs = torchao_nvfp4(weight, second=config.use_dynamic_per_tensor_scale)
    assert same_bytes(built.qdata, theirs.qdata)
    assert same_bytes(built.scale, theirs.scale)


@pytest.mark.parametrize("step", QuantizationStep)
def test_a_step_takes_the_activations_scale_from_a_calibration(step: QuantizationStep) -> None:
    """The largest magnitude seen, over 448 * 6, is the static scale; the weight has two scales."""
    config = NVFP4DynamicActivationNVFP4WeightConfig(use_dynamic_per_tensor_scale=False, step=step)
    builder = builder_of(config)
    assert isinstance(builder, CalibratedBuilder)
    assert builder.needs_calibration(config)
    built = builder.build(config, _weight(8, 64), _calibration(64))
    assert built.act_per_tensor_scale == torch.tensor(63.0) / 2688
    assert built.per_tensor_scale is not None
    assert not built.act_quant_kwargs.use_dynamic_per_tensor_scale


@pytest.mark.parametrize("calibration", [None, LayerCalibration()], ids=["none", "empty"])
def test_a_step_without_a_calibration_is_an_error(calibration: LayerCalibration | None) -> None:
    """What is missing is named."""
    builder = builder_of(STATIC)
    assert isinstance(builder, CalibratedBuilder)
    with pytest.raises(BuildError, match="activations of the layer were not observed") as caught:
        builder.build(STATIC, _weight(8, 64), calibration)
    assert "act_absmax" in str(caught.value)


def test_dynamic_configs_need_no_calibration() -> None:
    """Without a step nothing has to be observed."""
    config = CONFIGS["dynamic"]
    assert not builder_of(config).needs_calibration(config)


@pytest.mark.parametrize("columns", [8, 24, 63])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_k_without_whole_blocks_is_an_error(config: Any, columns: int) -> None:
    """The plan and the build say so alike; the weight is not skipped."""
    builder = builder_of(config)
    for call in (
        lambda: builder.layout(config, _target(8, columns)),
        lambda: builder.build(config, _weight(8, columns)),
    ):
        with pytest.raises(LayoutError, match="K is not a multiple of 16"):
            call()


def test_rows_need_not_be_a_multiple_of_16() -> None:
    """Where torchao refuses 7 rows, they are quantized like any."""
    built = builder_of(CONFIGS["dynamic"]).build(CONFIGS["dynamic"], _weight(7, 32))
    assert built.dequantize().shape == (7, 32)


def test_a_weight_that_cannot_be_served_is_a_build_error() -> None:
    """Built without a plan, the refusal is an error."""
    config = CONFIGS["weight_only"]
    with pytest.raises(BuildError, match="cannot be quantized to NVFP4: rank 1"):
        builder_of(config).build(config, torch.ones(64))


def test_a_single_expert_is_built_like_its_matrix() -> None:
    """One stacked matrix has a second scale of one entry, (1, 1, 1), and the matrix's codes."""
    config = NVFP4WeightOnlyConfig()
    weight = _weight(1, 7, 32)
    found = builder_of(config).build(config, weight)
    expected = builder_of(config).build(config, weight[0])
    assert torch.equal(found[0].dequantize(), expected.dequantize())


def test_a_calibrated_scale_is_torchaos() -> None:
    """What torchao's prepare, calibrate, convert puts into the weight, ours has as well."""
    from torchao.prototype.mx_formats import (
        NVFP4DynamicActivationNVFP4WeightConfig as TorchaoConfig,
    )
    from torchao.quantization import quantize_ as torchao_quantize_

    weight, generator = _weight(16, 64), torch.Generator().manual_seed(1)
    batches = [torch.randn(8, 64, generator=generator).bfloat16() * n for n in (1, 3, 2)]
    peer = torch.nn.Sequential(torch.nn.Linear(64, 16, bias=False, dtype=torch.bfloat16))
    peer[0].weight = torch.nn.Parameter(weight.clone())
    settings = {"use_triton_kernel": False, "use_dynamic_per_tensor_scale": False}
    torchao_quantize_(peer, TorchaoConfig(**settings, step="prepare"))
    for batch in batches:
        peer(batch)
    torchao_quantize_(peer, TorchaoConfig(**settings, step="convert"))
    calibration = LayerCalibration(act_absmax=torch.stack(batches).abs().amax((0, 1)).float())
    config = NVFP4DynamicActivationNVFP4WeightConfig(**settings, step=QuantizationStep.CONVERT)
    builder: Any = builder_of(config)
    found = builder.build(config, weight, calibration)
    for name in ("qdata", "per_tensor_scale", "act_per_tensor_scale"):
        assert torch.equal(getattr(found, name), getattr(peer[0].weight, name))
