import gc
import warnings
import weakref

import pytest
import torch
from torch import nn

from qconfig import CalibrationConfig, Int8WeightOnlyConfig, PerTensor, calibrate, quantize_
from qconfig.errors import BuildError, FieldError, UsageError
from tests.calibration.models import Branches, batches, one_linear


def hooks(model):
    """Return how many hooks the modules of a model have."""
    return sum(
        len(m._forward_hooks) + len(m._forward_pre_hooks) + len(m._forward_hooks_with_kwargs)
        for m in model.modules()
    )


def test_what_saw_data_and_what_did_not():
    """A layer that no batch reaches is named as unseen, and is no error."""
    found = calibrate(Branches(), batches())
    assert found.layers == ("up", "twice", "down")
    assert found.unseen == ("rare",)
    assert found.layer("rare") is None
    assert found.layer("norm") is None
    assert str(found) == "3 of 4 layers calibrated (MIN_MAX)"


def test_kinds_of_batches():
    """Tensors, tuples, lists and mappings call the model alike; keywords reach it."""
    x = batches(1)[0]
    expected = calibrate(Branches_(), [x]).layer("up").act_scale
    for batch in ((x,), [x], {"x": x}):
        assert calibrate(Branches_(), [batch]).layer("up").act_scale == expected
    assert calibrate(Branches_(), [{"x": x, "rare": True}]).unseen == ()


def Branches_():  # noqa: N802
    """Return the same model each time."""
    torch.manual_seed(0)
    return Branches()


def test_a_layer_called_twice_is_seen_twice():
    """Rows and calls are those of both calls."""
    found = calibrate(Branches(), batches(2, rows=10))
    assert found.record.layers["twice"].calls == 4
    assert found.record.layers["twice"].rows == 2 * (10 + 11)
    assert found.record.layers["up"].rows == 10 + 11


def test_a_shared_module_is_recorded_once():
    """A module under two names is observed under the first."""
    linear = nn.Linear(24, 24)
    found = calibrate(nn.Sequential(linear, nn.ReLU(), linear), batches(1, rows=10))
    assert found.layers == ("0",)
    assert found.layer("0").rows == 20


def test_the_model_itself_may_be_the_layer():
    """A bare Linear has the empty name."""
    assert calibrate(nn.Linear(24, 8), batches()).layers == ("",)


def test_the_model_runs_in_eval_mode_and_gets_its_modes_back():
    """Dropout does nothing while calibrating; each module is in its own mode afterwards."""
    model = Branches_().train()
    model.drop.eval()
    first = calibrate(model, batches()).layer("up").act_scale
    assert first == calibrate(Branches_().eval(), batches()).layer("up").act_scale
    assert [m.training for m in (model, model.up, model.drop)] == [True, True, False]
    assert hooks(model) == 0


def test_a_failure_leaves_the_model_as_it_was():
    """Hooks are gone and modes are back, whatever the model raised."""
    model = Branches().train()

    def broken():
        yield batches()[0]
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        calibrate(model, broken())
    with pytest.raises(RuntimeError):
        calibrate(model, [torch.zeros(3, 7)])
    assert hooks(model) == 0
    assert model.training
    assert torch.is_grad_enabled()


def test_no_gradients():
    """Parameters get none, and outputs need none."""
    model, seen = one_linear(), []
    model[0].register_forward_hook(lambda *a: seen.append(a[2].requires_grad))
    calibrate(model, batches())
    assert seen == [False] * 4
    assert model[0].weight.grad is None


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_not_finite_are_named(bad):
    """The error says layer, batch, row, channel and how many."""
    data = batches(3, rows=10)
    data[1][4, 5] = bad
    model = one_linear()
    with pytest.raises(BuildError) as caught:
        calibrate(model, data)
    text = str(caught.value)
    assert text.startswith(
        "0: the input of a layer holds 1 values that are NaN, infinite or beyond float32, the "
        "first in batch 1, row 4, channel 5"
    )
    assert hooks(model) == 0


def test_outputs_that_are_not_finite_are_named():
    """So they are of outputs, where outputs are observed."""
    model = one_linear()
    model[0].bias.data[3] = float("inf")
    calibrate(model, batches(1))
    config = CalibrationConfig(output_granularity=PerTensor())
    with pytest.raises(BuildError, match="the output of a layer holds 50 values"):
        calibrate(model, batches(1), config)


def test_empty_inputs_are_no_data():
    """A batch without rows changes nothing, and alone leaves the layer unseen."""
    empty = torch.zeros(0, 24)
    assert calibrate(one_linear(), [empty]).unseen == ("0",)
    data = batches(2)
    found = calibrate(one_linear(), [data[0], empty, data[1]])
    assert found.record.layers["0"].calls == 2
    assert found.layer("0").act_scale == calibrate(one_linear(), data).layer("0").act_scale


def test_leading_dimensions_are_rows():
    """Ranks 1 to 4 are seen as rows of K values."""
    x = torch.randn(2, 3, 4, 24)
    for form in (x, x.reshape(6, 4, 24), x.reshape(24, 24), x[0, 0, 0]):
        found = calibrate(one_linear(), [form]).layer("0")
        assert found.rows == form.numel() // 24
        assert torch.equal(found.act_sample, form.reshape(-1, 24))


