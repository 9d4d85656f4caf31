import pytest
import torch

from qconfig.builders.intx_static import IntxStaticBuilder
from qconfig.errors import LayoutError
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
