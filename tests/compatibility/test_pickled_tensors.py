"""Tensors in pickles of real torchao releases: read and upgraded, they are their writers'."""

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import linear

from qconfig.layouts.activation import Int8Product
from tests.torchao_files import Sample
from tests.torchao_pickles import biases, packed, pickles, reads

SAMPLES = [pytest.param(s, id=s.id) for s in pickles()]
KNOWN = [p for p in SAMPLES if p.values[0].truth.exists()]
QUANTIZED = [p for p in SAMPLES if "codebook" not in p.id and "semi_sparse" not in p.id]


@pytest.mark.parametrize("sample", KNOWN)
def test_dequantized_weights_are_the_writers(sample: Sample, record_property) -> None:
    """A weight is the writer's bit for bit, or within the bound of the change that is reported."""
    truth = load_file(sample.truth)
    for parameter, read in reads(sample).items():
        expected = truth.get(f"{parameter}.dequant")
        if expected is None:
            continue
        found = packed(read.layout).dequantize()
        assert found.dtype == expected.dtype
        explained = any(c.startswith("values:") for c in read.origin.changes)
        record_property(parameter, "explained" if explained else "exact")
        if not explained:
            assert torch.equal(found, expected)
            continue
        # A rounding of the product, which is at most twice the largest value, and a last place.
        bound = 2**-8 * (2 * expected.abs().max() + expected.abs())
        assert ((found.double() - expected.double()).abs() <= bound).all()


@pytest.mark.parametrize("sample", KNOWN)
def test_linear_outputs_are_the_writers(sample: Sample, record_property) -> None:
    """The output is the writer's where integers make it, else within roundings of its products."""
    truth, inputs = load_file(sample.truth), load_file(sample.inputs)
    plain = biases(sample)
    for parameter, read in reads(sample).items():
        module = parameter.removesuffix(".weight")
        expected = truth.get(f"{module}.out")
        if expected is None or "embed" in module:
            continue
        x, weight, bias = inputs[module], packed(read.layout), plain.get(f"{module}.bias")
        found = linear(x, weight, bias)
        exact = torch.equal(found, expected)
        record_property(parameter, "exact" if exact else "explained")
        if _is_exact(weight):
            assert exact
        if exact:
            continue
        bound = _roundings(x, weight, bias, expected.dtype)
        if any(c.startswith("activations") for c in read.origin.changes):
            bound = bound + _one_step(x, weight)
        assert ((found.double() - expected.double()).abs() <= bound).all()


@pytest.mark.parametrize("sample", QUANTIZED)
def test_every_quantized_tensor_of_a_pickle_is_read(sample: Sample) -> None:
    """No class of the collection is refused, and each says what it was and who wrote it."""
    found = reads(sample, known=False)
    for read in found.values():
        assert read.origin.type
        assert read.origin.releases


def _is_exact(weight: torch.Tensor) -> bool:
    """Return whether codes are multiplied as integers and scaled as the writer did."""
    how = getattr(weight, "arithmetic", None)
    return how is not None and how.product is not Int8Product.VALUES


def _roundings(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, dtype: torch.dtype
) -> torch.Tensor:
    """Return what roundings of products, sum and bias can change an output by, (M, N)."""
    seen = weight.activation_seen(x).double().abs()
    most = seen @ weight.dequantize().double().abs().t()
    most = most if bias is None else most + bias.double().abs()
    return most * max(torch.finfo(dtype).eps, x.shape[1] * 2.0**-23)


def _one_step(activation: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return what a step of each activation can change an output by, (M, N)."""
    x = activation.double()
    factor = getattr(weight, "act_pre_scale", None)
    if factor is not None:
        x = x * factor.double()
    steps = x.abs().amax(1, keepdim=True) / 127
    static = getattr(weight, "act_quant_scale", None)
    if static is not None:
        steps = steps.clamp(min=float(static.max()))
    return steps * weight.dequantize().double().abs().sum(1)
