import warnings

import pytest
import torch
from torch.nn.functional import embedding, linear

from qconfig.builders.base import builder_of
from qconfig.codec.dtypes import DType
from qconfig.configs.choices import MappingType
from qconfig.configs.granularity import PerGroup
from qconfig.configs.intx import INTX, Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig
from qconfig.errors import LayoutError
from qconfig.layouts.intx import ActivationQuantization
from qconfig.tensors import check_values
from qconfig.tensors.intx import IntxUnpackedToInt8Tensor
from qconfig.tensors.intx_linear import quantize_tokens
from tests.tensors.samples import float_weight
from tests.tensors.torchao_intx import torchao_intx

FLOATS = [torch.float32, torch.bfloat16, torch.float16]
ASYMMETRIC = ActivationQuantization.INT8_ASYM_PER_TOKEN
SYMMETRIC = ActivationQuantization.INT8_SYM_PER_TOKEN


def weight_only(weight, bits=4, mapping_type=MappingType.SYMMETRIC, group_size=32):
    """Return a weight in codes of a group each."""
    config = IntxWeightOnlyConfig(DType(f"int{bits}"), PerGroup(group_size), mapping_type)
    return builder_of(config).build(config, weight)


def dynamic(weight, act_mapping_type=MappingType.ASYMMETRIC):
    """Return a weight in int4 codes that quantizes its activation."""
    config = Int8DynamicActivationIntxWeightConfig(DType.INT4, act_mapping_type=act_mapping_type)
    return builder_of(config).build(config, weight)


def activation(*shape, dtype=torch.float32):
    """Return tokens of many magnitudes."""
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(1))
    return (x * torch.logspace(-1, 1, x.shape[0]).view(-1, *[1] * (x.dim() - 1))).to(dtype)


def assert_within_rounding(found, exact, steps=4):
    """Compare with an exact result, in roundings of the type of what was found."""
    scale = exact.abs().amax(-1, keepdim=True)
    assert ((found.double() - exact).abs() / scale).max() <= steps * torch.finfo(found.dtype).eps


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mapping_type", list(MappingType))
@pytest.mark.parametrize("rows", [1, 4, 5, 64])
def test_linear_is_the_product_with_the_values(dtype, mapping_type, rows):
    """Every type, mapping and batch gives the product with the values, up to rounding."""
    packed = weight_only(float_weight(dtype=dtype), mapping_type=mapping_type)
    x = activation(rows, 64, dtype=dtype)
    exact = x.double() @ packed.dequantize(torch.float32).double().t()
    assert_within_rounding(linear(x, packed), exact)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("target_dtype", INTX)
@pytest.mark.parametrize("quantizes_activation", [False, True])
def test_linear_is_torchaos_up_to_rounding(dtype, target_dtype, quantizes_activation):
    """Weight-only and with quantized activations, the result is torchao's up to rounding."""
    weight, x = float_weight(dtype=dtype), activation(8, 64, dtype=dtype)
    make = Int8DynamicActivationIntxWeightConfig if quantizes_activation else IntxWeightOnlyConfig
    config = make(target_dtype, PerGroup(32), MappingType.ASYMMETRIC)
    found = linear(x, builder_of(config).build(config, weight))
    peer = torchao_intx(
        weight, 32, target_dtype, MappingType.ASYMMETRIC, dynamic=quantizes_activation
    )
    assert_within_rounding(found, linear(x, peer).double(), steps=8)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("target_dtype", INTX)
