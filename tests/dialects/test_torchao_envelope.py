"""torchao's JSON form: every release's read, and torchao 0.18 reads what is written."""

import json
from importlib import import_module

import attrs
import pytest

from qconfig.configs import (
    FqnToConfig,
    Int8WeightOnlyConfig,
    PerGroup,
    PerTensor,
    Precedence,
)
from qconfig.dialects.torchao import from_envelope, is_envelope
from qconfig.dialects.torchao.forms import ALIASES, FORMS, Written, entry_for
from qconfig.dialects.torchao.legacy_names import LEGACY
from qconfig.dialects.torchao.replaced import REPLACED
from qconfig.errors import (
    DocumentErrors,
    FieldError,
    NewerVersionError,
    UnknownFieldError,
    UnknownNameError,
)
from qconfig.versioning import registry
from tests.dialects.envelope_samples import (
    BY_RELEASE,
    DATA,
    DEFAULT_AND_NONE,
    INT8,
    PER_ROW,
    envelope,
)

WILD = json.loads((DATA / "wild.json").read_text("utf-8"))


KNOWN = "one of " + ", ".join(sorted({*FORMS, *ALIASES, *REPLACED}))


WRITTEN = [(release, case) for release, cases in BY_RELEASE.items() for case in cases]


ROW = {"_type": "PerRow", "_version": 1, "_data": {"dim": -1}}


EXPECTED = {
    "default_and_none": DEFAULT_AND_NONE,
    "weight_only": PER_ROW,
    "weight_only_v1": PER_ROW,
    "weight_only_v2": PER_ROW,
    "weight_only_g32": Int8WeightOnlyConfig(PerGroup(32)),
    "weight_only_v2_g32": Int8WeightOnlyConfig(PerGroup(32)),
    "weight_only_v2_per_tensor": Int8WeightOnlyConfig(PerTensor()),
}


@pytest.mark.parametrize(("release", "case"), WRITTEN)
def test_every_release_is_read(release, case):
    """What torchao wrote, from 0.11 to 0.18, means what it meant then."""
    longest = max((key for key in EXPECTED if case.endswith(key)), key=len)
    assert from_envelope(BY_RELEASE[release][case]) == EXPECTED[longest]


@pytest.mark.parametrize(
    "case",
    [
        "02_artifact_policy_int8wo_v1",
        "06_sglang_int8wo_v2",
        "08_hf_space_flux2_patch",
        "16_vllm_apple_qwen_image",
    ],
)
def test_published_file_is_read(case):
    """Configs as people publish them are read, wrapped or not, with or without `_data`."""
    assert is_envelope(WILD[case])
    assert from_envelope(WILD[case]) == PER_ROW


@pytest.mark.parametrize(
    ("case", "error", "pointer"),
    [
        ("11_vllm_ascend_modulefqn", FieldError, "/quant_type/default"),
        ("12_vllm_torchao_config_malformed", UnknownFieldError, "/group_size"),
        ("14_converter_string_quant_type", UnknownNameError, "/quant_type"),
        ("17_security_payload_quantize_", UnknownNameError, "/_data/granularity/_type"),
        ("18_security_payload_fake_dtype", UnknownNameError, "/_data/granularity/_type"),
    ],
)
def test_published_file_is_refused(case, error, pointer):
    """Other families, malformed and hostile documents are refused with the place."""
    with pytest.raises(error) as caught:
        from_envelope(WILD[case])
    assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    ("wire", "keys", "ours"),
    [
        (1, {"group_size", "set_inductor_config"}, 1),
        (1, {"group_size", "granularity", "set_inductor_config"}, 2),
        (2, {"group_size", "granularity", "set_inductor_config"}, 2),
        (1, set(), 2),
        (2, set(), 2),
        (None, {"group_size", "set_inductor_config"}, 1),
        (None, {"granularity"}, 2),
        (None, set(), 2),
        (1, {"nonsense"}, 2),
    ],
)
def test_version_follows_from_number_and_keys(wire, keys, ours):
    """`_version` and keys together name one of our versions; exact keys go first."""
    assert entry_for(INT8, Written(INT8, wire, frozenset(keys))).version == ours


