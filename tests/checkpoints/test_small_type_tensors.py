"""Tensors of float8, fp4 and int4 codes, transposed ones too, through files and pickles."""

from io import BytesIO
from typing import Any

import pytest
import torch

from qconfig.builders.base import builder_of
from qconfig.checkpoints.load import load_checkpoint
from qconfig.checkpoints.save import save_checkpoint
from qconfig.checkpoints.verify import verify_checkpoint
from qconfig.configs import PerGroup
from qconfig.configs.float8 import Float8WeightOnlyConfig
from qconfig.configs.int4 import Int4WeightOnlyConfig
from qconfig.configs.mx import MXDynamicActivationMXWeightConfig
from qconfig.configs.nvfp4 import NVFP4DynamicActivationNVFP4WeightConfig, NVFP4WeightOnlyConfig
from qconfig.layouts.float8 import QuantizeTensorToFloat8Kwargs
from qconfig.tensors import PackedTensor

FP4 = torch.float4_e2m1fn_x2
CONFIGS = {
    "float8-row": Float8WeightOnlyConfig(),
    "float8-group": Float8WeightOnlyConfig(torch.float8_e5m2, granularity=PerGroup(16)),
    "mx-fp8": MXDynamicActivationMXWeightConfig(),
    "mx-fp4": MXDynamicActivationMXWeightConfig(32, FP4, FP4),
    "nvfp4": NVFP4DynamicActivationNVFP4WeightConfig(),
    "nvfp4-blocks": NVFP4WeightOnlyConfig(use_dynamic_per_tensor_scale=False),
    "int4": Int4WeightOnlyConfig(16),
}
VIEWS = {
    "whole": lambda t: t,
    "transposed": lambda t: t.t(),
    "rows": lambda t: t[4:12],
    "columns": lambda t: t[:, 32:],
}


def built(config) -> PackedTensor:
    """Return a packed weight, (16, 64)."""
    weight = torch.randn(16, 64, generator=torch.Generator().manual_seed(0))
    builder: Any = builder_of(config)
    tensor: PackedTensor = builder.build(config, weight)
    return tensor


def same(found: PackedTensor, expected: PackedTensor) -> bool:
    """Return whether two tensors have the same attributes and bits."""
    pairs = zip(found.inner_tensors.values(), expected.inner_tensors.values(), strict=True)
    return found.inner_attributes == expected.inner_attributes and all(
        a.shape == b.shape and torch.equal(*(t.flatten().view(torch.uint8) for t in (a, b)))
        for a, b in pairs
        if a is not None or b is not None
    )


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("mmap", [False, True])
def test_views_come_back_from_files(config, view, mmap, tmp_path):
    """A view is stored as what it shows, is sound, and comes back bit for bit."""
    tensor = view(built(config))
    save_checkpoint({"a.weight": tensor}, tmp_path / "saved")
    assert verify_checkpoint(tmp_path / "saved").problems == ()
    found = load_checkpoint(tmp_path / "saved", mmap=mmap)["a.weight"]
    assert same(found, tensor)
    assert torch.equal(found.dequantize(), tensor.dequantize())


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_views_come_back_from_pickles(config, view):
    """torch.load takes a view with weights_only=True."""
    tensor, file = view(built(config)), BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    assert same(torch.load(file, weights_only=True), tensor)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_strides_of_a_transposed_tensor_are_those_of_its_codes(config):
    """Outer and inner tensors agree on which dimension is the dense one."""
    turned = built(config).t()
    assert turned.stride() == torch.empty(16, 64).t().stride()
    assert not turned.is_contiguous()
    dense = turned.contiguous()
    assert dense.is_contiguous()
    assert dense.qdata.is_contiguous()
    assert torch.equal(dense.dequantize(), turned.dequantize())


def test_activations_in_groups_are_stored(tmp_path):
    """Kwargs with a granularity that torchao 0.18 saves and cannot load come back."""
    kwargs = QuantizeTensorToFloat8Kwargs(granularity=PerGroup(32))
    tensor = built(CONFIGS["float8-row"]).with_fields(act_quant_kwargs=kwargs)
    save_checkpoint({"a.weight": tensor}, tmp_path / "saved")
    assert load_checkpoint(tmp_path / "saved")["a.weight"].act_quant_kwargs == kwargs
