"""The MX builder: what it announces, what it refuses, what it gives."""

import pytest
import torch

from qconfig.builders.base import Target, builder_of
from qconfig.codec.dtypes import DType
from qconfig.configs.choices import ScaleCalculationMode
from qconfig.configs.mx import MXDynamicActivationMXWeightConfig
from qconfig.errors import BuildError, FieldError
from tests.tensors.torchao_mx import same_bytes, torchao_mx

FP4 = DType.FLOAT4_E2M1FN_X2
CONFIGS = {
    "default": MXDynamicActivationMXWeightConfig(),
    "fp4": MXDynamicActivationMXWeightConfig(activation_dtype=FP4, weight_dtype=FP4),
    "floor": MXDynamicActivationMXWeightConfig(scaling_mode=ScaleCalculationMode.FLOOR),
    "blocks_of_16": MXDynamicActivationMXWeightConfig(16),
}


def _target(*shape: int, dtype: DType = DType.BFLOAT16) -> Target:
    return Target("layer.weight", shape, dtype, ("Linear",))


def _weight(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).bfloat16()


@pytest.mark.parametrize("shape", [(8, 64), (2, 8, 64)])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_what_is_announced_is_built(
    config: MXDynamicActivationMXWeightConfig, shape: tuple[int, ...]
) -> None:
    """Shapes, types and attributes of the layout are those of the tensor."""
    announced = builder_of(config).layout(config, _target(*shape))
    built = builder_of(config).build(config, _weight(*shape)).to_layout()
    for name in ("qdata", "scale"):
        spec, tensor = getattr(announced, name), getattr(built, name)
        assert (spec.dtype, spec.shape) == (DType.parse(tensor.dtype), tuple(tensor.shape))
    for name in ("elem_dtype", "block_size", "dtype", "kernel_preference", "act_quant_kwargs"):
        assert getattr(announced, name) == getattr(built, name)
    assert announced.shape == built.shape == shape


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_codes_are_torchaos(config: MXDynamicActivationMXWeightConfig) -> None:
    """Codes and scales are those of torchao with the same settings."""
    weight = _weight(8, 64)
    built = builder_of(config).build(config, weight)
    theirs = torchao_mx(weight, built.elem_dtype, config.block_size, config.scaling_mode)
    assert same_bytes(built.qdata, theirs.qdata)
    assert same_bytes(built.scale, theirs.scale)


@pytest.mark.parametrize("block_size", [1, 48, 128])
def test_a_block_size_that_does_not_divide_k_is_an_error(block_size: int) -> None:
    """The plan and the build say so alike; the weight is not skipped."""
    config = MXDynamicActivationMXWeightConfig(block_size)
    for call in (
        lambda: builder_of(config).layout(config, _target(8, 64)),
        lambda: builder_of(config).build(config, _weight(8, 64)),
    ):
        with pytest.raises(FieldError, match="block_size does not divide") as caught:
            call()
        assert caught.value.pointer == "/block_size"


def test_fp4_blocks_of_one_byte_are_an_error() -> None:
    """Codes and scales would have equal shapes, and nothing would tell a transposed weight."""
    fp4 = DType.FLOAT4_E2M1FN_X2
    config = MXDynamicActivationMXWeightConfig(2, fp4, fp4)
    with pytest.raises(FieldError, match="block_size does not divide") as caught:
        builder_of(config).build(config, _weight(8, 64))
    assert caught.value.expected == "a divisor of K = 64 from 4, and K even"


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_an_odd_k_is_an_error(config: MXDynamicActivationMXWeightConfig) -> None:
    """Rows of an odd length have no whole blocks."""
    with pytest.raises(FieldError, match="block_size does not divide"):
        builder_of(config).layout(config, _target(8, 63))


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (_target(64), "rank 1 is not 2 or 3"),
        (_target(8, 64, dtype=DType.INT8), "dtype int8 is not"),
        (Target("c.weight", (8, 64, 3), DType.FLOAT32, ("Conv1d", "_ConvNd")), "no MX product"),
        (Target("e.weight", (8, 64), DType.FLOAT32, ("Embedding",)), "no MX product"),
    ],
)
def test_what_cannot_be_served_is_refused(target: Target, reason: str) -> None:
    """The reason says what is wrong with the parameter."""
    config = CONFIGS["default"]
    assert reason in (builder_of(config).refusal(config, target) or "")


def test_a_weight_that_cannot_be_served_is_a_build_error() -> None:
    """Built without a plan, the refusal is an error."""
    config = CONFIGS["default"]
    with pytest.raises(BuildError, match="cannot be quantized to MX: rank 1"):
        builder_of(config).build(config, torch.ones(64))