def test_forms_are_registered():
    """Each form is a registered version with other fields than the forms that share its number."""
    for name, forms in FORMS.items():
        for form in forms:
            assert registry.get(name, form.version)
        for number in {n for form in forms for n in form.wire}:
            sets = [
                (form.names, form.enums, *{f.name for f in attrs.fields(cls)} - {*form.ours})
                for form in forms
                for cls in [registry.get(name, form.version).cls]
                if number in form.wire
            ]
            assert len(set(sets)) == len(sets)
    assert set(ALIASES.values()) <= set(FORMS)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"_type": INT8}, PER_ROW),
        ({"_type": INT8, "_data": {"group_size": 64}}, Int8WeightOnlyConfig(PerGroup(64))),
        (envelope(granularity={"_type": "PerRow"}), PER_ROW),
        (envelope(granularity={"_type": "PerTensor"}), Int8WeightOnlyConfig(PerTensor())),
        (envelope(granularity=None), PER_ROW),
        (envelope(version=1, group_size=32, granularity=ROW), Int8WeightOnlyConfig(PerGroup(32))),
        (
            {"_type": INT8, "_data": {"version": 1, "group_size": 8}},
            Int8WeightOnlyConfig(PerGroup(8)),
        ),
        (envelope("FqnToConfig", 1), FqnToConfig(precedence=Precedence.PARAMETERS_FIRST)),
    ],
    ids=str,
)
def test_incomplete_envelope(data, expected):
    """A missing `_version` is inferred, a missing `_data` is empty, missing fields are defaults."""
    assert from_envelope(data) == expected


MAPPING = {"a": envelope(), "re:b.*": None}


@pytest.mark.parametrize("name", ["AOPerModuleConfig", "ModuleFqnToConfig", "FqnToConfig"])
@pytest.mark.parametrize(
    "data",
    [
        {"fqn_to_config": MAPPING},
        {"module_fqn_to_config": MAPPING},
        {"fqn_to_config": MAPPING, "module_fqn_to_config": MAPPING},
        {"fqn_to_config": {}, "module_fqn_to_config": MAPPING},
        {"fqn_to_config": MAPPING, "module_fqn_to_config": {}},
    ],
)
def test_two_names_of_the_mapping(name, data):
    """The mapping has two names; one that is empty or the same says nothing."""
    found = from_envelope({"_type": name, "_version": 1, "_data": data})
    assert [(rule.match, rule.use) for rule in found.rules] == [("a", "c0"), ("re:b.*", None)]


