"""Assignments compared with torchao 0.18's own, and the places where it departs from its docs."""

import warnings
from collections import OrderedDict

import pytest
import torch
from torch import nn

from qconfig.builders.base import Target
from qconfig.codec.dtypes import DType
from qconfig.configs import FqnToConfig, Int8WeightOnlyConfig
from qconfig.migrations.fqn_to_config import FqnToConfigV1
from qconfig.rules.matcher import RuleSet
from qconfig.versioning import registry

OURS = Int8WeightOnlyConfig()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(16, 16), nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)


def model():
    """Return an embedding, two blocks of two Linears and a norm, and a head."""
    return nn.ModuleDict(
        {
            "emb": nn.Embedding(8, 16),
            "layers": nn.ModuleList([Block(), Block()]),
            "head": nn.Linear(16, 8),
        }
    )


def ours(net: nn.Module, mapping: dict) -> set[str]:
    """Return the weights of Linears to which version 1 of our document gives a config."""
    document = FqnToConfigV1({key: OURS if use else None for key, use in mapping.items()})
    config: FqnToConfig = registry.convert(document)
    targets = [
        Target(
            f"{prefix}.{name}" if prefix else name,
            tuple(parameter.shape),
            DType.FLOAT32,
            tuple(c.__name__ for c in type(module).__mro__),
        )
        for prefix, module in net.named_modules()
        for name, parameter in module.named_parameters(recurse=False)
    ]
    decisions = RuleSet(config).assign(targets).decisions
    return {
        target.fqn
        for target, decision in zip(targets, decisions, strict=True)
        if decision.config is not None
        and "Linear" in target.module_classes
        and len(target.shape) == 2
    }


def theirs(net: nn.Module, mapping: dict) -> set[str]:
    """Return the weights that torchao turns into its Int8Tensor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchao.quantization import FqnToConfig as TorchaoFqnToConfig
        from torchao.quantization import Int8Tensor, quantize_
        from torchao.quantization import Int8WeightOnlyConfig as TorchaoConfig

        config = TorchaoConfig(version=2)
        given = OrderedDict((key, config if use else None) for key, use in mapping.items())
        quantize_(net, TorchaoFqnToConfig(given), filter_fn=None)
    return {n for n, p in net.named_parameters() if isinstance(p, Int8Tensor) and "emb" not in n}


SAME = [
    {"head": True},
    {"head.weight": True},
    {"_default": True},
    {"_default": True, "head": None},
    {"_default": True, "layers.0.q.weight": None},
    {"_default": True, r"re:layers\.\d+\.q": None},
    {r"re:.*\.norm": None, r"re:.*emb.*": None, "_default": True},
    {r"re:layers\.\d+\.[qk]": True},
    {r"re:layers\.\d+\.[qk]\.weight": True},
    {r"re:layers\.\d+\.q": None, r"re:layers\.\d+\.[qk]": True},
    {r"re:layers\.\d+\.[qk]": True, r"re:layers\.\d+\.q": None},
    {r"re:layers\.0\..": None, r"re:layers\..*\.weight": None, "head": True},
    {r"re:layers\.\d+\.q": None, r"re:layers\.\d+\.[qk]\.weight": True},
    {"layers.0.q": None, r"re:layers\.\d+\.[qk]\.weight": True},
    {"layers.0.q.weight": True, "layers.0.q": None},
    {"layers.0.q.weight": True, r"re:layers\.0\.q": None, "_default": True},
    {"layers.1.k": True, r"re:layers\.1\.k": None},
    {"layers.0.q": None, "layers.0.k": True, r"re:layers\.\d+\.[a-z]": True, "head": None},
    {r"re:head|layers\.1\.q": True},
    {r"re:hea": True, r"re:.*\.qq": None, "_default": None},
]


@pytest.mark.parametrize("mapping", SAME, ids=str)
def test_same_as_torchao(mapping):
    """Where torchao keeps what it documents, a mapping reaches the same weights in both."""
    assert ours(model(), mapping) == theirs(model(), mapping)


class Three(nn.Module):
    def __init__(self):
        super().__init__()
        for name in "abc":
            setattr(self, name, nn.Parameter(torch.randn(16, 16)))


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = Three()


def assigned(net, mapping):
    """Return the config that our version 1 gives each parameter."""
    document = FqnToConfigV1({key: OURS if use else None for key, use in mapping.items()})
    targets = [
        Target(name, tuple(p.shape), DType.FLOAT32, ("Linear", "Module"))
        for name, p in net.named_parameters()
    ]
    decisions = RuleSet(registry.convert(document)).assign(targets).decisions
    return {t.fqn: d.config is not None for t, d in zip(targets, decisions, strict=True)}


def test_two_exact_skips_and_a_pattern():
    """Two skipped parameters leave the third to the pattern; torchao takes the second instead."""
    mapping = {"m.a": None, "m.b": None, r"re:m\..*": True}
    assert assigned(Holder(), mapping) == {"m.a": False, "m.b": False, "m.c": True}
    assert theirs(Holder(), mapping) == {"m.b"}


def test_weight_and_bias_skipped_by_name():
    """A Linear whose parameters are both skipped by name stays plain; torchao raises IndexError."""
    net = nn.Sequential(nn.Linear(16, 16))
    mapping = {"0.weight": None, "0.bias": None, r"re:0\..*": True}
    assert ours(net, mapping) == set()
    with pytest.raises(IndexError):
        theirs(net, mapping)


def test_two_patterns_for_one_parameter():
    """The first of two patterns that match a parameter wins; torchao applies both and raises."""
    mapping = {r"re:m\.a": True, r"re:m\..*": True}
    assert assigned(Holder(), mapping)["m.a"]
    with pytest.raises(NotImplementedError):
        theirs(Holder(), mapping)


@pytest.mark.parametrize("pattern", ["0", "re:0"])
def test_skipped_bias(pattern):
    """A skipped bias leaves the weight to the module's rule; torchao cancels it in silence."""
    net = nn.Sequential(nn.Linear(16, 16))
    mapping = {"0.bias": None, pattern: True}
    assert ours(net, mapping) == {"0.weight"}
    assert theirs(net, mapping) == set()


