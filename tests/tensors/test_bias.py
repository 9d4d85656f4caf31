"""A bias enters the product of every family before that is rounded."""

import pytest
import torch
from torch import nn
from torch.nn.functional import linear

from qconfig import quantize_
from qconfig.configs import PerBlock, PerGroup, PerRow
from qconfig.configs.float8 import (
    Float8DynamicActivationFloat8WeightConfig,
    Float8WeightOnlyConfig,
)
from qconfig.configs.int4 import Int4WeightOnlyConfig
from qconfig.configs.int8 import Int8DynamicActivationInt8WeightConfig
from qconfig.configs.intx import Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig
from qconfig.configs.mx import MXDynamicActivationMXWeightConfig
from qconfig.configs.nvfp4 import NVFP4WeightOnlyConfig
from tests.tensors.samples import activation, float_weight

TILES = (PerBlock((1, 128)), PerBlock((128, 128)))
CONFIGS = {
    "int8_dynamic": Int8DynamicActivationInt8WeightConfig(),
    "int8_dynamic_group": Int8DynamicActivationInt8WeightConfig(
        granularity=(PerRow(), PerGroup(32))
    ),
    "intx": IntxWeightOnlyConfig(),
    "intx_dynamic": Int8DynamicActivationIntxWeightConfig(),
    "int4": Int4WeightOnlyConfig(),
    "float8": Float8WeightOnlyConfig(),
    "float8_group": Float8WeightOnlyConfig(granularity=PerGroup(32)),
    "float8_dynamic": Float8DynamicActivationFloat8WeightConfig(granularity=PerRow()),
    "float8_dynamic_tile": Float8DynamicActivationFloat8WeightConfig(granularity=TILES),
    "mx": MXDynamicActivationMXWeightConfig(),
    "nvfp4": NVFP4WeightOnlyConfig(),
}
# torch's packed kernel rounds these to bfloat16 itself.
EARLY = {("int4", torch.bfloat16, 1), ("int4", torch.bfloat16, 16)}
# Products in float32, in bfloat16, and in bfloat16 the other way around.
ROWS = (1, 16, 64)


def quantized(name, dtype):
    """Return a weight of 128 rows, packed."""
    layer = nn.Linear(128, 128, dtype=dtype)
    layer.weight = nn.Parameter(float_weight(128, 128, dtype=dtype))
    quantize_(layer, CONFIGS[name])
    return layer.weight


def bias_of(dtype):
    """Return a bias as large as the products of these weights are."""
    return float_weight(128, dtype=dtype, seed=7) * 12


def error(found, expected):
    """Return the root of the mean square of differences."""
    return (found.double() - expected).square().mean().sqrt()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_bias_costs_no_rounding_of_its_own(name, dtype):
    """Against float64, products with a bias are nearer than rounded products plus the bias."""
    weight, bias = quantized(name, dtype), bias_of(dtype)
    for rows in ROWS:
        if (name, dtype, rows) in EARLY:
            continue
        x = activation(rows, 128, dtype=dtype)
        seen, values = weight.activation_seen(x).double(), weight.dequantize(torch.float64)
        expected = linear(seen, values, bias.double())
        late = linear(x, weight) + bias
        assert error(linear(x, weight, bias), expected) < 0.95 * error(late, expected), rows


@pytest.mark.parametrize("name", CONFIGS)
def test_few_rows_with_a_bias_are_rounded_once(name):
    """In float16, whose products are summed in float32, results are the rounded exact ones."""
    weight, bias, x = quantized(name, torch.float16), bias_of(torch.float16), activation(3, 128)
    x = x.half()
    seen, values = weight.activation_seen(x).double(), weight.dequantize(torch.float64)
    expected = linear(seen, values, bias.double())
    found = linear(x, weight, bias)
    assert (found == expected.half()).double().mean() > 0.98


