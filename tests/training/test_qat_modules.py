"""Which modules train with rounding, what they keep, and what is refused before training."""

import pytest
import torch
from torch import nn

import qconfig
from qconfig.codec.dtypes import DType
from qconfig.configs import PerAxis, PerGroup
from qconfig.configs.activation_scaling import AWQConfig, SmoothQuantConfig
from qconfig.configs.float8 import (
    Float8DynamicActivationFloat8WeightConfig,
    Float8StaticActivationFloat8WeightConfig,
    Float8WeightOnlyConfig,
)
from qconfig.configs.fqn_to_config import FqnToConfig, Rule
from qconfig.configs.int4 import Int4WeightOnlyConfig
from qconfig.configs.int8 import (
    Int8DynamicActivationInt8WeightConfig,
    Int8StaticActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
)
from qconfig.configs.intx import (
    Int8DynamicActivationIntxWeightConfig,
    Int8StaticActivationIntxWeightConfig,
    IntxWeightOnlyConfig,
)
from qconfig.configs.mx import MXDynamicActivationMXWeightConfig
from qconfig.configs.nvfp4 import (
    NVFP4DynamicActivationNVFP4WeightConfig,
    NVFP4WeightOnlyConfig,
)
from qconfig.configs.qat import IntxFakeQuantizeConfig, QATConfig
from qconfig.errors import BuildError, QconfigError

INT8 = Int8WeightOnlyConfig()
DYNAMIC = Int8DynamicActivationIntxWeightConfig(DType.INT4)
STATIC = torch.tensor(0.02)
BASES = [
    INT8,
    Int8DynamicActivationInt8WeightConfig(),
    Int8StaticActivationInt8WeightConfig(act_quant_scale=STATIC),
    IntxWeightOnlyConfig(DType.INT2, PerGroup(32)),
    DYNAMIC,
    Int8StaticActivationIntxWeightConfig(act_quant_scale=STATIC, weight_dtype=DType.INT4),
    Int4WeightOnlyConfig(group_size=64),
    Float8WeightOnlyConfig(),
    Float8DynamicActivationFloat8WeightConfig(),
    Float8StaticActivationFloat8WeightConfig(act_quant_scale=STATIC),
    MXDynamicActivationMXWeightConfig(),
    NVFP4WeightOnlyConfig(),
    NVFP4DynamicActivationNVFP4WeightConfig(),
]
LEARNED = IntxFakeQuantizeConfig(DType.INT4, PerGroup(32), is_dynamic=False, range_learning=True)


