import pytest
import torch

from qconfig.builders.intx_static import IntxStaticBuilder
from qconfig.errors import BuildError, LayoutError
from tests.tensors.intx_static_samples import config
from tests.tensors.samples import float_weight

BUILDER = IntxStaticBuilder()
INT8 = torch.int8


def test_given_scales_of_the_weight():
    """Scales and zero points that training learned are taken as they are."""
    scale = torch.full((32, 4), 0.25)
    zero = torch.full((32, 4), 2, dtype=INT8)
    weight = float_weight()
    tensor = BUILDER.build_with_qparams(config(), weight, scale, zero)
    codes = (torch.round(weight * 4) + 2).clamp(-8, 7)
    assert torch.equal(tensor.qdata, codes.to(INT8))
    assert torch.equal(tensor.scale, scale)
    with pytest.raises(LayoutError, match="scale has a wrong shape"):
        BUILDER.build_with_qparams(config(), weight, scale[:, :2], None)


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
def test_given_scales_that_are_none_are_refused(scale, zero, field):
    """A scale that is not positive, or a zero point that is no code of int4, is named."""
    scale, zero = torch.full((32, 4), scale), torch.full((32, 4), zero)
    with pytest.raises(BuildError, match=f"{field} is wrong in 128 of 128 blocks"):
        BUILDER.build_with_qparams(config(), float_weight(), scale, zero)


def test_learned_scales_lose_their_gradient():
    """A scale that is a parameter is copied, and the tensor has its values only."""
    scale = torch.nn.Parameter(torch.full((32, 4), 0.25))
    tensor = BUILDER.build_with_qparams(config(), float_weight(), scale, None)
    assert not tensor.scale.requires_grad
    assert tensor.scale.data_ptr() != scale.data_ptr()
