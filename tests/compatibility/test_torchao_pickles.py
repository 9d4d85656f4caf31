"""Tensors in pickles of real torchao releases: read and upgraded, they are their writers'."""

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import linear

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
    """The output is the writer's up to rounding, or a reported change of activations bounds it."""
    truth, inputs = load_file(sample.truth), load_file(sample.inputs)
    plain = biases(sample)
    for parameter, read in reads(sample).items():
        module = parameter.removesuffix(".weight")
        expected = truth.get(f"{module}.out")
        changes = read.origin.changes
        if expected is None or "embed" in module or any("no product" in c for c in changes):
            continue
        weight = packed(read.layout)
        found = linear(inputs[module], weight, plain.get(f"{module}.bias"))
        error = (found.double() - expected.double()).abs()
        bound = 8 * torch.finfo(expected.dtype).eps * expected.double().abs().max()
        explained = any(c.startswith("activations") for c in changes)
        outcome = "explained" if explained else "rounding"
        record_property(parameter, "exact" if torch.equal(found, expected) else outcome)
        if explained:
            bound = bound + _one_step(inputs[module], weight)
        assert (error <= bound).all()


@pytest.mark.parametrize("sample", QUANTIZED)
def test_every_quantized_tensor_of_a_pickle_is_read(sample: Sample) -> None:
    """No class of the collection is refused, and each says what it was and who wrote it."""
    found = reads(sample, known=False)
    for read in found.values():
        assert read.origin.type
        assert read.origin.releases


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
