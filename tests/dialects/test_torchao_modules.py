"""Modules that torchao put in place of linears are found by their buffers' names and types."""

import pytest
import torch

from qconfig.dialects.torchao.tensors.modules import swapped_modules
from qconfig.layouts.intx import ActivationQuantization
from qconfig.versioning import registry
from tests.dialects.stored_samples import int8, lazy


def buffers(module="layer", **changed):
    """Return the buffers of an Int8DynActInt4WeightLinear of (8, 64), groups of 32."""
    names = {
        "weight": int8(8, 64),
        "scales": lazy(8, 2, dtype=torch.float32),
        "zeros": lazy(8, 2, dtype=torch.float32, fill=0),
    }
    prefix = f"{module}." if module else ""
    return {prefix + name: value for name, value in (names | changed).items() if value is not None}


@pytest.mark.parametrize("module", ["layer", "a.b", ""])
def test_a_swapped_module_is_an_intx_weight(module):
    """Weight, scales and zeros are one tensor, whatever the module's name."""
    plain = buffers(module)
    (found,) = swapped_modules(plain)
    assert set(found.names) == set(plain)
    layout = registry.convert(found.read.layout)
    assert (layout.target_dtype, layout.block_size) == ("int4", (1, 32))
    assert layout.activation_quantization is ActivationQuantization.INT8_ASYM_PER_TOKEN


def test_the_bias_stays_a_plain_tensor():
    """A bias is not part of the weight; that it is missing is said."""
    (with_bias,) = swapped_modules(buffers(bias=lazy(8)))
    (without,) = swapped_modules(buffers())
    assert not any(name.endswith("bias") for name in with_bias.names)
    missing = [any("no bias" in n for n in f.read.origin.ambiguities) for f in (with_bias, without)]
    assert missing == [False, True]


@pytest.mark.parametrize(
    "changed",
    [
        {"weight": lazy(8, 64, dtype=torch.uint8)},
        {"scales": None},
        {"zeros": None},
        {"zeros": lazy(8, 4, dtype=torch.float32)},
        {"scales": lazy(8, 3), "zeros": lazy(8, 3)},
        {"scales": lazy(8, 2, dtype=torch.int32)},
        {"weight": int8(8, 64, 1)},
    ],
)
def test_other_tensors_are_left_alone(changed):
    """What has not all three buffers, with these types and shapes, is no swapped module."""
    assert not swapped_modules(buffers(**changed))