@pytest.mark.parametrize("scale_dtype", [None, torch.float32])
def test_values_are_torchaos(dtype, target_dtype, scale_dtype):
    """Dequantized weights are torchao's bit for bit, scales of another type included."""
    weight = float_weight(dtype=dtype)
    ours = None if scale_dtype is None else DType.parse(scale_dtype)
    config = IntxWeightOnlyConfig(target_dtype, PerGroup(32), MappingType.ASYMMETRIC, ours)
    packed = builder_of(config).build(config, weight)
    peer = torchao_intx(weight, 32, target_dtype, MappingType.ASYMMETRIC, scale_dtype=scale_dtype)
    assert torch.equal(packed.dequantize(), peer.dequantize())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_tokens_are_quantized_as_torchaos(dtype, rows):
    """Codes, zero points and scales of tokens give the values that torchao multiplies with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchao.quantization.quantize_.workflows.intx import intx_unpacked_to_int8_tensor

    x = activation(rows, 64, dtype=dtype)
    x[-1, :40] = 0
    values, scale = quantize_tokens(x, ASYMMETRIC.value)
    theirs = intx_unpacked_to_int8_tensor._apply_int8_act_asym_per_token_quant_dequant(x)
    assert torch.equal(values * scale, theirs)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("how", [MappingType.ASYMMETRIC, MappingType.SYMMETRIC])
@pytest.mark.parametrize("rows", [1, 4, 5, 64])
def test_dynamic_linear_quantizes_the_activation(dtype, how, rows):
    """The product is that of the quantized activation, not of the activation, up to rounding."""
    packed = dynamic(float_weight(dtype=dtype), how)
    x = activation(rows, 64, dtype=dtype)
    values = packed.dequantize(torch.float32).double().t()
    assert_within_rounding(linear(x, packed), packed.activation_seen(x).double() @ values)
    assert not torch.equal(packed.activation_seen(x), x.float())


def test_a_quantized_activation_is_no_worse_than_torchaos():
    """Against the exact product of the same codes, the error is at most that of torchao."""
    weight = float_weight(256, 512, dtype=torch.bfloat16)
    x = activation(64, 512, dtype=torch.bfloat16)
    packed, peer = dynamic(weight), torchao_intx(weight, 32, DType.INT4, dynamic=True)
    exact = packed.activation_seen(x).double() @ packed.dequantize(torch.float32).double().t()
    ours, theirs = ((linear(x, w).double() - exact).norm() for w in (packed, peer))
    assert ours <= theirs * 1.05


@pytest.mark.parametrize("how", [MappingType.ASYMMETRIC, MappingType.SYMMETRIC])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_token_that_is_not_finite_spoils_itself_only(how, value):
    """A token with NaN or infinity has no finite result and leaves the others alone."""
    packed = dynamic(float_weight(), how)
    x = activation(3, 64)
    expected = linear(x, packed)
    x[1, 5] = value
    found = linear(x, packed)
    assert not found[1].isfinite().any()
    assert torch.equal(found[[0, 2]], expected[[0, 2]])


def test_tokens_of_zeros():
    """A token of zeros gives the bias."""
    bias = torch.arange(32.0)
    packed = dynamic(float_weight())
    assert torch.equal(linear(torch.zeros(2, 64), packed, bias), bias.expand(2, 32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 16])
def test_rows_of_a_buffer_change_nothing(monkeypatch, dtype, rows):
    """However few rows the buffer holds, the result is the same up to rounding."""
    packed = weight_only(float_weight(dtype=dtype), mapping_type=MappingType.ASYMMETRIC)
    x = activation(rows, 64, dtype=dtype)
    whole = linear(x, packed)
    monkeypatch.setattr("qconfig.tensors.blockwise._BUFFER_BYTES", 3 * 64 * 4)
    assert_within_rounding(linear(x, packed), whole.double())


@pytest.mark.parametrize("quantizes_activation", [False, True])
def test_gradient_is_straight_through(quantizes_activation):
    """The gradient of the activation is that of the product with the values."""
    weight = float_weight()
    packed = dynamic(weight) if quantizes_activation else weight_only(weight)
    x = activation(5, 64).requires_grad_()
    upstream = activation(5, 32)
    linear(x, packed).backward(upstream)
    torch.testing.assert_close(x.grad, upstream @ packed.dequantize())


@pytest.mark.parametrize("how", [None, ASYMMETRIC.value])
def test_operator_keeps_the_rules_of_torch(how):
    """Schema, fake kernel and gradient of the operator pass torch's own check."""
    packed = weight_only(float_weight(), mapping_type=MappingType.ASYMMETRIC)
    x = activation(3, 64).requires_grad_()
    arguments = (x, packed.qdata, packed.scale, packed.zero_point, how)
    torch.library.opcheck(torch.ops.qconfig.intx_linear.default, arguments)


