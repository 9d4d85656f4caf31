"""What float8 layouts and tensors refuse, and what retired ones become."""

import pytest
import torch

from qconfig.configs import PerAxis, PerBlock, PerGroup, PerRow, PerTensor
from qconfig.errors import FieldError, LayoutError
from qconfig.layouts.float8 import Float8TensorLayout, QuantizeTensorToFloat8Kwargs
from qconfig.migrations.float8_tensor_layout import Float8TensorLayoutV1, Float8TensorLayoutV2
from qconfig.tensors.classes import check_values
from qconfig.tensors.float8 import Float8Tensor
from tests.tensors.float8_samples import E4M3, E5M2, bits, packed

PER_TENSOR = QuantizeTensorToFloat8Kwargs(granularity=PerTensor())


@pytest.mark.parametrize(
    ("fields", "message", "pointer"),
    [
        ({"scale": torch.ones(32, 3)}, "scale has a wrong shape for its blocks", "/scale"),
        ({"scale": torch.ones(32, 1, dtype=torch.float64)}, "scale has a wrong dtype", "/scale"),
        ({"qdata": torch.ones(32, 64)}, "qdata has a wrong dtype", "/qdata"),
        (
            {"act_quant_scale": torch.ones(64), "act_quant_kwargs": PER_TENSOR},
            "act_quant_scale is not one scale",
            "/act_quant_scale",
        ),
        (
            {"act_quant_scale": torch.ones(())},
            "act_quant_scale is there, but nothing says that all elements share it",
            "/act_quant_scale",
        ),
        (
            {
                "output_act_quant_scale": torch.ones(1, 1),
                "output_act_quant_kwargs": QuantizeTensorToFloat8Kwargs(),
            },
            "output_act_quant_scale is there, but nothing says that all elements share it",
            "/output_act_quant_scale",
        ),
        (
            {"act_quant_kwargs": QuantizeTensorToFloat8Kwargs(granularity=PerGroup(48))},
            "groups of a float8 activation do not divide its channels",
            "/act_quant_kwargs",
        ),
        (
            {"act_pre_scale": torch.ones(63)},
            "act_pre_scale has a wrong size for K",
            "/act_pre_scale",
        ),
        ({"dtype": torch.int8}, "dtype is not a floating-point type", "/dtype"),
    ],
)
def test_fields_that_do_not_fit_are_named(fields, message, pointer):
    """A field that contradicts another is refused with its pointer."""
    with pytest.raises(LayoutError) as caught:
        packed().with_fields(**fields)
    assert caught.value.message == message
    assert caught.value.pointer == pointer


@pytest.mark.parametrize("granularity", [PerAxis(0), PerRow(0), PerBlock((2, 32))])
def test_granularities_that_depend_on_the_batch_are_refused(granularity):
    """An activation has scales that every number of rows can have."""
    kwargs = QuantizeTensorToFloat8Kwargs(granularity=granularity)
    with pytest.raises(LayoutError, match="granularity does not quantize activations"):
        packed(act_quant_kwargs=kwargs)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"float8_dtype": "float8_e8m0fnu"}, "/float8_dtype"),
        ({"hp_value_lb": float("nan")}, "/hp_value_lb"),
        ({"hp_value_ub": float("inf")}, "/hp_value_ub"),
    ],
)
def test_settings_of_activations_are_checked(fields, pointer):
    """Another type than float8, or a bound that is no number, is refused."""
    with pytest.raises(FieldError) as caught:
        QuantizeTensorToFloat8Kwargs(**fields)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    ("codes", "byte"), [(E4M3, 0x7F), (E4M3, 0xFF), (E5M2, 0x7C), (E5M2, 0xFE)]
)
def test_codes_that_are_no_numbers_are_found(codes, byte):
    """A check of values finds NaN and infinity among the codes."""
    weight = packed(codes=codes)
    check_values(weight.to_layout())
    bits(weight.qdata)[3, 5] = byte
    with pytest.raises(LayoutError, match=r"qdata is not finite: 1 of 2048 entries, .* \[3, 5\]"):
        check_values(weight.to_layout())


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["scale", "act_quant_scale", "output_act_quant_scale"])
def test_scales_that_are_no_scales_are_found(name, value):
    """A check of values finds scales that are not positive finite numbers."""
    weight = packed(
        act_quant_scale=torch.tensor(1.0), act_quant_kwargs=PER_TENSOR,
        output_act_quant_scale=torch.tensor(1.0), output_act_quant_kwargs=PER_TENSOR,
    )  # fmt: skip
    getattr(weight, name).view(-1)[0] = value
    with pytest.raises(LayoutError) as caught:
        check_values(weight.to_layout())
    assert caught.value.pointer == f"/{name}"


@pytest.mark.parametrize("shape", [(32,), (32, 1)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_scales_of_rows_get_their_dimensions_back(shape, dtype):
    """A scale a row, (N,) or (N, 1), becomes (N, 1) with its bits and its type."""
    scale = (torch.arange(32) + 1).to(dtype)
    old = Float8TensorLayoutV1(packed().qdata, scale.view(shape), (1, 64), torch.bfloat16)
    new = Float8Tensor.from_layout(old)
    assert torch.equal(new.scale, scale.view(32, 1))
    assert new.scale.dtype == dtype
    assert torch.equal(bits(new.qdata), bits(packed().qdata))


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_one_scale_for_all_gets_its_dimensions_back(shape):
    """A scale for the tensor becomes (1, 1), and the activation's stays what it is."""
    old = Float8TensorLayoutV1(
        packed().qdata, torch.full(shape, 0.5), (32, 64), torch.float32,
        act_quant_scale=torch.tensor(0.25), act_quant_kwargs=PER_TENSOR,
    )  # fmt: skip
    new = Float8Tensor.from_layout(old)
    assert torch.equal(new.scale, torch.tensor([[0.5]]))
    assert torch.equal(new.act_quant_scale, torch.tensor(0.25))
    assert new.act_quant_kwargs == PER_TENSOR


def test_bounds_of_the_weight_are_dropped():
    """What bounds scales were made with is left out; the activation's bounds stay."""
    kwargs = QuantizeTensorToFloat8Kwargs(hp_value_lb=0.5, hp_value_ub=2.0)
    old = Float8TensorLayoutV2(
        packed().qdata, packed().scale, (1, 64), torch.float32, act_quant_kwargs=kwargs,
        hp_value_lb=0.25, hp_value_ub=8.0,
    )  # fmt: skip
    new = Float8Tensor.from_layout(old).to_layout()
    assert type(new) is Float8TensorLayout
    assert new.act_quant_kwargs == kwargs


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"scale": torch.ones(31)}, "scale has a wrong shape for its blocks"),
        ({"act_quant_scale": torch.ones(2), "act_quant_kwargs": PER_TENSOR}, "is not one scale"),
        ({"act_quant_scale": torch.ones(())}, "is not one scale for all elements"),
        ({"dtype": torch.int8}, "dtype is not a floating-point type"),
    ],
)
def test_retired_layouts_are_checked(fields, message):
    """What no release wrote is refused before any step."""
    good = {"float8_data": packed().qdata, "scale": torch.ones(32), "block_size": (1, 64)}
    with pytest.raises(LayoutError, match=message):
        Float8TensorLayoutV1(**(good | {"dtype": torch.float32} | fields))
