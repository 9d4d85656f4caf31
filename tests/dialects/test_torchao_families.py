"""torchao's JSON of every family of configs: what torchao wrote, and what it reads of ours."""

import json
from importlib import import_module

import attrs
import pytest
import torch

import qconfig
from qconfig import (
    AWQConfig,
    Float8DynamicActivationFloat8WeightConfig,
    Float8DynamicActivationInt4WeightConfig,
    Float8FakeQuantizeConfig,
    Float8MMConfig,
    Float8StaticActivationFloat8WeightConfig,
    Float8WeightOnlyConfig,
    Int4WeightFakeQuantizeConfig,
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    Int8StaticActivationInt8WeightConfig,
    Int8StaticActivationIntxWeightConfig,
    IntxFakeQuantizeConfig,
    IntxWeightOnlyConfig,
    MXDynamicActivationMXWeightConfig,
    NVFP4DynamicActivationNVFP4WeightConfig,
    NVFP4WeightOnlyConfig,
    PerAxis,
    PerBlock,
    PerGroup,
    PerRow,
    PerTensor,
    PerToken,
    QATConfig,
    SmoothQuantConfig,
    UIntxWeightOnlyConfig,
)
from qconfig.dialects.torchao import from_envelope, to_envelope
from qconfig.dialects.torchao.removed import REMOVED
from qconfig.errors import MigrationError, UnknownNameError
from tests.dialects.envelope_samples import DATA, envelope
from tests.torchao_files import CORPUS

FAMILIES = json.loads((DATA / "families_by_release.json").read_text("utf-8"))
NOT_OURS = tuple(REMOVED)
FOURS = Int4WeightOnlyConfig()


def written():
    """Yield release, case and document: our copies, then the larger collection where it lies."""
    for release, cases in FAMILIES.items():
        for case, document in cases.items():
            yield pytest.param(document, id=f"{release}-{case}")
    for path in sorted(CORPUS.glob("torchao/*/configs*.json")):
        for case, document in json.loads(path.read_text("utf-8")).items():
            form = document.get("config_json", document) if document else None
            if form and not any(name in json.dumps(form) for name in NOT_OURS):
                yield pytest.param(form, id=f"{path.parent.name}-{path.stem}-{case}")


def lost(document):
    """Return the field in which a document says what no config of today says, or None."""
    data = document["_data"]
    formats = [str(data.get(f"{prefix}packing_format", "")).lower() for prefix in ("", "int4_")]
    is_1 = document["_version"] == 1
    layout = (data.get("layout") or {}).get("_type", "")
    if is_1 and "Sparse" in layout:
        return "layout"
    if is_1 and layout == "Int4CPULayout" and data["zero_point_domain"]["_data"] == "INT":
        return "zero_point_domain"
    # Strings that torchao took into a config, and refused when it came to quantize.
    unknown = {"packing_format": ("opaque", "tile_packed_to_4d", "plain_int32", "marlin_sparse")}
    gone = ("marlin_sparse",) if "layout" in data else ("marlin_sparse", "opaque")
    unknown["int4_packing_format"] = gone
    found = zip(unknown.items(), formats, strict=True)
    return next((name for (name, names), value in found if value in names), None)


@pytest.mark.parametrize("document", list(written()))
def test_every_document_is_read_or_refused_by_name(document):
    """What torchao wrote is read, and written and read again as the same; or refused by name."""
    name = lost(document)
    if name is None:
        config = from_envelope(document)
        # Torchao names no algorithm of these, and has one no more.
        base = getattr(config, "base_config", config)
        if isinstance(base, UIntxWeightOnlyConfig):
            return
        again = from_envelope(to_envelope(config))
        assert again == config or "Int8DynamicActivationInt4WeightConfig" in json.dumps(document)
    else:
        with pytest.raises((MigrationError, UnknownNameError)) as caught:
            from_envelope(document)
        assert caught.value.pointer == f"/_data/{name}"


