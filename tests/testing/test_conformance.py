import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from attrs import frozen

from qconfig.builders.base import builder_of
from qconfig.configs import Int8WeightOnlyConfig
from qconfig.errors import UsageError
from qconfig.testing import (
    ConformanceFailure,
    Subject,
    build_checks,
    conformance,
    copy_checks,
    linear_checks,
    refusal_checks,
)
from qconfig.testing.conformance import (
    fake_quantized_configs,
    packing_configs,
    required_fields,
)
from qconfig.testing.sharding import check_sharding
from qconfig.testing.subject import has_no_views
from qconfig.versioning import Config, attribute
from tests.testing.variants import FAKE_QUANTIZED, SHAPE, TILED_SHAPE, TILES, VARIANTS

DEFAULTS = [c for c in packing_configs() if not required_fields(c)]
CHECKS = [
    *(check for c in DEFAULTS for check in conformance(c, shape=SHAPE)),
    *(check for config in VARIANTS for check in conformance(config, dtypes=("float16",))),
    *(check for c in fake_quantized_configs() for check in conformance(c)),
    *(check for c in FAKE_QUANTIZED for check in conformance(c, dtypes=("float16",))),
    *(check for c in TILES for check in conformance(c, shape=TILED_SHAPE, dtypes=("bfloat16",))),
]


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_builders_conform(check):
    """Every registered builder keeps every promise of the kit."""
    check()


def test_sharded_weights_conform():
    """Under FSDP2 and DTensor, in two processes, every builder keeps its promises."""
    check_sharding([*(c() for c in DEFAULTS), *VARIANTS])


def test_every_builder_is_checked():
    """A config that has no default values stands among the variants."""
    missing = {c for c in packing_configs() if required_fields(c)} - {type(v) for v in VARIANTS}
    assert not missing, "add a config of each to VARIANTS"


def test_a_class_without_default_values_is_refused():
    """Where a field has no default, the kit needs a config and says so."""

    @frozen
    class Groups(Config):
        """A config with a required field."""

        size: int = attribute("Elements in a group.")

    with pytest.raises(UsageError, match="Groups has fields without a default") as caught:
        conformance(Groups)
    assert caught.value.hint == "give a Groups instead of its class or builder"


def test_subject_may_be_config_class_or_builder():
    """A config, its class and its builder give the same checks."""
    names = [str(c) for c in conformance(Int8WeightOnlyConfig())]
    assert [str(c) for c in conformance(Int8WeightOnlyConfig)] == names
    assert [str(c) for c in conformance(builder_of(Int8WeightOnlyConfig()))] == names
    assert "Int8WeightOnlyConfig-float32-linear_ranks" in names
    assert len(names) == len(set(names))


def test_unregistered_builders_are_refused():
    """A builder that nobody registered has no config."""
    with pytest.raises(UsageError, match="the builder is not registered"):
        conformance(SimpleNamespace())


class Loose(torch.Tensor):
    """A quantized tensor as torch makes it by default: every operator falls through."""

    def dequantize(self):
        return self.as_subclass(torch.Tensor)


class LooseBuilder:
    """Gives tensors that keep no promise."""

    def refusal(self, config, target):
        return "out of order"

    def layout(self, config, target):
        return builder_of(Int8WeightOnlyConfig()).layout(config, target)

    def build(self, config, weight):
        weight.add_(1)
        return weight.clone().as_subclass(Loose)


class LooseSubject(Subject):
    """A subject with that builder."""

    @property
    def builder(self):
        return LooseBuilder()


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (build_checks.accepts_target, "refused: out of order"),
        (build_checks.weight_untouched, "the weight was changed"),
        (refusal_checks.unknown_operator_refused, "an unknown operator passes"),
        (refusal_checks.mutation_refused, "zero_ neither works as promised nor raises"),
        (refusal_checks.share_memory_refused, "share_memory_ neither works"),
        (copy_checks.pickle_round_trip, "__tensor_flatten__"),
    ],
)
def test_broken_promises_are_found(check, message):
    """A tensor that breaks a promise fails the check that names it."""
    subject = LooseSubject(Int8WeightOnlyConfig())
    with pytest.raises((ConformanceFailure, AttributeError), match=message):
        check(subject)


def test_wrong_products_are_found(monkeypatch):
    """A linear that is off by one part in a hundred fails."""
    real = linear_checks.linear
    monkeypatch.setattr(
        linear_checks,
        "linear",
        lambda x, w, *b: real(x, w, *b) * (1.01 if hasattr(w, "qdata") else 1),
    )
    with pytest.raises(ConformanceFailure, match=r"rank 1: off by 0\.01"):
        linear_checks.linear_ranks(Subject(Int8WeightOnlyConfig()))


def test_plugin_in_a_foreign_project(tmp_path):
    """With the plug-in, `conformance_check` runs once a check, for the marked config."""
    (tmp_path / "test_mine.py").write_text(
        "import pytest\n"
        "from qconfig.configs import Int8WeightOnlyConfig, PerGroup\n"
        "@pytest.mark.conformance(Int8WeightOnlyConfig(PerGroup(32)), dtypes=['bfloat16'])\n"
        "def test_mine(conformance_check):\n"
        "    conformance_check()\n"
    )
    options = ["--strict-markers", "-q", "-k", "layout or pickle"]
    command = [sys.executable, "-m", "pytest", *options, "-p", "no:cacheprovider", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert result.returncode == 0, result.stdout
    assert "2 passed" in result.stdout


def test_a_tensor_without_views_refuses_them():
    """One that says so need not have them; one that has them all the same fails."""
    tensor = SimpleNamespace(view_refusal=lambda: "out of order", t=lambda: None)
    with pytest.raises(ConformanceFailure, match="a view of a tensor that has none"):
        has_no_views(tensor, lambda t: t.t())
    assert not has_no_views(SimpleNamespace(view_refusal=lambda: None))
