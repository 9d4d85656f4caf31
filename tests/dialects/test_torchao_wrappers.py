"""What published files put around torchao's config: names of functions, settings, texts."""

import json
import re
from importlib import import_module

import pytest

from qconfig import (
    DType,
    Float8DynamicActivationFloat8WeightConfig,
    Float8PackingFormat,
    Float8WeightOnlyConfig,
    FqnToConfig,
    Int4PackingFormat,
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt4WeightConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    PerGroup,
    PerRow,
    PerTensor,
    Rule,
)
from qconfig.dialects.torchao import from_envelope, is_envelope, read_document
from qconfig.dialects.torchao.legacy_names import LEGACY
from qconfig.dialects.torchao.skipped import skip_pattern
from qconfig.errors import (
    DocumentSyntaxError,
    FieldError,
    MigrationError,
    QconfigError,
    RuleError,
    UnknownFieldError,
    UnknownNameError,
)
from tests.dialects.envelope_samples import DATA, PER_ROW, envelope

WILD = json.loads((DATA / "wild.json").read_text("utf-8"))
TILED = {"int4_packing_format": Int4PackingFormat.TILE_PACKED_TO_4D}


def legacy(name, **arguments):
    """Return what transformers stored of a function's name and its arguments."""
    return {"quant_method": "torchao", "quant_type": name, "quant_type_kwargs": arguments}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (legacy("int8_weight_only"), PER_ROW),
        (legacy("int8wo", group_size=32), Int8WeightOnlyConfig(PerGroup(32))),
        (legacy("int4_weight_only", group_size=32), Int4WeightOnlyConfig(32, **TILED)),
        (legacy("int4wo", inner_k_tiles=4), Int4WeightOnlyConfig(**TILED)),
        (legacy("int4wo", layout=["Int4CPULayout", {}]), Int4WeightOnlyConfig()),
        (legacy("int8dq"), Int8DynamicActivationInt8WeightConfig()),
        (legacy("int4dq"), Int8DynamicActivationInt4WeightConfig()),
        (legacy("float8wo"), Float8WeightOnlyConfig(DType.FLOAT8_E5M2)),
        (legacy("float8_weight_only"), Float8WeightOnlyConfig()),
        (legacy("float8dq"), Float8DynamicActivationFloat8WeightConfig()),
        (
            legacy("float8dq_e4m3_row"),
            Float8DynamicActivationFloat8WeightConfig(granularity=PerRow()),
        ),
        (
            legacy("float8dq_e4m3_tensor"),
            Float8DynamicActivationFloat8WeightConfig(granularity=PerTensor()),
        ),
        (
            legacy("float8_dynamic_activation_float8_semi_sparse_weight"),
            Float8DynamicActivationFloat8WeightConfig(
                DType.FLOAT8_E5M2,
                granularity=PerRow(),
                packing_format=Float8PackingFormat.SPARSE_2D_DATA_2D_METADATA,
            ),
        ),
    ],
    ids=lambda v: json.dumps(v)[27:90] if isinstance(v, dict) else None,
)
def test_name_of_a_function_is_the_config_that_it_made(data, expected):
    """Names of functions, long and short, with their arguments, are read."""
    assert is_envelope(data)
    assert from_envelope(data) == expected


@pytest.mark.parametrize("name", sorted(LEGACY))
def test_every_known_name_is_read_or_refused_with_a_hint(name):
    """No name of the table leads to an error that does not say what to do."""
    arguments = {"dtype": "uint4"} if name in {"uintx", "uintx_weight_only"} else {}
    try:
        from_envelope(legacy(name, **arguments))
    except QconfigError as error:
        assert isinstance(error, MigrationError) or name.startswith("float8_static")  # noqa: PT017
        assert error.hint or name.startswith("float8_static")  # noqa: PT017


def test_fpx_names_are_those_of_diffusers():
    """Fp3 to fp7 with any number of exponent bits, and a default of each."""
    names = {name for name in LEGACY if re.match(r"fp\d", name)}
    assert len(names) == sum(bits - 1 for bits in range(3, 8)) + 5
    assert LEGACY["fp6"].data == {"ebits": 3, "mbits": 2}
    assert LEGACY["fp6_e3m2"].data == {"ebits": 3, "mbits": 2}


@pytest.mark.parametrize(
    ("data", "error", "pointer"),
    [
        (legacy("autoquant"), FieldError, "/quant_type"),
        (legacy("int8wo_"), UnknownNameError, "/quant_type"),
        (legacy("int8wo", bits=3), UnknownFieldError, "/quant_type_kwargs/bits"),
        (legacy("int8wo", group_size="32"), FieldError, "/quant_type_kwargs/group_size"),
        (legacy("fp6"), MigrationError, "/quant_type"),
        (legacy("int8wo") | {"quant_type_kwargs": [1]}, FieldError, "/quant_type_kwargs"),
        (
            {"quant_type": {"default": envelope()}, "quant_type_kwargs": {"group_size": 1}},
            FieldError,
            "/quant_type_kwargs",
        ),
        ({"quant_type": {"other": envelope()}}, FieldError, "/quant_type"),
        (
            {"quant_type": {"default": envelope()}, "modules_to_not_convert": "lm_head"},
            FieldError,
            "/modules_to_not_convert",
        ),
        ({"tensor_names": "[]", "a": {}}, FieldError, "/tensor_names"),
        ({"quantization_config_dict_json": 3}, FieldError, "/quantization_config_dict_json"),
    ],
    ids=str,
)
def test_errors_lead_into_the_wrapper(data, error, pointer):
    """What is wrong around a config is refused with its place."""
    with pytest.raises(error) as caught:
        from_envelope(data)
    assert caught.value.pointer == pointer


