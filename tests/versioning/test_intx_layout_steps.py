import attrs
import pytest
import torch

from qconfig.codec.dtypes import DType
from qconfig.codec.layout_values import wrapped
from qconfig.codec.tensor_values import LazyTensor
from qconfig.errors import LayoutError, MigrationError
from qconfig.layouts.intx import ActivationQuantization
from qconfig.migrations.intx_unpacked_to_int8_tensor_layout import (
    InputQuantFunction,
    IntxUnpackedToInt8TensorLayoutV1,
    IntxUnpackedToInt8TensorLayoutV2,
)
from qconfig.versioning import registry

ROWS = {"block_size": (1, 32), "dtype": DType.FLOAT32}


def first(codes=None, zero_point=None, scale_shape=(8,), **fields):
    """Return a layout of version 1, one scale a row."""
    codes = torch.zeros(8, 32, dtype=torch.int8) if codes is None else codes
    values = {**ROWS, "zero_point": zero_point, **fields}
    return IntxUnpackedToInt8TensorLayoutV1(codes, torch.ones(scale_shape), **values)


def upgraded(layout):
    """Return the current layout."""
    return registry.convert(wrapped(layout))


@pytest.mark.parametrize(
    ("bounds", "target"),
    [
        ((None, None), "int8"),
        ((-128, 127), "int8"),
        ((-8, 7), "int4"),
        ((-7, 7), "int4"),
        ((-1, 0), "int1"),
        ((-2, 1), "int2"),
        ((0, 15), "int5"),
        ((-1, 3), "int3"),
    ],
)
def test_bounds_become_an_integer_type(bounds, target):
    """The narrowest type that holds both bounds is named."""
    assert upgraded(first(quant_min=bounds[0], quant_max=bounds[1])).target_dtype == target


def test_scales_get_their_dimension_back():
    """One scale a row becomes (N, 1), and so do zero points."""
    current = upgraded(first(zero_point=torch.zeros(8, dtype=torch.int8)))
    assert current.scale.shape == current.zero_point.shape == (8, 1)


def test_codes_of_a_whole_type_are_not_read():
    """Where bounds are those of a type, codes stay the value that they are."""
    codes = LazyTensor.of(torch.zeros(8, 32, dtype=torch.int8))
    layout = wrapped(first(quant_min=-8, quant_max=7))
    assert registry.convert(attrs.evolve(layout, int_data=codes)).qdata is codes


def test_codes_outside_of_narrower_bounds_are_refused():
    """Bounds that the type does not keep are checked before they are dropped."""
    codes = torch.zeros(8, 32, dtype=torch.int8)
    codes[2, 3] = -8
    with pytest.raises(MigrationError, match=r"1 codes outside their range, the first at \[2, 3\]"):
        upgraded(first(codes, quant_min=-7, quant_max=7)).qdata.load()


def test_wide_zero_points_become_codes():
    """Zero points of int64 become int8, and one that does not fit is refused."""
    zero_point = torch.tensor([3, *[0] * 7])
    current = upgraded(first(zero_point=zero_point))
    assert current.zero_point.load().flatten().tolist() == zero_point.tolist()
    assert current.zero_point.dtype is DType.INT8
    with pytest.raises(MigrationError, match="zero_point does not fit int8"):
        upgraded(first(zero_point=zero_point * 50)).zero_point.load()


def test_floating_zero_points_keep_their_bits():
    """Zero points of the weight's type, as older int4 weights have, stay as they are."""
    zero_point = torch.full((8, 1), -0.5, dtype=torch.bfloat16)
    found = upgraded(first(zero_point=zero_point, scale_shape=(8, 1))).zero_point.load()
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, zero_point)


def test_quantized_activations_survive():
    """The function that quantized the activation becomes the kind of quantization."""
    function = InputQuantFunction.INT8_ASYMM_PER_TOKEN
    current = upgraded(first(input_quant_func=function))
    assert current.activation_quantization is ActivationQuantization.INT8_ASYM_PER_TOKEN
    assert upgraded(first()).activation_quantization is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"quant_min": 8, "quant_max": 7}, "quant_min and quant_max are no bounds"),
        ({"quant_max": 128}, "quant_min and quant_max are no bounds"),
        ({"scale_shape": (4,)}, "scale has a wrong shape for its blocks"),
        ({"zero_point": torch.ones(4)}, "zero_point has a wrong size"),
        ({"dtype": DType.INT8}, "dtype is not a floating-point type"),
        ({"block_size": (1, 5)}, "block_size does not tile the tensor"),
    ],
)
def test_first_version_is_checked(fields, message):
    """Fields of version 1 that do not fit together are refused."""
    with pytest.raises(LayoutError, match=message):
        first(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"target_dtype": DType.UINT4}, "target_dtype is not a signed integer type"),
        ({"scale": torch.ones(8, 2)}, "scale has a wrong shape for its blocks"),
        ({"dtype": DType.INT8}, "dtype is not a floating-point type"),
    ],
)
def test_second_version_is_checked(fields, message):
    """Fields of version 2 that do not fit together are refused."""
    codes = torch.zeros(8, 32, dtype=torch.int8)
    values = {"scale": torch.ones(8, 1), "target_dtype": DType.INT4, **ROWS, **fields}
    with pytest.raises(LayoutError, match=message):
        IntxUnpackedToInt8TensorLayoutV2(codes, **values)
