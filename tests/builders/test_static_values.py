"""Values of scales that builders of static activations take and refuse."""

import pytest
import torch

from qconfig.builders.base import builder_of
from qconfig.builders.intx_static import IntxStaticBuilder
from qconfig.configs import Int8StaticActivationInt8WeightConfig
from qconfig.errors import BuildError
from tests.tensors.intx_static_samples import config
from tests.tensors.samples import float_weight

BUILDER = IntxStaticBuilder()
TOO_SMALL, TOO_LARGE = torch.tensor(1e-40), torch.tensor(1e300, dtype=torch.float64)


@pytest.mark.parametrize(
    ("scale", "zero", "field"),
    [
        (float("nan"), 0, "scale"),
        (0.0, 0, "scale"),
        (-1.0, 0, "scale"),
        (0.25, 8, "zero_point"),
        (0.25, 0.5, "zero_point"),
    ],
)
def test_learned_values_that_are_none_are_refused(scale, zero, field):
    """A scale that is not positive, or a zero point that is no code of int4, is named."""
    scale, zero = torch.full((32, 4), scale), torch.full((32, 4), zero)
    with pytest.raises(BuildError, match=f"{field} is wrong in 128 of 128 blocks"):
        BUILDER.build_with_qparams(config(), float_weight(), scale, zero)


def test_learned_scales_are_copied_without_gradient():
    """A scale that is a parameter may go on being trained."""
    scale = torch.nn.Parameter(torch.full((32, 4), 0.25))
    tensor = BUILDER.build_with_qparams(config(), float_weight(), scale, None)
    assert not tensor.scale.requires_grad
    assert tensor.scale.data_ptr() != scale.data_ptr()


@pytest.mark.parametrize("value", [TOO_SMALL, TOO_LARGE])
@pytest.mark.parametrize(
    ("option", "field"),
    [("act_scale", "act_quant_scale"), ("output_scale", "output_act_quant_scale")],
)
def test_intx_scales_that_float32_does_not_hold_are_refused(option, field, value):
    """Their reciprocal would be infinite or 0 in float32, and outputs NaN."""
    with pytest.raises(BuildError, match=f"{field} does not fit float32"):
        BUILDER.build(config(**{option: value}), float_weight())


@pytest.mark.parametrize("value", [TOO_SMALL, TOO_LARGE])
def test_int8_scales_that_float32_does_not_hold_are_refused(value):
    """Codes of such a static scale would be noise."""
    used = Int8StaticActivationInt8WeightConfig(value)
    with pytest.raises(BuildError, match="act_quant_scale does not fit float32"):
        builder_of(used).build(used, float_weight())
