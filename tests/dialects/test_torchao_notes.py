"""Notes on torchao's documents: what is not carried, what was assumed, who wrote them."""

import json

import pytest

from qconfig.checkpoints.writer import Writer
from qconfig.configs import Int8WeightOnlyConfig, PerGroup
from qconfig.dialects.torchao import from_envelope, read_document
from qconfig.dialects.torchao.removed import REMOVED
from qconfig.errors import FieldError, MigrationError, UnknownFieldError
from tests.dialects.envelope_samples import envelope

MAP = {"_default": envelope(), "re:.*emb.*": None, "re:a.*": envelope(version=1, group_size=8)}


def mapping(name="ModuleFqnToConfig", **entries):
    """Return a map in torchao's form."""
    return envelope(name, 1, module_fqn_to_config=entries or MAP)


def texts(data, writer=None):
    """Return the notes on a document, pointers and texts."""
    found = read_document(data, writer=None if writer is None else Writer.parse(writer))
    return [(note.pointer, note.text) for note in found.notes]


def rules(data, writer):
    """Return the patterns that are left of a document when the writer is known."""
    found = read_document(data, writer=Writer.parse(writer))
    return [rule.match for rule in found.config.rules]


@pytest.mark.parametrize(
    ("writer", "left"),
    [
        ("torchao==0.11", []),
        ("torchao==0.12", []),
        ("torchao==0.13.0", []),
        ("torchao==0.14", ["re:a.*"]),
        ("torchao==0.16", ["re:a.*"]),
        ("torchao==0.17", ["re:.*emb.*", "re:a.*"]),
        ("torchao==0.18", ["re:.*emb.*", "re:a.*"]),
        ("vllm==0.12", ["re:.*emb.*", "re:a.*"]),
    ],
)
def test_patterns_count_as_their_writer_counted_them(writer, left):
    """A named release says whether patterns had an effect, and whether a skip was one."""
    assert rules(mapping(), writer) == left


@pytest.mark.parametrize("writer", ["torchao==0.13", "torchao==0.15"])
def test_rules_that_had_no_effect_are_reported(writer):
    """Each rule that is left out is told with its place."""
    places = {pointer for pointer, _ in texts(mapping(), writer)}
    assert "/_data/module_fqn_to_config/re:.*emb.*" in places


def test_patterns_of_an_unknown_writer_are_ambiguous():
    """Without a writer the documented meaning is taken, and the others are told."""
    found = texts(mapping())
    assert {pointer for pointer, _ in found} == {"/_data/module_fqn_to_config"}
    assert "up to 0.13" in found[0][1]
    assert "fails at biases" in found[1][1]


def test_map_without_patterns_is_not_ambiguous():
    """Exact names meant the same in every release."""
    assert texts(mapping(lm_head=None, _default=envelope())) == []


@pytest.mark.parametrize(
    ("keys", "is_told"), [(["re:a.*", "re:b.*"], True), (["re:b.*", "re:a.*"], False)]
)
def test_sorted_keys_may_have_lost_their_order(keys, is_told):
    """Patterns that lead to different configs in sorted keys: the order may not be the writer's."""
    entries = dict(zip(keys, [None, envelope()], strict=True))
    told = [text for _, text in texts(mapping(**entries)) if "alphabetical" in text]
    assert bool(told) is is_told


def test_sorted_keys_of_one_config_lose_nothing():
    """Where all patterns lead to the same config, their order says nothing."""
    entries = {"re:a.*": envelope(), "re:b.*": envelope()}
    assert not [text for _, text in texts(mapping(**entries)) if "alphabetical" in text]


LAYOUT = {"_type": "Int4CPULayout", "_version": 1, "_data": {}}
TILES = {"_type": "TensorCoreTiledLayout", "_version": 1, "_data": {"inner_k_tiles": 4}}
CPU = {"_type": "Int8DynamicActInt4WeightCPULayout"}


@pytest.mark.parametrize(
    ("data", "pointer", "text"),
    [
        (
            envelope("Int8DynamicActivationInt8WeightConfig", 1, weight_only_decode=True),
            "/_data/weight_only_decode",
            "single token",
        ),
        (
            envelope(
                "Int8DynamicActivationInt8WeightConfig", 1, granularity={"_type": "PerTensor"}
            ),
            "/_data/granularity",
            "did not use it",
        ),
        (envelope("Int4WeightOnlyConfig", 1, layout=LAYOUT), "/_data/layout", "PLAIN"),
        (envelope("Int4WeightOnlyConfig", 1, layout=TILES), "/_data/layout", "inner_k_tiles"),
        (
            envelope("Int4WeightOnlyConfig", 2, layout=TILES, int4_packing_format="opaque"),
            "/_data/int4_packing_format",
            "PLAIN",
        ),
        (
            envelope("Int4WeightOnlyConfig", 2, use_hqq=True, int4_packing_format="plain"),
            "/_data/use_hqq",
            "version 2",
        ),
        (
            envelope("Int8DynamicActivationInt4WeightConfig", 1, layout=CPU),
            "/_data/layout",
            "asymmetric",
        ),
        (envelope("Int8DynamicActivationInt4WeightConfig", 1), "", "up to 0.16"),
        (
            envelope("MXFPInferenceConfig", 1, gemm_kernel_choice="cutlass"),
            "/_data/gemm_kernel_choice",
            "CUTLASS",
        ),
        (envelope("MXFPInferenceConfig", 1), "", "FLOOR"),
        (envelope("NVFP4InferenceConfig", 1), "", "whole tensor"),
        (
            envelope("SmoothQuantConfig", 1, smoothing_factor=[1.0]),
            "/_data/smoothing_factor",
            "not carried",
        ),
        (envelope("PrototypeInt4WeightOnlyConfig", 1), "", "Int4Tensor"),
        (
            envelope(
                "Float8DynamicActivationFloat8SemiSparseWeightConfig",
                1,
                layout={"_type": "CutlassSemiSparseLayout"},
            ),
            "/_data/layout",
            "packing_format",
        ),
        ({"_type": "Int8WeightOnlyConfig", "_data": {}}, "", "no _version"),
    ],
    ids=lambda v: json.dumps(v)[:70] if isinstance(v, dict) else None,
)
def test_what_is_not_carried_is_told(data, pointer, text):
    """A field that no config of today has, or that was not used, is told with its place."""
    assert any(at == pointer and text in said for at, said in texts(data))