def test_floating_zero_points():
    """Stretched codes, whose zero point is -0.5, give the values that torchao gives them."""
    qdata = torch.tensor([[-2, -1, 0, 1]], dtype=torch.int8)
    scale = torch.tensor([[0.5]], dtype=torch.bfloat16)
    zero_point = torch.tensor([[-0.5]], dtype=torch.bfloat16)
    packed = IntxUnpackedToInt8Tensor(
        qdata, scale, DType.INT2, (1, 4), torch.bfloat16, zero_point=zero_point
    )
    assert packed.dequantize().tolist() == [[-0.75, -0.25, 0.25, 0.75]]
    assert linear(torch.ones(1, 4, dtype=torch.bfloat16), packed).item() == 0


def test_embedding_does_not_quantize_an_activation():
    """Rows that are looked up are those of the dequantized weight."""
    packed = dynamic(float_weight())
    indices = torch.tensor([[3, 1], [0, 31]])
    assert torch.equal(embedding(indices, packed), packed.dequantize()[indices])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("qdata", torch.full((2, 4), 8, dtype=torch.int8), "qdata is out of range: 8 of 8"),
        ("scale", torch.zeros(2, 1), "scale is not positive: 2 of 2"),
        ("scale", torch.full((2, 1), float("nan")), "scale is not finite: 2 of 2"),
        ("zero_point", torch.full((2, 1), float("inf")), "zero_point is not finite: 2 of 2"),
    ],
)
def test_elements_are_checked(field, value, message):
    """Codes outside of their type and scales that are none are found when elements are checked."""
    layout = weight_only(float_weight(2, 4), group_size=4).with_fields(**{field: value}).to_layout()
    with pytest.raises(LayoutError, match=message):
        IntxUnpackedToInt8Tensor.from_layout(layout, check=True)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("target_dtype", DType.UINT4, "target_dtype is not a signed integer type of 1 to 8 bits"),
        ("block_size", (1, 3), "block_size does not tile the tensor"),
        ("scale", torch.ones(2, 2), "scale has a wrong shape for its blocks"),
        ("zero_point", torch.ones(2, 2), "zero_point has a wrong shape for its blocks"),
        ("qdata", torch.ones(2, 4), "qdata has a wrong dtype"),
        ("dtype", torch.int8, "dtype is not a floating-point type"),
    ],
)
def test_fields_are_checked(field, value, message):
    """Fields that do not fit together are refused by the constructor."""
    packed = weight_only(float_weight(2, 4), group_size=4)
    with pytest.raises(LayoutError, match=message):
        packed.with_fields(**{field: value})


@pytest.mark.parametrize("shape", [(3, 0), (0, 64), (0,)])
def test_empty_activations_are_seen(shape):
    """Of nothing nothing is seen, also where a row has no columns."""
    columns = shape[-1]
    tensor = IntxUnpackedToInt8Tensor(
        torch.zeros(8, columns, dtype=torch.int8),
        torch.ones(8, 1 if columns else 0),
        "int4",
        (1, columns),
        "float32",
        activation_quantization=ASYMMETRIC,
    )
    assert tensor.activation_seen(torch.ones(shape)).shape == shape


def test_float64_activations_are_seen_in_float64():
    """Dequantized activations keep the accuracy of the product."""
    tensor = dynamic(float_weight())
    x = activation(3, 64, dtype=torch.float64)
    expected = tensor.activation_seen(x) @ tensor.dequantize(torch.float64).T
    assert torch.allclose(linear(x, tensor), expected, rtol=1e-12)


def test_zero_points_keep_to_the_range_of_their_type():
    """A zero point that is no code of int4 is named, as codes are."""
    tensor = weight_only(float_weight())
    zero = torch.full(tensor.scale.shape, 8, dtype=torch.int8)
    with pytest.raises(LayoutError, match="zero_point is out of range"):
        check_values(tensor.with_fields(zero_point=zero).to_layout())
