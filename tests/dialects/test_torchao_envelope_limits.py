"""torchao envelopes: hostile names, and what torchao cannot say."""

import copy
import json
import sys
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qconfig.configs import (
    FqnToConfig,
    Int8WeightOnlyConfig,
    PerAxis,
    PerGroup,
    PerRow,
    PerTensor,
    Precedence,
    Rule,
)
from qconfig.dialects.torchao import from_envelope, is_envelope, to_envelope
from qconfig.errors import (
    MigrationError,
    QconfigError,
    UnknownNameError,
)
from qconfig.migrations.fqn_to_config import FqnToConfigV1
from qconfig.migrations.int8_weight_only_config import (
    Int8WeightOnlyConfigV1,
    Int8WeightOnlyConfigV2,
)
from qconfig.versioning import registry
from tests.dialects.envelope_samples import (
    BY_RELEASE,
    DEFAULT_AND_NONE,
    INT8,
    PER_ROW,
    envelope,
)
from tests.strategies import instances


@pytest.mark.parametrize(
    "name",
    ["to_nf4", "quantize_", "os.system", "torch.dtype", "__class__", "torchao.core", 3, None, []],
)
@pytest.mark.parametrize("nested", [False, True])
def test_no_name_is_looked_up(name, nested):
    """A name in the data is compared with the few that its place allows, and never imported."""
    bad = {"_type": name, "_version": 1, "_data": {"tensor": 1}}
    modules = set(sys.modules)
    with pytest.raises(QconfigError):
        from_envelope(envelope(granularity=bad) if nested else bad)
    assert not [m for m in set(sys.modules) - modules if not m.startswith("qconfig")]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (envelope(), True),
        ({"quant_type": {"default": envelope()}}, True),
        ({"quantization_config": {"quant_method": "torchao"}}, True),
        ({"quantization_config": {"quant_method": "qconfig"}}, False),
        ({"type": INT8, "version": 3}, False),
        ({}, False),
        ([], False),
        (None, False),
    ],
    ids=str,
)
def test_form_is_recognised(data, expected):
    """Torchao's form is told from ours by its keys."""
    assert is_envelope(data) is expected


def test_document_is_not_changed():
    """Reading leaves the document as it was."""
    data = BY_RELEASE["0.18.0"]["FqnToConfig_default_and_none"]
    before = copy.deepcopy(data)
    from_envelope(data)
    assert data == before


def test_what_is_written():
    """A config is written with torchao's `_version`, and group_size as granularity."""
    assert to_envelope(Int8WeightOnlyConfigV1(group_size=32)) == envelope(
        group_size=None,
        granularity={"_type": "PerGroup", "_version": 1, "_data": {"group_size": 32}},
        set_inductor_config=True,
    )


@pytest.mark.parametrize("case", BY_RELEASE["0.18.0"])
def test_torchaos_own_text_comes_back(case):
    """What torchao 0.18 wrote is written again in the same words."""
    data = BY_RELEASE["0.18.0"][case]
    assert to_envelope(from_envelope(data)) == data


@pytest.mark.parametrize(
    ("config", "pointer"),
    [
        (Int8WeightOnlyConfig(PerAxis(0)), "/granularity"),
        (FqnToConfig(rules=(Rule("a", None, modules=("Linear",)),)), "/rules/0/modules"),
        (FqnToConfig(fused=(("q", "k"),)), "/fused"),
        (FqnToConfig(rules=(Rule("_default", None),)), "/rules/0/match"),
        (
            FqnToConfig(
                configs={"a": Int8WeightOnlyConfig(PerAxis(0))},
                rules=(Rule("x", "a"),),
                precedence=Precedence.PARAMETERS_FIRST,
            ),
            "/fqn_to_config/x/granularity",
        ),
    ],
    ids=str,
)
def test_what_torchao_cannot_say(config, pointer):
    """What torchao has no words for is refused with the field."""
    with pytest.raises(MigrationError) as caught:
        to_envelope(config)
    assert caught.value.pointer == pointer


def test_config_that_torchao_does_not_have():
    """A config of another family has no form of torchao's."""

    class Ours(Int8WeightOnlyConfig):
        pass

    with pytest.raises(UnknownNameError):
        to_envelope(Ours())


@given(st.data())
def test_round_trip_of_int8(data):
    """Any int8 config that torchao can say comes back the same."""
    config = data.draw(instances(registry.get(INT8)))
    if not isinstance(config.granularity, PerAxis):
        assert from_envelope(to_envelope(config)) == config


@pytest.fixture(scope="module")
def torchao():
    """The peer's reader and its classes."""
    return import_module("torchao.core.config"), import_module("torchao.quantization")


@pytest.mark.parametrize(
    ("config", "granularity"),
    [
        (PER_ROW, "PerRow(dim=-1)"),
        (Int8WeightOnlyConfig(PerRow(0)), "PerRow(dim=0)"),
        (Int8WeightOnlyConfig(PerTensor()), "PerTensor()"),
        (Int8WeightOnlyConfig(PerGroup(32), set_inductor_config=False), "PerGroup(group_size=32)"),
        (Int8WeightOnlyConfigV1(64), "PerGroup(group_size=64)"),
        (Int8WeightOnlyConfigV2(group_size=64), "PerGroup(group_size=64)"),
        (Int8WeightOnlyConfigV2(granularity=None), "PerRow(dim=-1)"),
    ],
    ids=str,
)
def test_torchao_reads_int8(torchao, config, granularity):
    """Torchao 0.18 reads an int8 config without a warning, and sees the same fields."""
    core, _ = torchao
    found = core.config_from_dict(json.loads(json.dumps(to_envelope(config))))
    assert type(found).__name__ == INT8
    assert (found.version, found.group_size) == (2, None)
    assert repr(found.granularity) == granularity
    assert found.set_inductor_config is config.set_inductor_config
    assert from_envelope(core.config_to_dict(found)) == registry.convert(config)


def test_torchao_reads_a_mapping(torchao):
    """Torchao 0.18 reads a mapping with its entries in their order."""
    core, _ = torchao
    mapping = FqnToConfigV1(
        {"lm_head": None, "re:.*q_proj": Int8WeightOnlyConfig(PerGroup(8)), "b.weight": PER_ROW}
    )
    found = core.config_from_dict(json.loads(json.dumps(to_envelope(mapping))))
    assert list(found.fqn_to_config) == ["lm_head", "re:.*q_proj", "b.weight"]
    assert found.fqn_to_config["lm_head"] is None
    assert found.fqn_to_config["re:.*q_proj"].granularity.group_size == 8
    assert found.fqn_to_config == found.module_fqn_to_config
    assert from_envelope(core.config_to_dict(found)) == registry.convert(mapping)


@pytest.mark.filterwarnings("ignore:Config Deprecation")
def test_torchao_reads_a_default(torchao):
    """Torchao 0.18 reads `_default`, of which it warns."""
    core, _ = torchao
    found = core.config_from_dict(to_envelope(DEFAULT_AND_NONE))
    assert found.fqn_to_config["_default"].granularity.dim == -1