@pytest.mark.parametrize(
    "other",
    [{"a": envelope()}, {"re:b.*": None, "a": envelope()}, {"a": envelope(), "re:b.*": False}],
)
def test_two_mappings_that_differ(other):
    """Two mappings that differ, be it in their order, are refused: which one counts is a guess."""
    data = envelope("FqnToConfig", 1, fqn_to_config=MAPPING, module_fqn_to_config=other)
    with pytest.raises(FieldError) as caught:
        from_envelope(data)
    assert str(caught.value) == (
        "/_data/module_fqn_to_config: module_fqn_to_config and fqn_to_config differ\n"
        "  expected: one of them, or the same entries in the same order\n"
        "  hint: delete module_fqn_to_config"
    )


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        (
            envelope(version=99),
            NewerVersionError,
            (
                "/_version: Int8WeightOnlyConfig _version 99 is newer than this qconfig\n"
                "  found: 99\n  expected: Int8WeightOnlyConfig _version 1 to 2\n"
                "  hint: upgrade qconfig"
            ),
        ),
        (
            envelope(version="2"),
            FieldError,
            (
                "/_version: _version must be an integer\n  found: '2'\n"
                "  expected: Int8WeightOnlyConfig _version 1 to 2"
            ),
        ),
        (
            envelope(version=True),
            FieldError,
            (
                "/_version: _version must be an integer\n  found: True\n"
                "  expected: Int8WeightOnlyConfig _version 1 to 2"
            ),
        ),
        (
            envelope(version=0),
            FieldError,
            (
                "/_version: unknown _version\n  found: 0\n"
                "  expected: Int8WeightOnlyConfig _version 1 to 2"
            ),
        ),
        (
            envelope("Int8WeightOnlyConfg"),
            UnknownNameError,
            (
                "/_type: unknown torchao config\n  found: 'Int8WeightOnlyConfg'\n"
                "  expected: " + KNOWN + "\n  hint: did you mean 'Int8WeightOnlyConfig'?"
            ),
        ),
        (
            envelope("torchao.quantization.Int8WeightOnlyConfig"),
            UnknownNameError,
            (
                "/_type: unknown torchao config\n"
                "  found: 'torchao.quantization.Int8WeightOnlyConfig'\n"
                "  expected: " + KNOWN + "\n  hint: did you mean 'Int8WeightOnlyConfig'?"
            ),
        ),
        (
            envelope(new_field=1),
            UnknownFieldError,
            (
                "/_data/new_field: unknown field\n  found: 'new_field'\n"
                "  expected: a field of Int8WeightOnlyConfig v2: group_size, granularity, "
                "set_inductor_config"
            ),
        ),
        (
            envelope(group_size="32"),
            FieldError,
            "/_data/group_size: wrong type\n  found: '32'\n  expected: an integer",
        ),
        (
            envelope(granularity={"_type": "PerGroup", "_data": {"group_size": 0}}),
            FieldError,
            (
                "/_data/granularity/_data/group_size: group_size is out of range\n"
                "  found: 0\n  expected: at least 1"
            ),
        ),
        (
            envelope(granularity={"_type": "PerGroup"}),
            FieldError,
            (
                "/_data/granularity/_data/group_size: missing field\n"
                "  expected: a field of PerGroup v1"
            ),
        ),
        (
            envelope(granularity={"type": "PerRow"}),
            FieldError,
            (
                "/_data/granularity: not a torchao config\n  found: {'type': 'PerRow'}\n"
                '  expected: {"_type": …, "_version": …, "_data": {…}}'
            ),
        ),
        (
            envelope(granularity={"_type": "PerRow", "_version": 2}),
            FieldError,
            "/_data/granularity/_version: unknown _version\n  found: 2\n  expected: 1",
        ),
        (
            envelope() | {"_data": []},
            FieldError,
            "/_data: _data is not an object\n  found: []\n  expected: an object",
        ),
        (
            envelope(version=2) | {"_data": {"version": 1}},
            FieldError,
            "/_data/version: two versions\n  found: 1",
        ),
        (
            envelope(version=1) | {"_data": {"version": True}},
            FieldError,
            "/_data/version: two versions\n  found: True",
        ),
        (
            envelope() | {"_version": None},
            FieldError,
            "/_version: _version is null\n  expected: an integer, or no key",
        ),
        (
            envelope("FqnToConfig", 1, fqn_to_config={"a/b": envelope(version=99)}),
            NewerVersionError,
            (
                "/_data/fqn_to_config/a~1b/_version: Int8WeightOnlyConfig _version 99 is newer "
                "than this qconfig\n  found: 99\n  expected: Int8WeightOnlyConfig _version 1 to 2\n"
                "  hint: upgrade qconfig"
            ),
        ),
        (
            envelope("FqnToConfig", 1, module_fqn_to_config={"a": envelope("FqnToConfig", 1)}),
            FieldError,
            "/_data/module_fqn_to_config/a: FqnToConfig cannot contain another",
        ),
        (
            {"quant_method": "torchao", "quant_type": "int8wo_"},
            UnknownNameError,
            (
                "/quant_type: unknown name of a torchao function\n  found: 'int8wo_'\n"
                "  expected: one of " + ", ".join(sorted(LEGACY)) + "\n"
                "  hint: did you mean 'int8wo'?"
            ),
        ),
        (
            {"quant_method": "gptq", "quant_type": {"default": envelope()}},
            FieldError,
            "/quant_method: another quantization method\n  found: 'gptq'\n  expected: torchao",
        ),
        (
            {"quant_type": {"default": envelope()}, "modules_to_not_convert": "lm_head"},
            FieldError,
            (
                "/modules_to_not_convert: wrong type\n"
                "  found: 'lm_head'\n  expected: an array of strings, or null"
            ),
        ),
    ],
    ids=lambda v: None if isinstance(v, type) else str(v)[:50],
)
def test_error_text(data, error, text):
    """Each error leads into torchao's document and says what is allowed there."""
    with pytest.raises(error) as caught:
        from_envelope(data)
    assert str(caught.value) == text


def test_all_problems_at_once():
    """Problems of several entries are collected, whoever finds them."""
    data = envelope("FqnToConfig", 1, fqn_to_config={"a": envelope("No"), "b": envelope("Nope")})
    with pytest.raises(DocumentErrors) as caught:
        from_envelope(data)
    assert [p.pointer for p in caught.value.problems] == [
        "/_data/fqn_to_config/a/_type",
        "/_data/fqn_to_config/b/_type",
    ]


@pytest.fixture(scope="module")
def torchao():
    """The peer's reader and its classes."""
    return import_module("torchao.core.config"), import_module("torchao.quantization")