def test_the_sample_is_bounded_even_and_the_same_each_time():
    """At most `sample_rows` rows are kept, from everywhere, without touching torch's generator."""
    data = [torch.full((100, 24), float(i)) for i in range(50)]
    torch.manual_seed(7)
    before = torch.get_rng_state()
    samples = [
        calibrate(one_linear_kept(), data, CalibrationConfig(sample_rows=64)).layer("0").act_sample
        for _ in range(2)
    ]
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(*samples)
    assert samples[0].shape == (64, 24)
    assert 15 < float(samples[0].mean()) < 34
    assert samples[0][:, 0].unique().numel() > 25


def one_linear_kept():
    """Return a linear whose making draws no number."""
    model = nn.Sequential(nn.utils.skip_init(nn.Linear, 24, 8))
    nn.init.zeros_(model[0].weight)
    nn.init.zeros_(model[0].bias)
    return model


def test_few_rows_are_kept_in_their_order():
    """As long as there is room, the sample is all rows, bit for bit."""
    data = batches(3, rows=20)
    found = calibrate(one_linear(), data).layer("0")
    assert torch.equal(found.act_sample, torch.cat(data))


def test_no_sample():
    """With sample_rows 0 none is kept."""
    found = calibrate(one_linear(), batches(), CalibrationConfig(sample_rows=0)).layer("0")
    assert found.act_sample is None


def test_inputs_are_not_kept():
    """When the next batch is drawn, the one before is gone."""
    alive = []

    def draw():
        for i in range(4):
            gc.collect()
            assert [r for r in alive if r() is not None] == []
            x = torch.full((1000, 24), float(i))
            alive.append(weakref.ref(x))
            yield x
            del x

    calibrate(one_linear(), draw(), CalibrationConfig(sample_rows=8))
    assert len(alive) == 4


def test_a_quantized_linear_can_be_observed():
    """A weight that is packed already does not matter."""
    model = one_linear()
    quantize_(model, Int8WeightOnlyConfig())
    assert calibrate(model, batches()).layers == ("0",)


def test_only_the_named_layers():
    """`layers` limits what is observed, and a name that is none is an error with a hint."""
    found = calibrate(Branches(), batches(), CalibrationConfig(layers=("down",)))
    assert (found.layers, found.unseen) == (("down",), ())
    with pytest.raises(UsageError, match="the model has no such layer") as caught:
        calibrate(Branches(), batches(), CalibrationConfig(layers=("dowm",)))
    assert caught.value.hint == "did you mean 'down'?"


@pytest.mark.parametrize(
    ("data", "config", "message"),
    [
        ([], None, "there is no batch"),
        ([3], None, "batch 0 is nothing to call a model with"),
        (batches(1), Int8WeightOnlyConfig(), "the config does not say how to observe"),
        (batches(1), CalibrationConfig(modules=("Conv9d",)), "the model has no layer to observe"),
    ],
)
def test_contradictions_are_refused(data, config, message):
    """No batch, a batch of another kind, another config and no layer are usage errors."""
    with pytest.raises(UsageError, match=message):
        calibrate(one_linear(), data, config)


def test_a_module_that_takes_no_tensor_is_refused():
    """A class in `modules` that is no product of one tensor gets an error with its name."""

    class Pair(nn.Linear):
        def forward(self, pair):
            return super().forward(pair[0])

    with pytest.raises(UsageError, match="does not make one tensor of one tensor") as caught:
        calibrate(nn.Sequential(Pair(24, 8)), [([batches(1)[0]],)])
    assert caught.value.fqn == "0"


def test_an_input_by_keyword_is_seen():
    """`linear(input=x)` is observed like `linear(x)`."""

    class ByName(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(24, 8)

        def forward(self, x):
            return self.linear(input=x)

    assert calibrate(ByName(), batches()).layers == ("linear",)


def test_layers_without_channels_are_unseen():
    """A weight of no columns or no rows has nothing that could be observed."""
    config = CalibrationConfig(output_granularity=PerTensor())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about empty weights
        models = [nn.Sequential(nn.Linear(0, 4)), nn.Sequential(nn.Linear(4, 0))]
    for model in models:
        x = torch.zeros(3, model[0].in_features)
        assert calibrate(model, [x], config).unseen == ("0",)


def test_values_on_the_meta_device_are_refused():
    """A model without values is an error that names the layer."""
    with pytest.raises(
        BuildError, match="the input of a layer has no values, in batch 0"
    ) as caught:
        calibrate(nn.Sequential(nn.Linear(4, 2, device="meta")), [torch.ones(1, 4, device="meta")])
    assert caught.value.fqn == "0"


def test_the_largest_floats_have_a_mean():
    """Values whose sum leaves float32 have a finite mean, at most the largest."""
    largest = torch.finfo(torch.float32).max
    found = calibrate(nn.Sequential(nn.Linear(4, 2)), [torch.full((3, 4), largest)]).layer("0")
    assert torch.equal(found.act_absmean, torch.full((4,), largest))


@pytest.mark.parametrize("name", ["percentile", "momentum"])
def test_nan_is_within_no_bound(name):
    """A number that is none is refused like one out of range."""
    with pytest.raises(FieldError, match=f"{name} is out of range") as caught:
        CalibrationConfig(**{name: float("nan")})
    assert caught.value.pointer == f"/{name}"