@pytest.mark.parametrize("name", CONFIGS)
def test_a_bias_of_a_wider_type_is_not_rounded_first(name):
    """Where a bias makes up most of a sum, one of float32 gives nearer sums than its rounding."""
    dtype = torch.bfloat16
    weight, bias = quantized(name, dtype), bias_of(torch.float32) * 16
    for rows in ROWS:
        x = activation(rows, 128, dtype=dtype)
        seen, values = weight.activation_seen(x).double(), weight.dequantize(torch.float64)
        expected = linear(seen, values, bias.double())
        found = linear(x, weight, bias)
        assert found.dtype == dtype
        rounded = linear(x, weight, bias.to(dtype))
        assert error(found, expected) < 0.95 * error(rounded, expected), rows


@pytest.mark.parametrize("name", CONFIGS)
def test_biases_of_any_strides(name):
    """One element for all rows, and every second one of a vector, are what they look like."""
    weight, x = quantized(name, torch.float32), activation(3, 128)
    spread = bias_of(torch.float32).repeat_interleave(2)[::2]
    for bias in (torch.tensor(2.5), torch.tensor([2.5]), spread):
        expected = linear(x, weight, bias.expand(128).clone())
        assert torch.equal(linear(x, weight, bias), expected)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_bias_alone_gets_its_gradient(name):
    """Without a gradient for the activation the bias trains on, as that of a float weight."""
    weight, x = quantized(name, torch.float32), activation(2, 3, 128)
    bias = bias_of(torch.float32).requires_grad_()
    factor = float_weight(2, 3, 128, seed=3)
    (linear(x, weight, bias) * factor).sum().backward()
    assert torch.allclose(bias.grad, factor.sum((0, 1)), atol=1e-5)
    assert torch.equal(linear(x, weight, bias), linear(x, weight, bias.detach()))


@pytest.mark.parametrize("name", CONFIGS)
def test_activation_and_bias_get_their_gradients(name):
    """The activation's gradient is the same with a bias and without."""
    weight, bias = quantized(name, torch.float32), bias_of(torch.float32).requires_grad_()
    factor, gradients = float_weight(3, 128, seed=3), []
    for added in (bias, None):
        x = activation(3, 128).requires_grad_()
        (linear(x, weight, added) * factor).sum().backward()
        gradients.append(x.grad)
    assert torch.equal(*gradients)
    assert torch.allclose(bias.grad, factor.sum(0), atol=1e-5)


@pytest.mark.parametrize("name", CONFIGS)
def test_compiled_linears_add_the_bias_likewise(name):
    """A graph with a bias that is trained has the bits of the call, and its gradients."""
    weight, x = quantized(name, torch.bfloat16), activation(3, 128, dtype=torch.bfloat16)
    bias = bias_of(torch.bfloat16).requires_grad_()
    torch._dynamo.reset()
    compiled = torch.compile(linear, backend="aot_eager", fullgraph=True)
    found = compiled(x, weight, bias)
    assert torch.equal(found, linear(x, weight, bias))
    found.sum().backward()
    assert torch.equal(bias.grad, torch.full_like(bias, 3))


@pytest.mark.parametrize("name", CONFIGS)
def test_no_rows_and_a_bias_give_no_rows(name):
    """An empty batch stays empty."""
    weight = quantized(name, torch.float32)
    empty = torch.empty(2, 0, 128)
    assert linear(empty, weight, bias_of(torch.float32)).shape == (2, 0, 128)


@pytest.mark.parametrize("name", ["int4", "intx", "mx", "nvfp4"])
def test_the_bias_of_addmm_is_added_to_a_product_with_rows(name):
    """`addmm` with the weight itself, whose rows are summed over, adds the bias."""
    weight, bias, x = quantized(name, torch.float32), bias_of(torch.float32), activation(3, 128)
    kwargs = {"act_quant_kwargs": None} if name == "mx" else {}
    weight = weight.with_fields(**kwargs) if kwargs else weight
    expected = torch.addmm(bias.double(), x.double(), weight.dequantize(torch.float64))
    assert torch.allclose(torch.addmm(bias, x, weight).double(), expected, rtol=1e-5, atol=1e-4)