def test_nested_documents_have_notes_with_their_places():
    """A note on an entry of a map leads to that entry."""
    inner = envelope("Int8DynamicActivationInt8WeightConfig", 1, weight_only_decode=True)
    places = [pointer for pointer, _ in texts(mapping(**{"a/b": inner}))]
    assert places == ["/_data/module_fqn_to_config/a~1b/_data/weight_only_decode"]


def test_documents_of_today_need_no_notes():
    """What torchao 0.18 writes of a config is carried whole."""
    assert texts(envelope(group_size=None, granularity=None, set_inductor_config=True)) == []


@pytest.mark.parametrize(
    ("writer", "mapping_type"), [("torchao==0.16", "SYMMETRIC"), ("torchao==0.17", "ASYMMETRIC")]
)
def test_writer_tells_forms_apart(writer, mapping_type):
    """Two releases had weights of other mappings under one name: a named writer decides."""
    data = envelope("Int8DynamicActivationInt4WeightConfig", 1, group_size=64)
    found = read_document(data, writer=Writer.parse(writer))
    assert found.config.mapping_type == mapping_type


@pytest.mark.parametrize("name", sorted(REMOVED))
def test_config_without_a_form_here_is_refused_by_name(name):
    """The refusal names the config, the releases that have it and what to do."""
    with pytest.raises(MigrationError) as caught:
        from_envelope(envelope(name, 1))
    assert caught.value.pointer == "/_type"
    assert name in caught.value.message
    assert REMOVED[name].releases in caught.value.expected
    assert caught.value.hint


def test_whole_error_of_a_config_without_a_form_here():
    """What a user reads."""
    with pytest.raises(MigrationError) as caught:
        from_envelope(envelope("SemiSparseWeightConfig", 1))
    assert str(caught.value) == (
        "/_type: no config here says what torchao's SemiSparseWeightConfig says: weights of which "
        "two of four are pruned\n"
        "  found: 'SemiSparseWeightConfig'\n"
        "  expected: another config; torchao 0.10 to 0.18 has this one\n"
        "  hint: quantize again from the float model with another config"
    )


def test_types_that_fbgemm_had_no_kernel_for():
    """FbgemmConfig with other element types never worked, and is refused."""
    data = envelope("FbgemmConfig", 1, input_dtype="bfloat16", weight_dtype="int8")
    with pytest.raises(MigrationError, match="no kernel for these types"):
        from_envelope(data)


def test_reading_is_the_same_with_and_without_notes():
    """`from_envelope` gives the config of `read_document`."""
    data = envelope(version=1, group_size=32)
    assert from_envelope(data) == read_document(data).config == Int8WeightOnlyConfig(PerGroup(32))


@pytest.mark.parametrize(
    ("name", "data", "pointer"),
    [
        ("FbgemmConfig", {"block": 1}, "/_data/block"),
        ("FromIntXQuantizationAwareTrainingConfig", {"step": "prepare"}, "/_data/step"),
        (
            "Float8DynamicActivationFloat8SemiSparseWeightConfig",
            {"packing_format": "plain"},
            "/_data/packing_format",
        ),
    ],
)
def test_fields_that_a_replaced_config_never_had_are_refused(name, data, pointer):
    """Nothing of a document is dropped because another config stands for it."""
    with pytest.raises(UnknownFieldError, match="unknown field") as caught:
        from_envelope(envelope(name, 1, **data))
    assert caught.value.pointer == pointer


def test_versions_that_a_replaced_config_never_had_are_refused():
    """A number that no release wrote may stand for other fields."""
    with pytest.raises(FieldError, match="unknown _version") as caught:
        from_envelope(envelope("FbgemmConfig", 2))
    assert caught.value.pointer == "/_version"


def test_a_bound_that_fbgemm_did_not_use_is_noted():
    """Int4 weights had no use for activation_scale_ub, which 0.13 always wrote."""
    data = envelope(
        "FbgemmConfig",
        1,
        input_dtype="bfloat16",
        weight_dtype="int4",
        block_size=[1, 64],
        activation_scale_ub=1200.0,
    )
    (note,) = read_document(data).notes
    assert note.pointer == "/_data/activation_scale_ub"