@pytest.fixture(scope="module")
def core():
    """Torchao's reader and writer."""
    return import_module("torchao.core.config")


def home_of(name):
    """Return torchao's class of a name."""
    homes = {
        "AWQConfig": "torchao.prototype.awq",
        "SmoothQuantConfig": "torchao.prototype.smoothquant",
        "Float8StaticActivationFloat8WeightConfig": "torchao.prototype.quantization.quant_api",
        "QATConfig": "torchao.quantization.qat",
    }
    is_fp4 = name.startswith(("MX", "NVFP4"))
    default = "torchao.prototype.mx_formats" if is_fp4 else "torchao.quantization"
    return getattr(import_module(homes.get(name, default)), name)


DEFAULTS = [
    Float8DynamicActivationFloat8WeightConfig,
    Float8StaticActivationFloat8WeightConfig,
    Float8WeightOnlyConfig,
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    Int8StaticActivationInt8WeightConfig,
    IntxWeightOnlyConfig,
    MXDynamicActivationMXWeightConfig,
    NVFP4DynamicActivationNVFP4WeightConfig,
    NVFP4WeightOnlyConfig,
]


@pytest.mark.parametrize("cls", DEFAULTS, ids=lambda c: c.__name__)
def test_torchao_reads_our_defaults_as_its_own(core, cls):
    """Torchao's reader makes of our default config what its constructor makes of nothing."""
    data = json.loads(json.dumps(to_envelope(cls())))
    assert core.config_from_dict(data) == home_of(cls.__name__)()


VALUES = [
    Float8DynamicActivationFloat8WeightConfig(
        activation_dtype=torch.float8_e5m2,
        granularity=PerRow(),
        mm_config=Float8MMConfig(emulate=True),
        activation_value_ub=12.5,
        kernel_preference=qconfig.KernelPreference.EMULATED,
        alg_id=2,
    ),
    Float8DynamicActivationInt4WeightConfig("preshuffled"),
    Float8DynamicActivationInt4WeightConfig(),
    Float8DynamicActivationFloat8WeightConfig(
        granularity=[PerBlock((1, 128)), PerBlock((128, 128))],
        packing_format=qconfig.Float8PackingFormat.PLAIN,
    ),
    Float8StaticActivationFloat8WeightConfig(step="prepare", granularity=PerTensor()),
    Float8StaticActivationFloat8WeightConfig(quantize_and_dequantize_output=True),
    Float8WeightOnlyConfig(torch.float8_e5m2, granularity=PerTensor()),
    Float8WeightOnlyConfig(granularity=PerGroup(64), set_inductor_config=False),
    Int4WeightOnlyConfig(
        group_size=32,
        int4_packing_format=qconfig.Int4PackingFormat.TILE_PACKED_TO_4D,
        int4_choose_qparams_algorithm=qconfig.Int4ChooseQParamsAlgorithm.HQQ,
        int4_tile_packed_ntile=16,
    ),
    Int8DynamicActivationInt8WeightConfig(
        qconfig.MappingType.ASYMMETRIC, granularity=[PerTensor(), PerRow()], reduce_range=True
    ),
    Int8DynamicActivationInt8WeightConfig(granularity=PerTensor(), weight_only_decode=True),
    Int8DynamicActivationIntxWeightConfig(
        torch.int4,
        PerAxis(0),
        qconfig.MappingType.SYMMETRIC_NO_CLIPPING_ERR,
        qconfig.DType.BFLOAT16,
        qconfig.MappingType.SYMMETRIC,
        qconfig.IntxPackingFormat.OPAQUE_ATEN_KLEIDIAI,
        qconfig.IntxChooseQParamsAlgorithm.HQQ_SCALE_ONLY,
    ),
    Int8StaticActivationInt8WeightConfig(
        granularity=[PerRow(), PerTensor()], act_mapping_type=qconfig.MappingType.ASYMMETRIC
    ),
    IntxWeightOnlyConfig(torch.int1, PerGroup(8), qconfig.MappingType.ASYMMETRIC),
    MXDynamicActivationMXWeightConfig(
        activation_dtype=torch.float4_e2m1fn_x2,
        weight_dtype=torch.float4_e2m1fn_x2,
        scaling_mode=qconfig.ScaleCalculationMode.FLOOR,
    ),
    NVFP4DynamicActivationNVFP4WeightConfig(False, False, "convert"),
    NVFP4WeightOnlyConfig(use_dynamic_per_tensor_scale=False),
    AWQConfig(FOURS, "prepare_for_loading", 7),
    SmoothQuantConfig(Int8DynamicActivationInt8WeightConfig(), "convert", 0.25, True),
]