def linear(dtype=torch.float32):
    """Return a linear in a model, the same each time."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(128, 64, dtype=dtype))


def batch(dtype=torch.float32):
    """Return activations, the same each time."""
    return torch.randn(16, 128, generator=torch.Generator().manual_seed(1)).to(dtype)


def converted_difference(base, dtype, *, autocast=False):
    """Return how far the converted output is from the fake-quantized one, of its largest value."""
    model = linear(dtype)
    qconfig.quantize_(model, QATConfig(base))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-4)
    for _ in range(3):
        optimizer.zero_grad()
        (model(batch(dtype)) - 1).float().square().mean().backward()
        optimizer.step()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        trained = model(batch(dtype))
        qconfig.quantize_(model, QATConfig(base, step="convert"))
        built = model(batch(dtype))
    assert trained.dtype is built.dtype
    return ((built - trained).float().abs().max() / trained.float().abs().max()).item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("base", BASES, ids=lambda c: type(c).__name__)
def test_every_base_computes_what_was_trained(base, dtype):
    """The converted output is the fake-quantized one, to the rounding of the type."""
    assert converted_difference(base, dtype) <= 8 * torch.finfo(dtype).eps


@pytest.mark.parametrize("base", BASES, ids=lambda c: type(c).__name__)
def test_under_autocast_too(base):
    """Under autocast activations are rounded in the type that the packed weight is given them."""
    difference = converted_difference(base, torch.float32, autocast=True)
    assert difference <= torch.finfo(torch.bfloat16).eps


@pytest.mark.parametrize(
    "base",
    [
        Int8StaticActivationInt8WeightConfig(),
        Float8StaticActivationFloat8WeightConfig(),
        Int8StaticActivationIntxWeightConfig(weight_dtype=DType.INT4),
        AWQConfig(Int4WeightOnlyConfig(group_size=64)),
        SmoothQuantConfig(Int8DynamicActivationInt8WeightConfig()),
    ],
    ids=lambda c: type(c).__name__,
)
def test_what_needs_calibration_is_refused_before_training(base):
    """A base that could not run without calibration is refused when the model is prepared."""
    model = linear()
    with pytest.raises(BuildError, match="what needs calibration cannot be trained") as caught:
        qconfig.quantize_(model, QATConfig(base))
    assert caught.value.pointer == "/base_config"
    assert caught.value.fqn == "0.weight"
    assert type(model[0]) is nn.Linear


def test_convert_without_a_base_is_refused():
    """The step CONVERT needs to be told what to build."""
    model = linear()
    qconfig.quantize_(model, QATConfig(INT8))
    with pytest.raises(BuildError, match="CONVERT does not say what to build") as caught:
        qconfig.quantize_(model, QATConfig(step="convert"))
    assert caught.value.pointer == "/base_config"


def test_another_output_scale_than_trained_is_refused():
    """Outputs that would be rounded with another scale than in training are refused."""

    def base(scale):
        return Int8StaticActivationIntxWeightConfig(
            weight_dtype=DType.INT4,
            act_quant_scale=STATIC,
            quantize_and_dequantize_output=True,
            output_act_quant_scale=torch.tensor(scale),
        )

    model = linear()
    qconfig.quantize_(model, QATConfig(base(0.02)))
    with pytest.raises(BuildError, match="rounds the output otherwise than the module"):
        qconfig.quantize_(model, QATConfig(base(0.5), step="convert"))


def test_prepared_modules_are_left_alone_by_other_configs():
    """A config that would pack the weight of a prepared module leaves it, with the reason."""
    model = linear()
    qconfig.quantize_(model, QATConfig(DYNAMIC))
    plan = qconfig.quantize_(model, INT8)
    reason = "the module is prepared for training: convert it first"
    assert plan.entries[0].reason == reason
    assert torch.isfinite(model(batch())).all()


class Doubled(nn.Linear):
    """A Linear with a forward of its own."""

    def forward(self, x):
        """Return twice the product."""
        return 2 * super().forward(x)


def test_subclasses_keep_their_forward():
    """A subclass of Linear is left alone, since its forward would be lost."""
    model = nn.Sequential(Doubled(128, 64))
    plan = qconfig.quantize_(model, QATConfig(INT8))
    assert plan.entries[0].reason == "module class Doubled is neither Linear nor Embedding itself"
    assert type(model[0]) is Doubled


def test_a_class_of_the_same_name_keeps_its_forward():
    """A class that has the name of torch's is left alone as any subclass is."""
    named = type("Linear", (Doubled,), {})
    model = nn.Sequential(named(128, 64))
    plan = qconfig.quantize_(model, QATConfig(INT8))
    assert "module class Linear is not torch's own" in plan.entries[0].reason
    assert type(model[0]) is named


def test_an_exchanged_forward_is_refused():
    """A forward that was put on the module is not dropped silently."""
    model = linear()
    model[0].forward = lambda x: x
    with pytest.raises(BuildError, match="forward was exchanged") as caught:
        qconfig.quantize_(model, QATConfig(INT8))
    assert caught.value.fqn == "0.weight"


def test_hooks_and_modes_survive():
    """Hooks run before, while and after training, and modules keep their mode."""
    model, calls = linear().eval(), []
    handle = model[0].register_forward_hook(lambda *_: calls.append(1))
    qconfig.quantize_(model, QATConfig(INT8))
    assert not any(module.training for module in model.modules())
    model(batch())
    model.train()
    qconfig.quantize_(model, QATConfig(INT8, step="convert"))
    assert all(module.training for module in model.modules())
    model(batch())
    assert len(calls) == 2
    handle.remove()
    model(batch())
    assert len(calls) == 2


def test_a_module_under_two_names_stays_one():
    """A module that a model holds twice is prepared and converted once, under both names."""
    shared = nn.Linear(64, 64)
    model = nn.ModuleDict({"list": nn.ModuleList([shared]), "other": shared})
    for step in ("prepare", "convert"):
        qconfig.quantize_(model, QATConfig(INT8, step=step))
        assert model["other"] is model["list"][0]
    assert type(shared.weight) is nn.Parameter
    assert type(model["other"].weight.data).__name__ == "Int8Tensor"


def test_tied_weights_of_two_modules_are_refused():
    """Weights that two modules share would part; neither module is changed."""
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
    model[1].weight = model[0].weight
    with pytest.raises(BuildError, match="changes the module of a tied parameter"):
        qconfig.quantize_(model, QATConfig(INT8))
    assert model[1].weight is model[0].weight


