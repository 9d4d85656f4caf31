import pytest
import torch

from qconfig.errors import LayoutError
from qconfig.tensors import check_values
from qconfig.tensors.intx_static import IntxStaticActivationTensor
from tests.tensors.intx_static_samples import ROWS, packed


def fields(**changes):
    """Return the fields of a sound tensor with output scales, some changed."""
    tensor = packed(granularity=ROWS, act_zero_point=3, output_scale=0.2, output_zero_point=1)
    return {**tensor.inner_tensors, **tensor.inner_attributes, "dtype": "float32"} | changes


INT8 = torch.int8
CONTRADICTIONS = {
    "codes of another type": ("qdata", torch.zeros(32, 64, dtype=torch.int32)),
    "scales of other blocks": ("scale", torch.ones(32, 2)),
    "integer scales": ("scale", torch.ones(32, 1, dtype=torch.int32)),
    "zero points of other blocks": ("zero_point", torch.zeros(32, 4, dtype=INT8)),
    "floating-point zero points": ("zero_point", torch.zeros(32, 1)),
    "no integer type": ("target_dtype", "uint4"),
    "blocks that do not tile": ("block_size", (1, 48)),
    "an integer outer type": ("dtype", "int8"),
    "activation scales for other channels": ("act_quant_scale", torch.ones(32)),
    "activation scales as a matrix": ("act_quant_scale", torch.ones(1, 64)),
    "activation scale without dimension": ("act_quant_scale", torch.tensor(1.0)),
    "integer activation scales": ("act_quant_scale", torch.ones(1, dtype=INT8)),
    "another zero point than scale": ("act_quant_zero_point", torch.zeros(64, dtype=INT8)),
    "a wide zero point": ("act_quant_zero_point", torch.tensor([200])),
    "output scales for other channels": ("output_act_quant_scale", torch.ones(64)),
    "a wide zero point of outputs": ("output_act_quant_zero_point", torch.tensor([-129])),
    "output zero point of channels": ("output_act_quant_zero_point", torch.zeros(32, dtype=INT8)),
    "a single sum": ("weight_sums", torch.zeros(1, 1, dtype=torch.int32)),
    "sums of another type": ("weight_sums", torch.zeros(32, 1, dtype=torch.int64)),
}


@pytest.mark.parametrize(("name", "value"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_contradictions_are_refused_when_made(name, value):
    """Shapes and types that do not fit each other are errors of the field."""
    changes = {name: value}
    if name.endswith("act_quant_scale"):
        changes[name.replace("scale", "zero_point")] = None
    with pytest.raises(LayoutError) as caught:
        IntxStaticActivationTensor(**fields(**changes))
    assert caught.value.pointer == f"/{name}"


def test_a_zero_point_of_outputs_needs_a_scale():
    """Without a scale there is nothing that the zero point belongs to."""
    with pytest.raises(LayoutError, match="has no output_act_quant_scale"):
        IntxStaticActivationTensor(**fields(output_act_quant_scale=None))


def test_neither_per_tensor_nor_per_channel_says_what_is():
    """The message names the two shapes that there are."""
    with pytest.raises(LayoutError, match="neither per tensor nor per channel") as caught:
        IntxStaticActivationTensor(
            **fields(act_quant_scale=torch.ones(2), act_quant_zero_point=None)
        )
    assert caught.value.expected == "shape (1,) or (K,) = (64,)"
    assert caught.value.found == "(2,)"


WRONG = [float("nan"), float("inf"), 0.0, -1.0, 1e-45]


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize("name", ["scale", "act_quant_scale", "output_act_quant_scale"])
def test_scales_are_positive_finite_numbers(name, value):
    """NaN, infinity, zero, negative and subnormal scales are found, with field and index."""
    scale = fields()[name].clone()
    scale.view(-1)[-1] = value
    layout = IntxStaticActivationTensor.from_fields(**fields(**{name: scale})).to_layout()
    with pytest.raises(LayoutError, match=f"{name} is not|{name} is subnormal") as caught:
        check_values(layout)
    assert caught.value.pointer == f"/{name}"


@pytest.mark.parametrize("value", [1e-60, 1e60])
def test_scales_fit_float32(value):
    """A float64 scale that float32 does not hold is refused: products are computed there."""
    scale = torch.tensor([value], dtype=torch.float64)
    layout = IntxStaticActivationTensor.from_fields(**fields(act_quant_scale=scale)).to_layout()
    with pytest.raises(LayoutError, match="act_quant_scale does not fit float32"):
        check_values(layout)


@pytest.mark.parametrize("name", ["qdata", "zero_point"])
def test_codes_keep_to_the_range_of_their_type(name):
    """A code of 8 in an int4 weight is found, with field and index."""
    value = torch.zeros(32, 64 if name == "qdata" else 1, dtype=torch.int8)
    value[3, 0] = 8
    layout = IntxStaticActivationTensor.from_fields(
        **fields(weight_sums=None, **{name: value})
    ).to_layout()
    with pytest.raises(LayoutError, match=rf"{name} is out of range: 1 of .* \[3, 0\]"):
        check_values(layout)


def test_wrong_sums_are_found():
    """Sums that are not those of the codes would make wrong results, so they are compared."""
    sums = fields()["weight_sums"].clone()
    sums[7] += 1
    layout = IntxStaticActivationTensor.from_fields(**fields(weight_sums=sums)).to_layout()
    with pytest.raises(
        LayoutError, match=r"weight_sums is not the sum of qdata: 1 of 32.*\[7, 0\]"
    ):
        check_values(layout)


def test_sound_values_pass():
    """What a builder makes passes."""
    check_values(packed().to_layout())
    check_values(IntxStaticActivationTensor.from_fields(**fields()).to_layout())
