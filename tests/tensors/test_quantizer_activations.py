import attrs
import pytest
import torch

from qconfig.configs.int_quant import IntQuantConfig
from qconfig.configs.quant_choices import ScaleKind, ZeroPointKind
from qconfig.tensors.quantizers import bit_width_of, quantize_int, quantize_weight
from tests.brevitas_peer import quantized_activation, quantized_bias, stored_parts
from tests.tensors.quantizer_pairs import ACTIVATIONS, BIASES
from tests.tensors.quantizer_samples import same_bits

EXTERNAL = [pair for pair in BIASES if pair.config.scale_kind is ScaleKind.EXTERNAL]
INTERNAL = [pair for pair in BIASES if pair not in EXTERNAL]


def of_statistics(config):
    """Return the config with what is learned replaced by the statistics that it begins with."""
    if config.scale_kind is ScaleKind.PARAMETER:
        return config
    changes = {"scale_kind": ScaleKind.STATS}
    if isinstance(config, IntQuantConfig) and config.zero_point_kind is not ZeroPointKind.NONE:
        changes["zero_point_kind"] = ZeroPointKind.STATS
    return attrs.evolve(config, **changes)


@pytest.mark.parametrize("shape", [(3, 5, 4, 2), (6, 37)], ids=str)
@pytest.mark.parametrize("pair", ACTIVATIONS, ids=str)
def test_activations_are_those_of_brevitas(pair, shape):
    """With the statistics of one step, value, scale and zero point agree in every bit."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(5)) * 3
    channels = (1, 5, 1, 1) if len(shape) == 4 else (1, 37)
    settings = dict(pair.settings)
    if "PerChannel" in pair.quantizer.__name__:
        settings["per_channel_broadcastable_shape"] = channels
        settings["scaling_stats_permute_dims"] = (1, 0, *range(2, len(shape)))
    if "MX" in pair.quantizer.__name__:
        settings["group_dim"] = 1
    expected = stored_parts(quantized_activation(pair.quantizer, x, **settings))
    found = quantize_weight(x, of_statistics(pair.config))
    ignore_sign = (pair.format or "").startswith("FNUZ")
    for ours, theirs in zip(found, expected, strict=True):
        assert same_bits(ours, theirs, zeros_alike=ignore_sign)


@pytest.mark.parametrize("pair", EXTERNAL, ids=str)
def test_biases_with_a_scale_from_outside(pair):
    """A bias is rounded to the scale that input and weight give it."""
    bias = torch.randn(6, generator=torch.Generator().manual_seed(6))
    scale = torch.rand(6, generator=torch.Generator().manual_seed(7)) * 1e-3
    expected = quantized_bias(pair.quantizer, bias, scale)[0]
    config = pair.config
    found = quantize_int(bias, scale, torch.zeros(()), bit_width_of(config, bias), signed=True)
    assert same_bits(found, expected)


@pytest.mark.parametrize("pair", INTERNAL, ids=str)
def test_biases_with_a_scale_of_their_own(pair):
    """A bias with a scale of its own is quantized as a weight."""
    bias = torch.randn(6, generator=torch.Generator().manual_seed(6))
    expected = quantized_bias(pair.quantizer, bias)
    for ours, theirs in zip(quantize_weight(bias, pair.config), expected, strict=True):
        assert same_bits(ours, theirs)
