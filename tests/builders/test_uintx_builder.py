import pytest
import torch

from qconfig.builders.base import Target, builder_of
from qconfig.codec.dtypes import DType
from qconfig.configs.uintx import (
    Int8DynamicActivationUIntxWeightConfig,
    UIntxChooseQParamsAlgorithm,
    UIntxWeightOnlyConfig,
)
from qconfig.errors import BuildError, FieldError, MigrationError
from qconfig.migrations.u_intx_weight_only_config import (
    GemliteMode,
    UIntxWeightOnlyConfigV1,
    UIntxWeightOnlyConfigV3,
)
from qconfig.versioning import registry
from tests.tensors.torchao_peer import quiet_torchao

FLOATS = (torch.float16, torch.bfloat16, torch.float32)
KINDS = UIntxChooseQParamsAlgorithm


def weight(dtype=torch.float32, shape=(32, 64)):
    """Return a weight, the same for a type."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def build(weight, **fields):
    """Return the weight, quantized."""
    config = UIntxWeightOnlyConfig(**fields)
    return builder_of(config).build(config, weight)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("kind", [KINDS.MIN_MAX, KINDS.SYMMETRIC])
def test_codes_scales_and_zero_points_are_torchaos(kind, bits, dtype):
    """They are those of choose_qparams_affine and quantize_affine, to the bit."""
    values, high = weight(dtype), 2**bits - 1
    with quiet_torchao():
        from torchao.quantization import quant_primitives as peer

        mapping, least = {
            KINDS.MIN_MAX: (peer.MappingType.ASYMMETRIC, torch.finfo(torch.float32).eps),
            KINDS.SYMMETRIC: (peer.MappingType.SYMMETRIC, 1e-5),
        }[kind]
        block = (1, 16)
        scale, zero = peer.choose_qparams_affine(
            values, mapping, block, torch.uint8, 0, high, least, None, torch.int32
        )
        codes = peer.quantize_affine(values, block, scale, zero, torch.uint8, 0, high)
    ours = build(values, group_size=16, bit_width=bits, uintx_choose_qparams_algorithm=kind)
    assert torch.equal(ours.qdata, codes)
    assert torch.equal(ours.scale, scale)
    assert torch.equal(ours.zero_point, zero)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bits", range(1, 9))
def test_hqq_is_torchaos(bits, dtype):
    """Codes, scales and zero points are those of torchao's HQQ, to the bit."""
    values = weight(dtype)
    with quiet_torchao():
        from torchao.quantization.quant_primitives import _choose_qparams_and_quantize_affine_hqq

        codes, scale, zero, _ = _choose_qparams_and_quantize_affine_hqq(
            values, bits, 16, compute_dtype=dtype, device="cpu"
        )
    ours = build(values, group_size=16, bit_width=bits, uintx_choose_qparams_algorithm="HQQ")
    assert torch.equal(ours.qdata, codes)
    assert torch.equal(ours.scale, scale.view(32, 4))
    assert torch.equal(ours.zero_point, zero.view(32, 4))


def test_the_usual_algorithm_is_that_of_torchaos_kernels():
    """HQQ with 4 bits, symmetric with 8; whole rows where there is no group size."""
    assert UIntxWeightOnlyConfig().algorithm is KINDS.HQQ
    tensor = build(weight(), group_size=None, bit_width=8)
    assert tensor.block_size == (1, 64)
    assert tensor.zero_point.unique().tolist() == [128]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_zeros_stay_zeros(kind):
    """Where a group has no range, its values are those of the weight."""
    tensor = build(torch.zeros(4, 32), group_size=16, uintx_choose_qparams_algorithm=kind)
    assert not tensor.dequantize().any()


@pytest.mark.parametrize("kind", [KINDS.MIN_MAX, KINDS.SYMMETRIC])
@pytest.mark.parametrize("size", [6e4, 2.0**-24])
def test_the_ends_of_float16_keep_their_values(size, kind):
    """Neither a width that overflows nor a scale without an inverse spoils the codes."""
    values = torch.tensor([[-size, size] * 8]).half()
    tensor = build(values, group_size=16, bit_width=8, uintx_choose_qparams_algorithm=kind)
    step = tensor.scale.double().max()
    assert ((tensor.dequantize(torch.float64) - values.double()).abs() <= step).all()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("kind", KINDS)
def test_values_that_are_not_finite_are_refused(kind, value):
    """The count and the place are named."""
    values = weight()
    values[1, 2] = value
    with pytest.raises(BuildError, match=r"holds 1 values .*\[1, 2\]"):
        build(values, group_size=16, uintx_choose_qparams_algorithm=kind)


def test_the_layout_of_a_plan_is_that_of_the_weight():
    """Types, shapes and attributes are known before there is a weight."""
    for fields in ({"group_size": 16}, {"group_size": None, "bit_width": 8}):
        config = UIntxWeightOnlyConfig(**fields)
        plan = builder_of(config).layout(config, Target("layer.weight", (32, 64), DType.BFLOAT16))
        found = build(weight(torch.bfloat16), **fields).to_layout()
        assert plan.zero_point.dtype == DType.parse(found.zero_point.dtype)
        assert plan.scale.shape == tuple(found.scale.shape)
        assert plan.block_size == found.block_size


def test_groups_that_do_not_divide_are_refused():
    """A group size of 48 does not divide 64 columns."""
    with pytest.raises(FieldError, match="group_size"):
        build(weight(), group_size=48)


def test_torchaos_first_form_means_what_it_meant():
    """UIntXWeightOnlyConfig found scales from extremes, with use_hqq by HQQ."""
    plain = registry.convert(UIntxWeightOnlyConfigV1("uint3", 32))
    assert plain == UIntxWeightOnlyConfig(32, 3, uintx_choose_qparams_algorithm="MIN_MAX")
    hqq = registry.convert(UIntxWeightOnlyConfigV1("uint3", use_hqq=True))
    assert hqq == UIntxWeightOnlyConfig(64, 3, uintx_choose_qparams_algorithm="HQQ")


def test_quantized_activations_are_another_config():
    """The mode "dynamic" of gemlite is refused with the config that says it."""
    with pytest.raises(MigrationError, match="leaves activations as they are") as caught:
        registry.convert(UIntxWeightOnlyConfigV3(mode=GemliteMode.DYNAMIC))
    assert "Int8DynamicActivationUIntxWeightConfig" in caught.value.hint


def test_products_of_gemlite_have_no_builder():
    """The config is read, and refused where it would be built."""
    with pytest.raises(BuildError, match="no builder for Int8DynamicActivationUIntxWeightConfig"):
        builder_of(Int8DynamicActivationUIntxWeightConfig())
