"""`quantize_` puts Quant modules in place by FQN."""

import pytest
import torch
from attrs import evolve
from torch import nn

from qconfig import quantize_
from qconfig.configs import FqnToConfig, Int8WeightOnlyConfig, PerAxis, Rule
from qconfig.configs.float_quant import FloatQuantConfig
from qconfig.configs.groupwise_quant import GroupwiseFloatQuantConfig
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.engine.apply import plan_model
from qconfig.engine.plan_document import Plan
from qconfig.errors import BuildError, PlanError, QconfigError
from qconfig.modules import (
    QuantConv1d,
    QuantConv2d,
    QuantEmbedding,
    QuantIdentity,
    QuantLinear,
    QuantReLU,
    TruncAdaptiveAvgPool2d,
    TruncAvgPool2d,
)
from qconfig.tensors.quant_tensor import IntQuantTensor
from tests.modules.nets import ACTIVATION, POOL, POSITIVE, RULES, WEIGHT, Net, images, quantized

INT4 = IntQuantConfig(bit_width=4)


def rules(config, *names, **more):
    """Return rules that give names one config."""
    return FqnToConfig(configs={"c": config}, rules=tuple(Rule(n, "c") for n in names), **more)


def problems(model, config):
    """Return the problems for which nothing is done."""
    with pytest.raises(QconfigError) as caught:
        quantize_(model, config)
    return [str(problem) for problem in caught.value.problems]


def test_a_network():
    """Layers and activations become Quant modules that hold the parameters of the ordinary ones."""
    model = Net()
    before = dict(model.named_parameters())
    plan = quantize_(model, RULES)
    kinds = [type(m) for m in model.children()]
    assert kinds == [QuantConv2d, QuantReLU, TruncAvgPool2d, QuantLinear]
    after = dict(model.named_parameters())
    assert all(after[name] is before[name] for name in before)
    assert model.conv.weight_quant.recorded.bit_width == 4
    assert model.conv.input_quant.recorded == ACTIVATION
    assert model.act.act_quant.recorded == POSITIVE
    assert model.pool.trunc_config == POOL
    assert {e.fqn: e.action.value for e in plan.modules} == {"act": "quantize", "pool": "quantize"}
    assert model(images()).shape == (8, 5)


def test_a_plan_says_so():
    """The plan has the layout that frozen weights have, says that they stay floats, and is read."""
    plan = plan_model(Net(), RULES)
    entry = plan.entries[0]
    assert (entry.fqn, entry.layout) == ("conv.weight", "IntQuantTensorLayout")
    (note,) = plan.notes
    assert note == (
        "weights: weights stay floats, and modules round them when they run: layouts and bytes "
        "are those of frozen weights"
    )
    assert Plan.from_dict(plan.to_dict()) == plan


SERVED = {
    "Linear": (lambda: nn.Linear(8, 4), QuantLinear),
    "Conv1d": (lambda: nn.Conv1d(4, 2, 3), QuantConv1d),
    "Conv2d": (lambda: nn.Conv2d(4, 2, 3), QuantConv2d),
    "Embedding": (lambda: nn.Embedding(8, 4), QuantEmbedding),
    "Identity": (nn.Identity, QuantIdentity),
    "ReLU": (nn.ReLU, QuantReLU),
}
CONFIGS = {"int": INT4, "float": FloatQuantConfig(), "groups": GroupwiseFloatQuantConfig()}


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("kind", SERVED)
def test_every_module_and_family(kind, config):
    """Each family puts its module in the place of each class."""
    make, expected = SERVED[kind]
    model = nn.Sequential(make())
    quantize_(model, rules(CONFIGS[config], "0"))
    assert type(model[0]) is expected


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: nn.AvgPool2d(2), TruncAvgPool2d),
        (lambda: nn.AdaptiveAvgPool2d(1), TruncAdaptiveAvgPool2d),
    ],
)
def test_pools(make, expected):
    """Average pools become truncating ones."""
    model = nn.Sequential(make())
    quantize_(model, rules(POOL, "0"))
    assert type(model[0]) is expected


def test_one_config_for_all():
    """A config by itself is for every Linear, and for no activation."""
    model = Net()
    quantize_(model, INT4)
    assert [type(m) for m in model.children()] == [nn.Conv2d, nn.ReLU, nn.AvgPool2d, QuantLinear]


def test_modules_without_a_counterpart():
    """The weight of another class becomes a quant tensor, and its module stays what it is."""
    model = nn.Sequential(nn.ConvTranspose2d(4, 2, 3))
    quantize_(model, rules(INT4, "0"))
    assert type(model[0]) is nn.ConvTranspose2d
    assert isinstance(model[0].weight, IntQuantTensor)
    assert not model[0].weight.requires_grad
    model(torch.randn(1, 4, 5, 5))


