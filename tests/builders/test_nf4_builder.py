import pytest
import torch

from qconfig.builders.base import Target, builder_of
from qconfig.codec.dtypes import DType
from qconfig.configs.nf4 import NF4WeightOnlyConfig
from qconfig.errors import BuildError, FieldError
from tests.tensors.torchao_peer import quiet_torchao

FIELDS = ("quantized_data", "quantized_scalers", "quantization_factor", "scaler_mean", "nf4")


def weight(dtype=torch.float32, shape=(64, 128)):
    """Return a weight, the same for a type."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def build(weight, *fields):
    """Return the weight, quantized."""
    config = NF4WeightOnlyConfig(*fields)
    return builder_of(config).build(config, weight)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("blocks", [(64, 128), (16, 64), (32, 8)])
def test_every_field_is_torchaos(blocks, dtype):
    """Codes, scales, divisors, mean and table are those of to_nf4, to the bit."""
    with quiet_torchao():
        from torchao.quantization.quantize_.workflows.nf4.nf4_tensor import to_nf4

        theirs = to_nf4(weight(dtype), *blocks)
    ours = build(weight(dtype), *blocks)
    for name in FIELDS:
        assert torch.equal(getattr(ours, name), getattr(theirs, name))


def test_blocks_of_zeros_stay_zeros():
    """A block without a scale has the code of zero."""
    values = weight()
    values[:2] = 0
    assert not build(values, 64, 128).dequantize()[:2].any()


def test_parts_of_a_large_weight_are_like_a_small_one(monkeypatch):
    """Codes that are found a few blocks at a time are the same."""
    whole = build(weight(), 64, 128)
    monkeypatch.setattr("qconfig.tensors.nf4_quantize.slab_elements", lambda *_: 5 * 64)
    assert torch.equal(build(weight(), 64, 128).quantized_data, whole.quantized_data)


def test_the_layout_of_a_plan_is_that_of_the_weight():
    """Types and shapes are known before there is a weight."""
    config = NF4WeightOnlyConfig(64, 128)
    plan = builder_of(config).layout(config, Target("layer.weight", (64, 128), DType.BFLOAT16))
    found = build(weight(torch.bfloat16), 64, 128).to_layout()
    for name in FIELDS:
        planned, made = getattr(plan, name), getattr(found, name)
        assert (planned.dtype, planned.shape) == (DType.parse(made.dtype), tuple(made.shape))


@pytest.mark.parametrize(
    ("fields", "pointer"), [((48, 8), "/block_size"), ((64, 256), "/scaler_block_size")]
)
def test_blocks_and_groups_fill_the_weight(fields, pointer):
    """What does not is named by field."""
    with pytest.raises(FieldError) as caught:
        build(weight(), *fields)
    assert caught.value.pointer == pointer


def test_values_that_are_not_finite_are_refused():
    """The count and the place are named."""
    values = weight()
    values[1, 2] = float("nan")
    with pytest.raises(BuildError, match=r"holds 1 values .*\[1, 2\]"):
        build(values, 64, 128)
