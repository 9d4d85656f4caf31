"""Any config that torchao can say: written, read by torchao, read again as the same."""

import json
from importlib import import_module

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from qconfig import (
    DType,
    Int8DynamicActivationInt4WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    Int8DynamicActivationUIntxWeightConfig,
    MappingType,
    PerGroup,
    UIntxChooseQParamsAlgorithm,
    UIntxWeightOnlyConfig,
)
from qconfig.builders.base import Target, builder_of
from qconfig.configs.nf4 import NF4WeightOnlyConfig
from qconfig.dialects.torchao import from_envelope, read_document, to_envelope
from qconfig.dialects.torchao.forms import FORMS
from qconfig.dialects.torchao.words import SAID_AS, UNREAD
from qconfig.errors import MigrationError, SeveralErrors
from qconfig.versioning import registry
from tests.strategies import instances


@pytest.mark.parametrize("name", sorted(set(FORMS) - set(SAID_AS) - UNREAD))
@given(data=st.data())
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
def test_any_config_comes_back(name, data):
    """What torchao has words for is read again as the same config."""
    config = data.draw(instances(registry.get(name)))
    try:
        written = json.loads(json.dumps(to_envelope(config)))
    except (MigrationError, SeveralErrors):
        assume(False)
    read = from_envelope(written)
    # A token's scale is said as a row's, and a config without words of its own as another.
    assert to_envelope(read) == written
    assert type(read) is type(config)


FOURS = Int8DynamicActivationInt4WeightConfig(
    64, MappingType.ASYMMETRIC, MappingType.SYMMETRIC, DType.FLOAT32
)


@pytest.fixture(scope="module")
def core():
    """Torchao's reader and writer."""
    return import_module("torchao.core.config")


def test_config_that_torchao_cannot_read_is_said_as_another(core):
    """Torchao 0.18 reads the intx config of the same weights in its place."""
    found = core.config_from_dict(json.loads(json.dumps(to_envelope(FOURS))))
    expected = Int8DynamicActivationIntxWeightConfig(
        DType.INT4,
        PerGroup(64),
        MappingType.ASYMMETRIC,
        DType.FLOAT32,
        MappingType.SYMMETRIC,
    )
    assert type(found).__name__ == "Int8DynamicActivationIntxWeightConfig"
    assert from_envelope(core.config_to_dict(found)) == expected


def test_config_said_as_another_builds_the_same_layout():
    """Both configs of int4 weights and int8 activations lead to one layout."""
    target = Target("a.weight", (32, 128), DType.BFLOAT16)
    other = from_envelope(to_envelope(FOURS))
    first, second = (builder_of(c).layout(c, target) for c in (FOURS, other))
    assert first == second


def test_switch_that_the_other_config_lacks_is_refused():
    """The config in whose place it is written could not say it."""
    with pytest.raises(MigrationError, match="has no such switch") as caught:
        to_envelope(Int8DynamicActivationInt4WeightConfig(set_inductor_config=False))
    assert caught.value.pointer == "/set_inductor_config"


@pytest.mark.parametrize("name", sorted(UNREAD))
def test_config_that_torchao_cannot_read_again_is_not_written(core, name):
    """Torchao 0.18 writes it, and finds no class of that name when it reads."""
    with pytest.raises(MigrationError, match="cannot read this config again") as caught:
        to_envelope(registry.get(name).cls())
    assert caught.value.found == repr(name)
    with pytest.raises(ValueError, match="Failed to find class"):
        core.config_from_dict({"_type": name, "_version": 1, "_data": {}})


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, NF4WeightOnlyConfig()),
        ({"block_size": 32, "scaler_block_size": 128}, NF4WeightOnlyConfig(32, 128)),
    ],
)
def test_nf4_is_read(data, expected):
    """Torchao wrote of its fields those only that were set on an instance."""
    envelope = {"_type": "NF4WeightOnlyConfig", "_version": 1, "_data": data}
    assert from_envelope(envelope) == expected


@pytest.mark.parametrize(
    "config",
    [UIntxWeightOnlyConfig(64, 4, 32), Int8DynamicActivationUIntxWeightConfig(None, 8)],
    ids=lambda c: type(c).__name__,
)
def test_torchao_reads_unsigned_codes(core, config):
    """Torchao 0.18 reads configs of unsigned codes, with the fields that it has."""
    found = core.config_from_dict(json.loads(json.dumps(to_envelope(config))))
    seen = (found.group_size, found.bit_width, found.packing_bitwidth)
    assert seen == (config.group_size, config.bit_width, config.packing_bitwidth)
    assert from_envelope(core.config_to_dict(found)) == config


def test_algorithm_that_torchao_does_not_choose():
    """Torchao finds scales of 4 bits by HQQ: another algorithm is not written."""
    config = UIntxWeightOnlyConfig(
        64, uintx_choose_qparams_algorithm=UIntxChooseQParamsAlgorithm.MIN_MAX
    )
    with pytest.raises(MigrationError, match="in another way"):
        to_envelope(config)


DYNAMIC = {"group_size": 64, "bit_width": 4, "packing_bitwidth": None, "mode": "dynamic"}


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        (
            "UIntXWeightOnlyConfig",
            {"dtype": "uint3", "group_size": 32, "pack_dim": -1, "use_hqq": False},
            UIntxWeightOnlyConfig(32, 3, None, "MIN_MAX"),
        ),
        (
            "GemliteUIntXWeightOnlyConfig",
            {"group_size": 64, "bit_width": 4, "packing_bitwidth": 32, "contiguous": None},
            UIntxWeightOnlyConfig(64, 4, 32),
        ),
        (
            "GemliteUIntXWeightOnlyConfig",
            DYNAMIC | {"mode": "weight_only"},
            UIntxWeightOnlyConfig(64, 4),
        ),
        (
            "UIntxWeightOnlyConfig",
            {"bitwidth": 4, "group_size": 32, "uintx_choose_qparams_algorithm": "min_max"},
            UIntxWeightOnlyConfig(32, 4, None, "MIN_MAX"),
        ),
        (
            "UIntxWeightOnlyConfig",
            {"group_size": 32, "bit_width": 8, "packing_bitwidth": None},
            UIntxWeightOnlyConfig(32, 8),
        ),
    ],
)
def test_unsigned_codes_of_every_release(name, data, expected):
    """Each class and field set of unsigned codes is read as it was meant."""
    document = {"_type": name, "_version": 1, "_data": data | {"set_inductor_config": True}}
    if "bitwidth" in data:
        del document["_data"]["set_inductor_config"]
    assert read_document(document).config == expected


def test_gemlite_with_activations_says_which_config():
    """The dynamic mode of gemlite's config is refused, with the config that says it."""
    document = {"_type": "GemliteUIntXWeightOnlyConfig", "_version": 1, "_data": DYNAMIC}
    with pytest.raises(MigrationError) as caught:
        from_envelope(document)
    assert caught.value.pointer == "/_data/mode"
    assert "Int8DynamicActivationUIntxWeightConfig" in caught.value.hint