def test_one_model_may_mix_training_and_packing():
    """Under rules some layers are prepared, others packed at once, and both pass gradients."""
    model = nn.Sequential(nn.Linear(128, 128), nn.Linear(128, 128))
    rules = FqnToConfig(
        configs={"train": QATConfig(DYNAMIC), "pack": INT8},
        rules=(Rule("0", use="train"), Rule("1", use="pack")),
    )
    qconfig.quantize_(model, rules)
    model(batch()).sum().backward()
    assert model[0].weight.grad.abs().sum() > 0
    assert type(model[1].weight.data).__name__ == "Int8Tensor"


def test_max_norm_scales_rounded_rows():
    """An Embedding with max_norm trains, leaves its weight alone, and converts to the same rows."""
    model = nn.Sequential(nn.Embedding(8, 64, max_norm=0.5))
    base = IntxWeightOnlyConfig(DType.INT8, PerAxis(0))
    before = model[0].weight.detach().clone()

    def step(name):
        config = QATConfig(base, step=name)
        rules = FqnToConfig(configs={"q": config}, rules=(Rule("0", use="q"),))
        qconfig.quantize_(model, rules)

    step("prepare")
    rows = model(torch.tensor([1, 3]))
    rows.sum().backward()
    assert model[0].weight.grad[1].all()
    assert torch.equal(model[0].weight, before)
    assert (rows.norm(dim=1) <= 0.5 + 1e-5).all()
    step("convert")
    assert torch.equal(model(torch.tensor([1, 3])), rows)


@pytest.mark.parametrize(
    "config", [QATConfig(DYNAMIC), QATConfig(weight_config=LEARNED)], ids=["base", "learned"]
)
def test_prepared_models_compile(config):
    """A prepared model compiles, with a break at each prepared module, to the same gradients."""
    model, compiled = linear(), linear()
    qconfig.quantize_(model, config)
    qconfig.quantize_(compiled, config)
    torch.compile(compiled, backend="aot_eager")(batch()).square().sum().backward()
    model(batch()).square().sum().backward()
    for one, other in zip(model.parameters(), compiled.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_gives_the_same_gradients(reentrant):
    """Gradient checkpointing runs the rounding twice and changes nothing."""
    model, saving = linear(), linear()
    for one in (model, saving):
        qconfig.quantize_(one, QATConfig(weight_config=LEARNED))
    x = batch().requires_grad_()
    model(x).square().sum().backward()
    made = torch.utils.checkpoint.checkpoint(saving, x, use_reentrant=reentrant)
    made.square().sum().backward()
    for one, other in zip(model.parameters(), saving.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_learned_scales_stay_positive_and_come_back(dtype):
    """Scales that steps push below zero are used as positive ones, and gradients lift them."""
    model = linear(dtype)
    qconfig.quantize_(model, QATConfig(weight_config=LEARNED))
    scale = model[0].fake_quantizer.learned.scale
    with torch.no_grad():
        scale.fill_(-0.01)
    target = 3 * batch(dtype)[:, :64]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(200):
        optimizer.zero_grad()
        (model(batch(dtype)) - target).float().square().mean().backward()
        optimizer.step()
    assert (scale > 0).float().mean() > 0.5
    config = IntxWeightOnlyConfig(DType.INT4, PerGroup(32), scale_dtype=DType.FLOAT32)
    qconfig.quantize_(model, QATConfig(config, step="convert"))
    assert (model[0].weight.scale > 0).all()
    assert model(batch(dtype)).isfinite().all()


def test_a_failed_conversion_leaves_the_prepared_model():
    """Where one layer cannot be converted, all stay prepared."""
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
    qconfig.quantize_(model, QATConfig(INT8))
    with torch.no_grad():
        model[1].weight[3, 3] = torch.nan
    with pytest.raises(QconfigError) as caught:
        qconfig.quantize_(model, QATConfig(INT8, step="convert"))
    assert caught.value.fqn == "1.weight"
    assert {type(module).__name__ for module in model} == {"FakeQuantizedLinear"}


def test_fused_encoder_layers_do_not_pass_it_by():
    """An encoder layer of torch rounds without gradients as it does with them."""
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(64, 2, 64, batch_first=True).eval()
    config = QATConfig(base_config=IntxWeightOnlyConfig(weight_dtype=DType.INT2))
    rules = FqnToConfig(configs={"c": config}, rules=(Rule("linear*", "c"),))
    qconfig.quantize_(model, rules)
    x = torch.randn(2, 5, 64)
    expected = model(x)
    with torch.no_grad():
        torch.testing.assert_close(model(x), expected)
