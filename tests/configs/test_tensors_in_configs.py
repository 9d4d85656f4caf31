"""Calibrated tensors that a config carries: exact in documents, compared by their bits, checked."""

import pickle

import attrs
import pytest
import torch

import qconfig
from qconfig import (
    Float8StaticActivationFloat8WeightConfig,
    FqnToConfig,
    Int8StaticActivationInt8WeightConfig,
    Int8StaticActivationIntxWeightConfig,
    MappingType,
    PerAxis,
)
from qconfig.errors import FieldError

SCALES = [
    torch.tensor(0.5),
    torch.tensor(0.5, dtype=torch.bfloat16),
    torch.tensor([[0.25]], dtype=torch.float16),
    torch.tensor([1e-300], dtype=torch.float64),
]
ZERO_POINTS = [
    torch.tensor(-3, dtype=torch.int8),
    torch.tensor([[127]], dtype=torch.int64),
    torch.tensor([-128], dtype=torch.int32),
]


def static(**fields):
    """Return a config with static activations and these fields."""
    return Int8StaticActivationIntxWeightConfig(**fields)


@pytest.mark.parametrize("zero_point", ZERO_POINTS, ids=str)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_tensors_come_back_exactly(tmp_path, scale, zero_point):
    """Dtype, shape and bits of scale and zero point survive a file: 0-d stays 0-d."""
    config = static(act_quant_scale=scale, act_quant_zero_point=zero_point)
    qconfig.dump_config(config, tmp_path / "c.json")
    loaded = qconfig.load_config(tmp_path / "c.json")
    for found, given in [
        (loaded.act_quant_scale, scale),
        (loaded.act_quant_zero_point, zero_point),
    ]:
        assert (found.dtype, found.shape) == (given.dtype, given.shape)
        assert torch.equal(found, given)
    assert loaded == config


def test_equality_is_of_dtype_shape_and_bits():
    """Equal configs are equal and hash alike; another dtype, shape or bit makes another config."""
    config = static(act_quant_scale=torch.tensor([0.5]))
    same = static(act_quant_scale=torch.tensor([0.5]))
    others = [
        static(),
        static(act_quant_scale=torch.tensor(0.5)),
        static(act_quant_scale=torch.tensor([0.5], dtype=torch.float64)),
        static(act_quant_scale=torch.tensor([0.5000001])),
    ]
    assert config == same
    assert len({config, same, *others}) == 5
    assert all(config != other for other in others)


def test_strides_do_not_count():
    """A tensor that lies in memory in another order is the same tensor."""
    scales = torch.arange(1.0, 9.0)
    every_other = static(act_quant_scale=scales[::2], act_granularity=PerAxis(-1))
    alone = static(act_quant_scale=scales[::2].clone(), act_granularity=PerAxis(-1))
    assert every_other == alone


def test_config_with_a_tensor_pickles():
    """A config that carries tensors is pickled and is equal then."""
    config = static(act_quant_scale=torch.tensor(0.5, dtype=torch.bfloat16))
    assert pickle.loads(pickle.dumps(config)) == config


def test_tensors_inside_a_mapping(tmp_path):
    """A config with tensors is carried inside an FqnToConfig, too."""
    inner = Int8StaticActivationInt8WeightConfig(torch.tensor([[0.125]]))
    config = FqnToConfig(configs={"s": inner}, default="s")
    qconfig.dump_config(config, tmp_path / "c.json")
    assert qconfig.load_config(tmp_path / "c.json") == config


ONE = torch.tensor(0.5)
ASYMMETRIC = MappingType.ASYMMETRIC