PLAIN = {"quant_type": {"default": envelope()}}
SKIPPING = PLAIN | {"modules_to_not_convert": ["lm_head", "layers.1"]}


def test_metadata_of_tensors_is_no_config():
    """What stands in a safetensors file of torchao's is named, and what to do with it."""
    with pytest.raises(FieldError, match="the metadata of a safetensors file") as caught:
        from_envelope({"tensor_names": '["a"]'})
    assert caught.value.found == repr('["a"]')
    assert caught.value.expected == "an object with _type, or with quant_type"


def test_skipped_modules_are_rules():
    """Entries of modules_to_not_convert are optional rules that come first; the config is left."""
    found = read_document(SKIPPING)
    assert found.config.default == "c0"
    assert found.config.configs == {"c0": PER_ROW}
    assert [(r.use, r.optional) for r in found.config.rules] == [(None, True), (None, True)]
    assert [note.pointer for note in found.notes] == ["/modules_to_not_convert"]


@pytest.mark.parametrize(
    ("entry", "name", "skips"),
    [
        ("lm_head", "lm_head", True),
        ("lm_head", "model.lm_head", True),
        ("lm_head", "lm_head_2", False),
        ("fc1", "model.decoder.layers.23.fc1", True),
        ("layers.1", "layers.1.mlp.up_proj", True),
        ("layers.1", "layers.11.mlp.up_proj", False),
        ("self_attn", "model.layers.2.self_attn.q_proj", True),
        ("model.layers.*", "model.layers.11.mlp", True),
        ("model.layers.*", "lm_head", False),
    ],
)
def test_names_that_an_entry_skips(entry, name, skips):
    """A name skips modules that end so and what is in them; a pattern, names that begin so."""
    assert bool(re.fullmatch(skip_pattern(entry).removeprefix("re:"), name)) is skips


def test_skip_wins_over_rules_of_a_map():
    """Rules of a map for modules that are skipped lead nowhere, as in transformers."""
    inner = envelope("FqnToConfig", 1, fqn_to_config={"lm_head": envelope(), "a.b": envelope()})
    found = from_envelope({"quant_type": {"default": inner}, "modules_to_not_convert": ["lm_head"]})
    assert [(rule.match, rule.use) for rule in found.rules[1:]] == [
        ("lm_head", None),
        ("a.b", "c0"),
    ]


def test_entry_that_is_no_pattern():
    """An entry with signs of a regular expression has to be one."""
    with pytest.raises(RuleError):
        from_envelope(PLAIN | {"modules_to_not_convert": ["a("]})


def test_embeddings_are_reached():
    """include_input_output_embeddings adds Embedding to what the default reaches."""
    found = from_envelope(PLAIN | {"include_input_output_embeddings": True})
    assert isinstance(found, FqnToConfig)
    assert found.default_modules == ("Linear", "Embedding")


@pytest.mark.parametrize(
    ("setting", "word"),
    [
        ({"include_input_output_embeddings": False}, "output embedding"),
        ({"include_input_output_embeddings": True}, "Embedding"),
        ({"untie_embedding_weights": True}, "tied"),
    ],
    ids=str,
)
def test_settings_are_told(setting, word):
    """What transformers does besides is told with the setting's place."""
    found = read_document({"quantization_config": PLAIN | setting})
    (note,) = found.notes
    assert note.pointer == f"/quantization_config/{next(iter(setting))}"
    assert word in note.text


@pytest.mark.parametrize("key", ["model_type", "torchao_version"])
def test_harmless_keys(key):
    """Keys that say nothing about the config are let through."""
    assert from_envelope(PLAIN | {key: "x"}) == PER_ROW


@pytest.mark.parametrize("inner", [envelope(), PLAIN, legacy("int8wo")], ids=str)
def test_text_of_json_is_read(inner):
    """quantization_config_dict_json holds a document as text, which is how vLLM takes one."""
    data = {"quantization_config": {"quantization_config_dict_json": json.dumps(inner)}}
    assert is_envelope(data)
    assert from_envelope(data) == PER_ROW


@pytest.mark.parametrize(("text", "error"), [("{", DocumentSyntaxError), (3, FieldError)])
def test_text_that_is_no_json(text, error):
    """A text that is no JSON is refused with its place."""
    with pytest.raises(error) as caught:
        from_envelope({"quantization_config_dict_json": text})
    assert caught.value.pointer == "/quantization_config_dict_json"


def test_config_json_of_a_model():
    """The config.json of a model holds its config among everything else."""
    data = {"architectures": ["X"], "hidden_size": 8, "quantization_config": SKIPPING}
    assert from_envelope(data).rules[0] == Rule(skip_pattern("lm_head"), None, optional=True)


@pytest.mark.parametrize("case", sorted(WILD))
def test_published_files_are_read_or_refused_with_the_place(case):
    """No published file leads to an error without a place, and hostile ones are refused."""
    refused = {"11", "12", "14", "15", "17", "18"}
    document = WILD[case].get("document", WILD[case])
    if case[:2] in refused:
        with pytest.raises(QconfigError) as caught:
            from_envelope(document)
        assert all(problem.pointer for problem in caught.value.problems)
    else:
        assert from_envelope(document)


def test_legacy_defaults_are_torchaos():
    """The config of a name without arguments is what torchao's class of today says, too."""
    core = import_module("torchao.core.config")
    to_envelope = import_module("qconfig.dialects.torchao").to_envelope
    found = core.config_from_dict(
        json.loads(json.dumps(to_envelope(from_envelope(legacy("int8wo")))))
    )
    assert found == import_module("torchao.quantization").Int8WeightOnlyConfig()