def test_two_parameters_of_one_module():
    """Two rules for parameters of one module both do what they say."""

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Parameter(torch.randn(2, 4, 8))
            self.down = nn.Parameter(torch.randn(2, 8, 4))

    model = nn.Sequential(Experts())
    quantize_(model, rules(INT4, "0.up", "0.down"))
    assert isinstance(model[0].up, IntQuantTensor)
    assert isinstance(model[0].down, IntQuantTensor)


def test_hooks_are_shared():
    """Hooks of the ordinary module run in its place."""
    model, seen = nn.Sequential(nn.Linear(8, 4), nn.ReLU()), []
    for module in model:
        module.register_forward_hook(lambda m, _, __: seen.append(type(m)))
    quantize_(model, rules(IntQuantConfig(scale_kind="STATS"), "0", "1"))
    model(torch.randn(2, 8))
    assert seen == [QuantLinear, QuantReLU]


def test_the_mode_is_kept():
    """A model in evaluation mode stays in it, quantizers included."""
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU()).eval()
    quantize_(model, rules(evolve(ACTIVATION, input=ACTIVATION), "0", "1"))
    assert not any(module.training for module in model.modules())


def test_what_is_quantized_already():
    """Neither this family nor another quantizes a Quant module again."""
    for config in (INT4, Int8WeightOnlyConfig()):
        texts = problems(quantized(), rules(config, "fc"))
        assert "already" in texts[0] or "prepared for training" in texts[0]


def test_quantizers_are_no_weights():
    """What quantizers hold is left alone by patterns for all."""
    plan = plan_model(quantized(), rules(Int8WeightOnlyConfig(), "**"), allow_unmatched=True)
    assert {entry.action.value for entry in plan.entries} == {"skip"}


REFUSED = {
    "pool_scale": ("pool", INT4, "the scale of a truncated average is that of its input"),
    "pool_float": ("pool", FloatQuantConfig(), "average pools are truncated to integers only"),
    "pool_fields": (
        "pool",
        evolve(POOL, collect_steps=7),
        "no field but bit_width, narrow_range, rounding, signed, scale_kind",
    ),
    "external": ("act", POOL, "scale_kind EXTERNAL is for biases and average pools"),
    "channels": (
        "act",
        evolve(ACTIVATION, granularity=PerAxis(1)),
        "ReLU: it does not say how many channels there are",
    ),
    "output": ("act", evolve(ACTIVATION, output=ACTIVATION), "ReLU has no output beside"),
    "bias": ("fc.bias", INT4, "it is no weight; the config of the weight has a field for the"),
    "weight": ("fc", POOL, "scale_kind EXTERNAL is for biases"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    """What a module cannot do is refused when planning, and says why."""
    target, config, text = REFUSED[name]
    model = Net()
    texts = problems(model, rules(config, target))
    assert text in texts[0]
    assert type(model.fc) is nn.Linear


def test_other_modules_are_refused():
    """A rule for an activation function that there is no module for says which there are."""
    (text,) = problems(nn.Sequential(nn.GELU()), rules(ACTIVATION, "0"))
    assert "GELU is none of Identity, ReLU, AdaptiveAvgPool2d, AvgPool2d" in text


def test_activations_of_an_embedding():
    """An Embedding rounds its weight only, and refuses a config that says more."""
    with pytest.raises(PlanError, match="module class Embedding does not round input and output"):
        quantize_(
            nn.Sequential(nn.Embedding(8, 4)),
            rules(evolve(INT4, input=ACTIVATION, output=ACTIVATION), "0"),
        )


def test_a_bias_that_is_not_there():
    """A config for a bias is not used where there is none, so that rules serve mixed models."""
    model = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 4, bias=False))
    quantize_(model, rules(WEIGHT, "*"))
    assert [m.bias_quant is None for m in model] == [False, True]


def test_weights_that_are_not_finite():
    """A weight with NaN is refused before anything is put in place."""
    model = Net()
    with torch.no_grad():
        model.fc.weight[0, 0] = torch.nan
    with pytest.raises(BuildError, match=r"^fc\.weight: "):
        quantize_(model, RULES)
    assert [type(m) for m in model.children()] == [nn.Conv2d, nn.ReLU, nn.AvgPool2d, nn.Linear]


def test_weights_without_data():
    """A weight on the meta device is refused."""
    with torch.device("meta"):
        model = Net()
    with pytest.raises(BuildError, match="the parameter has no data"):
        quantize_(model, RULES)


def test_an_exchanged_forward():
    """A module whose forward was exchanged is refused: ours would take its place unseen."""
    for name in ("fc", "act"):
        model = Net()
        module = model.get_submodule(name)
        module.forward = module.forward
        with pytest.raises(BuildError, match="forward was exchanged"):
            quantize_(model, RULES)