def test_pattern_that_reaches_into_the_parameter():
    """A later pattern that matches `q.weight` too beats an earlier one for `q`, as documented."""
    # It surprises, so in the current version of the document the declared order counts.
    mapping = {r"re:layers\.\d+\.q": None, r"re:layers\.\d+\.[qk].*": True}
    weights = {f"layers.{i}.{p}.weight" for i in (0, 1) for p in "qk"}
    assert ours(model(), mapping) == weights
    # The bias is 1-D: torchao makes an Int8Tensor of it as well.
    assert {n for n in theirs(model(), mapping) if n.endswith("weight")} == weights


def test_declared_order_in_version_2():
    """In version 2 the declared order counts: an earlier skip of `q` wins over a wider pattern."""
    from tests.rules.samples import document, given

    config = document((r"re:layers\.\d+\.q", None), (r"re:layers\.\d+\.[qk].*", "w8"))
    assert given(config, "layers.0.q.weight", "layers.0.k.weight") == [None, "w8"]


def test_order_of_keys_is_kept():
    """Rules are an array: another order is another document, and is not equal."""
    one = FqnToConfigV1({r"re:layers\.\d+\.q": None, r"re:layers\.\d+\.[a-z]": OURS})
    other = FqnToConfigV1(dict(sorted(one.fqn_to_config.items())))
    assert registry.convert(one) != registry.convert(other)
    assert registry.convert(one).rules[0].use is None


def test_containers_are_no_targets():
    """A pattern that matches containers too reaches the weights below; torchao raises on them."""
    net = nn.Sequential(nn.Sequential(nn.Linear(16, 16)))
    assert ours(net, {"re:0.*": True}) == {"0.0.weight"}
    with pytest.raises(AssertionError, match="parameter_name"):
        theirs(net, {"re:0": True})


def test_default_reaches_linear_only():
    """`_default` leaves an embedding alone, as torchao's code does; its docs say all modules."""
    mapping = {"_default": True}
    net = model()
    assert ours(net, mapping) == theirs(model(), mapping)
    document = registry.convert(FqnToConfigV1({"_default": OURS}))
    assert document.default_modules == ("Linear",)


def test_skip_by_pattern_is_not_overruled_by_default():
    """A pattern that says null wins over `_default` (torchao issue 3867)."""
    net = nn.ModuleDict({"my_emb_proj": nn.Linear(16, 16), "out": nn.Linear(16, 16)})
    mapping = {"re:.*emb.*": None, "_default": True}
    assert ours(net, mapping) == {"out.weight"}
    assert theirs(net, mapping) == {"out.weight"}
