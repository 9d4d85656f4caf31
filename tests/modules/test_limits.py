"""What is refused by name: at planning where it can be known then, else when a module runs."""

import pytest
import torch
from torch import nn

from qconfig import quantize_
from qconfig.configs import FqnToConfig, Int8WeightOnlyConfig, PerAxis, Rule
from qconfig.configs.float_quant import FloatQuantConfig
from qconfig.configs.groupwise_quant import GroupwiseIntQuantConfig
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.engine.apply import plan_model
from qconfig.errors import FieldError, QconfigError, QuantTensorError
from qconfig.modules import QuantIdentity, QuantLinear, TruncAdaptiveAvgPool2d, TruncAvgPool2d
from qconfig.modules.activation_quantizer import ActivationQuantizer
from qconfig.tensors.quant_tensor import IntQuantTensor

SEEN = IntQuantConfig(scale_kind="STATS")
PRODUCT = IntQuantConfig(bit_width=32, scale_kind="EXTERNAL")
GROUPS = GroupwiseIntQuantConfig()
LEARNED_GROUPS = GroupwiseIntQuantConfig(scale_kind="PARAMETER_FROM_STATS")


def rules(config, name="0"):
    """Return rules that give one module a config."""
    return FqnToConfig(configs={"c": config}, rules=(Rule(name, "c"),))


PLANS = {
    "learned groups": (
        IntQuantConfig(input=LEARNED_GROUPS),
        "input: groups of activations have no scale_kind PARAMETER_FROM_STATS",
    ),
    "axis": (IntQuantConfig(output=IntQuantConfig(granularity=PerAxis(3))), "output: axis 3"),
    "bias in groups": (IntQuantConfig(bias=GROUPS), "bias: a bias has no groups"),
    "axis of a bias": (
        IntQuantConfig(bias=IntQuantConfig(granularity=PerAxis(1))),
        "bias: a bias has no axis 1",
    ),
    "product of groups": (
        GroupwiseIntQuantConfig(input=SEEN, bias=PRODUCT),
        "and the weight has groups",
    ),
    "product of input groups": (
        IntQuantConfig(input=GROUPS, bias=PRODUCT),
        "and the input has groups",
    ),
    "product of input channels": (
        IntQuantConfig(
            input=IntQuantConfig(scale_kind="STATS", granularity=PerAxis(1)), bias=PRODUCT
        ),
        "the input has scales of another axis",
    ),
    "product of weight columns": (
        IntQuantConfig(granularity=PerAxis(1), input=SEEN, bias=PRODUCT),
        "the weight has scales of another axis",
    ),
}


@pytest.mark.parametrize("case", PLANS)
def test_what_a_layer_cannot_run_is_not_planned(case):
    """A plan refuses what building, or the first forward, would refuse."""
    config, text = PLANS[case]
    model = nn.Sequential(nn.Linear(5, 5))
    with pytest.raises(QconfigError) as caught:
        plan_model(model, rules(config))
    assert text in str(caught.value)


def test_groups_that_an_activation_cannot_learn_are_not_planned():
    """A plan refuses an activation function whose groups would be learned."""
    with pytest.raises(QconfigError, match="ReLU: groups of activations have no scale_kind"):
        plan_model(nn.Sequential(nn.ReLU()), rules(LEARNED_GROUPS))


def test_a_bias_without_a_scale_is_noted():
    """A plan says what a bias with the scale of the product needs where no input is rounded."""
    plan = plan_model(nn.Sequential(nn.Linear(5, 5)), rules(IntQuantConfig(bias=PRODUCT)))
    assert "only where the module before returns quant tensors" in plan.notes[0]


@pytest.mark.parametrize(
    "config",
    [
        IntQuantConfig(bit_width=32),
        IntQuantConfig(bit_width=16, signed=False),
        IntQuantConfig(input=IntQuantConfig(bit_width=32, scale_kind="STATS")),
    ],
)
def test_integers_that_float16_does_not_hold(config):
    """Bit widths beyond float16 are refused for it when planning."""
    with pytest.raises(QconfigError, match="float16 does not hold integers of"):
        plan_model(nn.Sequential(nn.Linear(8, 4)).half(), rules(config))


def test_float16_activations_of_many_bits():
    """An activation of float16 that meets a quantizer of 32 bits is refused by name."""
    module = QuantIdentity(act=IntQuantConfig(bit_width=32, scale_kind="STATS"))
    with pytest.raises(QuantTensorError, match="float16 does not hold integers of 32 bits"):
        module(torch.ones(3, dtype=torch.float16))