@pytest.mark.parametrize(
    ("fields", "pointer", "message"),
    [
        ({"act_quant_scale": torch.tensor(0.0)}, "act_quant_scale", "positive and finite"),
        ({"act_quant_scale": torch.tensor(-1.0)}, "act_quant_scale", "positive and finite"),
        ({"act_quant_scale": torch.tensor(torch.inf)}, "act_quant_scale", "positive and finite"),
        ({"act_quant_scale": torch.tensor(torch.nan)}, "act_quant_scale", "positive and finite"),
        ({"act_quant_scale": torch.tensor(1)}, "act_quant_scale", "not floating-point"),
        ({"act_quant_scale": torch.ones(4)}, "act_quant_scale", "wrong shape"),
        (
            {"act_quant_scale": torch.ones(4, 1), "act_granularity": PerAxis(-1)},
            "act_quant_scale",
            "wrong shape",
        ),
        (
            {"act_quant_scale": torch.ones(2, 4), "act_granularity": PerAxis(-1)},
            "act_quant_scale",
            "wrong shape",
        ),
        ({"act_quant_scale": torch.ones(0)}, "act_quant_scale", "wrong shape"),
        ({"act_quant_scale": torch.ones(1, device="meta")}, "act_quant_scale", "not a plain"),
        ({"act_quant_scale": 0.5}, "act_quant_scale", "wrong type"),
        (
            {"act_quant_scale": ONE, "act_quant_zero_point": torch.tensor(128)},
            "act_quant_zero_point",
            "no int8 code",
        ),
        (
            {
                "act_quant_scale": ONE,
                "act_quant_zero_point": torch.tensor(-129, dtype=torch.int16),
            },
            "act_quant_zero_point",
            "no int8 code",
        ),
        (
            {
                "act_quant_scale": ONE,
                "act_quant_zero_point": torch.tensor(255, dtype=torch.uint8),
            },
            "act_quant_zero_point",
            "no int8 code",
        ),
        (
            {"act_quant_scale": ONE, "act_quant_zero_point": torch.tensor(1.0)},
            "act_quant_zero_point",
            "not an integer",
        ),
        (
            {
                "act_quant_scale": ONE,
                "act_quant_zero_point": torch.tensor(3).byte().view(torch.int4),
            },
            "act_quant_zero_point",
            "not an integer",
        ),
        ({"act_quant_zero_point": torch.tensor(1)}, "act_quant_zero_point", "without a scale"),
        (
            {"act_quant_scale": ONE, "act_quant_zero_point": torch.tensor([1, 2])},
            "act_quant_zero_point",
            "another shape",
        ),
        (
            {
                "act_mapping_type": MappingType.SYMMETRIC,
                "act_quant_scale": ONE,
                "act_quant_zero_point": torch.tensor(0),
            },
            "act_quant_zero_point",
            "symmetric activation",
        ),
        ({"output_act_quant_scale": ONE}, "output_act_quant_scale", "not quantized"),
        (
            {
                "quantize_and_dequantize_output": True,
                "output_act_quant_scale": ONE,
                "output_act_quant_zero_point": torch.tensor(300),
            },
            "output_act_quant_zero_point",
            "no int8 code",
        ),
        ({"act_granularity": PerAxis(0)}, "act_granularity", "not supported"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_refused_calibration(fields, pointer, message):
    """What cannot be a static scale or zero point is refused with its field, never wrapped."""
    with pytest.raises(
        FieldError, match=message.replace("wrong type", "has a wrong type")
    ) as caught:
        static(**fields)
    assert caught.value.pointer == f"/{pointer}"


def test_refusal_text():
    """The error says what was found and what is allowed."""
    with pytest.raises(FieldError) as caught:
        static(act_quant_scale=ONE, act_quant_zero_point=torch.tensor([[128]]))
    assert str(caught.value) == (
        "/act_quant_zero_point: a zero point is no int8 code\n"
        "  found: [128]\n  expected: integers from -128 to 127"
    )


def test_one_scale_for_each_channel():
    """Scales of input channels go along the last dimension, of outputs as well."""
    config = static(
        act_granularity=PerAxis(-1),
        act_quant_scale=torch.ones(1, 4),
        act_quant_zero_point=torch.zeros(1, 4, dtype=torch.int32),
        quantize_and_dequantize_output=True,
        output_act_quant_scale=torch.ones(8),
    )
    assert qconfig.config_from_dict(qconfig.config_to_dict(config)) == config


def test_int8_refuses_the_same():
    """Int8 weights with static activations hold scale and zero point to the same rules."""
    with pytest.raises(FieldError, match="symmetric activation has no zero point"):
        Int8StaticActivationInt8WeightConfig(ONE, torch.tensor(1))
    config = Int8StaticActivationInt8WeightConfig(ONE, torch.tensor(1), act_mapping_type=ASYMMETRIC)
    assert attrs.evolve(config, reduce_range=True) != config


def test_float8_has_one_scale():
    """Float8 activations have one static scale."""
    with pytest.raises(FieldError, match="wrong shape"):
        Float8StaticActivationFloat8WeightConfig(act_quant_scale=torch.ones(4))