def same(ours, theirs):
    """Return whether a value of ours and one of torchao's say the same, field by field."""
    if attrs.has(type(ours)):
        pairs = [(getattr(ours, f.name), f.name) for f in attrs.fields(type(ours))]
        return type(ours).__name__ == type(theirs).__name__ and all(
            same(inner, getattr(theirs, name)) for inner, name in pairs
        )
    if isinstance(ours, tuple) and not isinstance(theirs, list | tuple):
        return all(same(inner, theirs) for inner in ours)
    if isinstance(ours, tuple):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, qconfig.DType):
        return ours.to_torch() is theirs
    if isinstance(ours, str):
        return ours == getattr(theirs, "name", str(theirs).upper())
    return ours is theirs or ours == theirs


@pytest.mark.parametrize("config", VALUES, ids=lambda c: type(c).__name__)
def test_torchao_reads_our_values(core, config):
    """Torchao's reader sees the same values, and what torchao writes then is our config again."""
    found = core.config_from_dict(json.loads(json.dumps(to_envelope(config))))
    read = from_envelope(core.config_to_dict(found))
    given = {"mm_config": read.mm_config} if getattr(config, "mm_config", 0) is None else {}
    assert read == attrs.evolve(config, **given)
    assert same(read, found)


FAKES = [
    IntxFakeQuantizeConfig(
        torch.int4, PerGroup(32), is_dynamic=False, range_learning=True, eps=1e-6
    ),
    IntxFakeQuantizeConfig(torch.int8, PerToken(), qconfig.MappingType.ASYMMETRIC),
    Int4WeightFakeQuantizeConfig(64, torch.bfloat16),
    Float8FakeQuantizeConfig(granularity=PerTensor(), hp_value_ub=10.0),
]


@pytest.mark.parametrize("fake", FAKES, ids=lambda f: type(f).__name__)
def test_torchaos_qat_config_is_read(core, fake):
    """Torchao writes QATConfig and cannot read it; ours reads and writes the same document."""
    qat = import_module("torchao.quantization.qat")
    values = json.loads(json.dumps(to_envelope(QATConfig(weight_config=fake))))
    theirs = core.config_from_dict(to_envelope(FOURS))
    base = json.loads(json.dumps(core.config_to_dict(qat.QATConfig(theirs, step="convert"))))
    assert from_envelope(values) == QATConfig(weight_config=fake)
    assert from_envelope(base) == QATConfig(FOURS, step="convert")
    assert to_envelope(QATConfig(FOURS, step="convert")) == base


def test_torchaos_fake_quantizers_are_written_alike(core):
    """A QATConfig of ours is the document that torchao writes of the same values."""
    qat = import_module("torchao.quantization.qat")
    theirs = qat.QATConfig(
        activation_config=qat.IntxFakeQuantizeConfig(torch.int8, "per_token", is_symmetric=False),
        weight_config=qat.IntxFakeQuantizeConfig(torch.int4, group_size=32),
    )
    ours = QATConfig(
        activation_config=IntxFakeQuantizeConfig(
            torch.int8, PerToken(), qconfig.MappingType.ASYMMETRIC
        ),
        weight_config=IntxFakeQuantizeConfig(torch.int4, PerGroup(32)),
    )
    assert to_envelope(ours) == json.loads(json.dumps(core.config_to_dict(theirs)))


