"""A constructor looks at elements: what cannot be the values of a weight is refused when made."""

import pytest
import torch

from qconfig.builders.base import builder_of
from qconfig.codec.dtypes import DType
from qconfig.configs import (
    Float8WeightOnlyConfig,
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    MXDynamicActivationMXWeightConfig,
    NVFP4WeightOnlyConfig,
    PerGroup,
)
from qconfig.errors import LayoutError

CONFIGS = [
    Int8WeightOnlyConfig(),
    Int8DynamicActivationInt8WeightConfig(reduce_range=True),
    IntxWeightOnlyConfig(DType.INT4, PerGroup(32)),
    Int4WeightOnlyConfig(32),
    Float8WeightOnlyConfig(),
]
WEIGHT = torch.randn(32, 64, generator=torch.Generator().manual_seed(0))


def fields_of(config):
    """Return a tensor class and the fields of a sound tensor."""
    tensor = builder_of(config).build(config, WEIGHT)
    fields = {**tensor.inner_tensors, **tensor.inner_attributes, "dtype": tensor.shown_dtype}
    return type(tensor), fields


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, -1.0])
def test_scales_are_positive_and_finite(config, value):
    """NaN, infinity, zero and negative numbers are no scales."""
    cls, fields = fields_of(config)
    scale = fields["scale"].clone()
    scale[1, 0] = value
    with pytest.raises(LayoutError, match="scale is not") as caught:
        cls(**fields | {"scale": scale})
    assert caught.value.pointer == "/scale"


@pytest.mark.parametrize(
    ("config", "byte"),
    [(MXDynamicActivationMXWeightConfig(), 255), (NVFP4WeightOnlyConfig(), 127)],
    ids=["e8m0", "e4m3fn"],
)
def test_block_scales_are_no_nan(config, byte):
    """The bits of NaN are no scale of a block."""
    cls, fields = fields_of(config)
    bits = fields["scale"].view(torch.uint8).clone()
    bits[1, 0] = byte
    with pytest.raises(LayoutError, match="scale is not finite"):
        cls(**fields | {"scale": bits.view(fields["scale"].dtype)})


@pytest.mark.parametrize("config", CONFIGS[1:3], ids=lambda c: type(c).__name__)
def test_codes_keep_to_their_range(config):
    """A code outside the range that an attribute declares is refused, with its place."""
    cls, fields = fields_of(config)
    qdata = fields["qdata"].clone()
    qdata[5, 7] = 127
    with pytest.raises(LayoutError, match=r"qdata is out of range: 1 of 2048 .* \[5, 7\]"):
        cls(**fields | {"qdata": qdata})


def test_meta_tensors_have_no_elements():
    """Fields on the meta device are checked by type and shape."""
    cls, fields = fields_of(CONFIGS[2])
    meta = {k: v.to("meta") if isinstance(v, torch.Tensor) else v for k, v in fields.items()}
    assert cls(**meta).device.type == "meta"