def test_a_bias_of_many_bits_in_float16():
    """Codes of a bias exceed float16, and its values are those of float32."""
    torch.manual_seed(0)
    source = nn.Linear(8, 4)
    config = {
        "weight": IntQuantConfig(narrow_range=True),
        "input": IntQuantConfig(scale_kind="CONST", threshold=3.0),
        "bias": PRODUCT,
    }
    with torch.no_grad():
        source.weight.mul_(0.02)
        source.bias.add_(1.0)
    module = QuantLinear(source.half(), **config)
    output = module(torch.randn(2, 8).half())
    assert output.isfinite().all()
    torch.testing.assert_close(output.float(), source.bias.float().expand(2, 4), atol=0.2, rtol=0)


def test_a_width_that_scales_are_not_for():
    """Scales per axis refuse an activation with another number of channels, as torch's own does."""
    seen = IntQuantConfig(scale_kind="STATS", granularity=PerAxis(-1))
    module = QuantLinear(nn.Linear(7, 4), input=seen)
    module(torch.randn(2, 7))
    with pytest.raises(QuantTensorError, match="another number of channels"):
        module(torch.randn(2, 1))
    with pytest.raises(QuantTensorError, match="another number of channels"):
        module.eval()(torch.randn(2, 1))


@pytest.mark.parametrize("shape", [(3, 4), (), (4,)])
def test_groups_along_no_dimension(shape):
    """Groups along a dimension that an activation does not have are refused."""
    quantizer = ActivationQuantizer(GroupwiseIntQuantConfig(group_size=2, group_dim=5))
    with pytest.raises(QuantTensorError, match="groups lie along a dimension"):
        quantizer(torch.zeros(shape))


def test_groups_of_channels_without_a_batch():
    """Groups of channels are not taken along the height of an image without a batch."""
    model = nn.Sequential(nn.Conv2d(4, 2, 3))
    quantize_(model, rules(IntQuantConfig(input=GroupwiseIntQuantConfig(group_size=2))))
    assert model(torch.randn(1, 4, 8, 8)).shape == (1, 2, 6, 6)
    with pytest.raises(QuantTensorError, match="groups lie along a dimension"):
        model(torch.randn(4, 8, 8))


@pytest.mark.parametrize("kind", ["STATS", "PARAMETER_FROM_STATS"])
def test_an_empty_batch_in_training(kind):
    """An empty batch has no statistic, and says so."""
    module = QuantIdentity(act=IntQuantConfig(scale_kind=kind))
    with pytest.raises(QuantTensorError, match="an empty batch has no statistic"):
        module(torch.zeros(0, 3))


def test_thresholds_beyond_float32():
    """A threshold that float32 does not hold is no threshold."""
    for fields in ({"threshold": 1e300, "scale_kind": "CONST"}, {"min_threshold": 1e300}):
        with pytest.raises(FieldError, match="1e\\+300"):
            IntQuantConfig(**fields)


def test_codes_of_no_digits():
    """A code of NaN has a digit."""
    with pytest.raises(FieldError, match="a code does not go with mantissa_bit_width"):
        FloatQuantConfig(mantissa_bit_width=0, nan_values=("",))


@pytest.mark.parametrize(
    "make",
    [
        lambda: TruncAvgPool2d(nn.AvgPool2d([2, 3])),
        lambda: TruncAvgPool2d(nn.AvgPool2d((2,))),
        lambda: TruncAdaptiveAvgPool2d(nn.AdaptiveAvgPool2d([2, 2])),
    ],
)
def test_sizes_of_windows(make):
    """Windows are given as torch takes them: one size, lists and tuples of one or two."""
    codes = torch.arange(72.0).reshape(1, 2, 6, 6) % 16
    x = IntQuantTensor(codes, 1.0, 0.0, 8, signed=True)
    module = make()
    torch.testing.assert_close(module(x), module(codes), atol=1.0, rtol=0)


@pytest.mark.parametrize("name", ["0", "1"])
def test_rules_for_what_has_no_parameters(name):
    """A rule that names a module which its config cannot serve says so, not that there is none."""
    model = nn.Sequential(nn.ReLU(), nn.ReLU(), nn.Linear(4, 4))
    quantize_(model, rules(SEEN, "1"))
    with pytest.raises(QconfigError, match="the module has no parameters"):
        quantize_(model, rules(Int8WeightOnlyConfig(), name))


def test_an_activation_that_is_quantized_already():
    """A second rule for an activation function says that it is quantized."""
    model = nn.Sequential(nn.ReLU())
    quantize_(model, rules(SEEN))
    with pytest.raises(QconfigError, match="the module is quantized already"):
        quantize_(model, rules(SEEN))


def test_activations_of_a_float64_model():
    """State of activation functions has the type of the model where that is wider."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).double()
    quantize_(model, rules(SEEN, "1"))
    assert model[1].act_quant.statistic.dtype == torch.float64