SCALE = torch.tensor(0.5)


@pytest.mark.parametrize(
    ("config", "pointer"),
    [
        (Int8DynamicActivationInt8WeightConfig(granularity=[PerRow(), PerGroup(8)]), "granularity"),
        (Float8WeightOnlyConfig(granularity=PerBlock((128, 128))), "granularity"),
        (Int8StaticActivationInt8WeightConfig(SCALE), "act_quant_scale"),
        (Float8StaticActivationFloat8WeightConfig(act_quant_scale=SCALE), "act_quant_scale"),
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_torchaos_json_cannot_hold(config, pointer):
    """What torchao's JSON has no room for, tensors among it, is refused with the field."""
    with pytest.raises(MigrationError) as caught:
        to_envelope(config)
    assert caught.value.pointer == f"/{pointer}"


def test_config_of_our_own_has_no_form():
    """Static activations with intx weights are ours: torchao has no such config."""
    with pytest.raises(MigrationError, match="torchao has no such config"):
        to_envelope(Int8StaticActivationIntxWeightConfig())


def test_a_token_is_a_row():
    """PerToken of an activation is PerRow in torchao's words."""
    config = Int8DynamicActivationInt8WeightConfig(granularity=[PerToken(), PerRow()])
    assert to_envelope(config)["_data"]["granularity"]["_type"] == "PerRow"


@pytest.mark.parametrize("version", [1, 2])
def test_version_says_which_fields_count(version):
    """use_hqq counts under torchao's version 1; under 2 the algorithm beside it does."""
    data = envelope("Int4WeightOnlyConfig", version, use_hqq=True)
    data["_data"]["int4_packing_format"] = {"_type": "Int4PackingFormat", "_data": "PLAIN_INT32"}
    config = from_envelope(data)
    says = (config.int4_packing_format, config.int4_choose_qparams_algorithm)
    assert says == (("TILE_PACKED_TO_4D", "HQQ") if version == 1 else ("PLAIN_INT32", "TINYGEMM"))


def test_keys_without_a_version():
    """Without `_version`, keys that only version 1 used mean what they meant there."""
    config = from_envelope({"_type": "Int4WeightOnlyConfig", "_data": {"use_hqq": True}})
    assert config.int4_choose_qparams_algorithm == "HQQ"


@pytest.mark.parametrize("enum", ["AWQStep", "QuantizationStep", None])
def test_step_is_an_enum_of_its_time_or_a_string(enum):
    """A step is read as AWQStep, as QuantizationStep and as a lower-case string."""
    step = {"_type": enum, "_data": "CONVERT"} if enum else "convert"
    base = envelope("Int4WeightOnlyConfig", 2)
    data = envelope("AWQConfig", 1, base_config=base, step=step, scale_search_space_size=20)
    assert from_envelope(data) == AWQConfig(FOURS, "convert")


def test_scales_of_mxfp_inference_were_rounded_down():
    """MXFPInferenceConfig becomes MXDynamicActivationMXWeightConfig with FLOOR."""
    kernel = {"_type": "MXGemmKernelChoice", "_data": "EMULATED"}
    config = from_envelope(envelope("MXFPInferenceConfig", 1, gemm_kernel_choice=kernel))
    assert config == MXDynamicActivationMXWeightConfig(
        kernel_preference=qconfig.KernelPreference.EMULATED,
        scaling_mode=qconfig.ScaleCalculationMode.FLOOR,
    )


@pytest.mark.parametrize(
    "name",
    ["Int8DynamicActivationInt8WeightConfig", "Int8StaticActivationInt8WeightConfig"],
)
def test_null_granularity_is_the_default(name):
    """A null where torchao takes its default is our default."""
    version = 2 if "Dynamic" in name else 1
    assert from_envelope(envelope(name, version, granularity=None)) == getattr(qconfig, name)()
