import pytest
import torch

from qconfig.errors import LayoutError
from qconfig.layouts.floatx import FloatxTensorLayout
from qconfig.migrations.floatx_tensor_layout import FloatxTensorLayoutV1
from qconfig.tensors import FloatxTensor
from tests.tensors.torchao_peer import quiet_torchao

FLOATS = (torch.float16, torch.bfloat16, torch.float32)
TYPES = [(e, m) for e in range(1, 7) for m in range(6) if e + m <= 6]


def packed(ebits=3, mbits=2, shape=(32, 64)):
    """Return a tensor of random codes and scales."""
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(0, 2 ** (1 + ebits + mbits), shape, generator=generator)
    scale = (torch.rand(shape[0], 1, generator=generator) + 0.1).half()
    return FloatxTensor(codes.to(torch.uint8), scale, ebits, mbits, torch.float16)


@pytest.mark.parametrize(("ebits", "mbits"), TYPES)
def test_dequantize_equals_torchao(ebits, mbits):
    """Values are torchao's to the bit, for every type that tensor cores were fed with."""
    tensor = packed(ebits, mbits)
    with quiet_torchao():
        from torchao.quantization.quant_primitives import _dequantize_affine_floatx

        for dtype in FLOATS:
            expected = _dequantize_affine_floatx(
                tensor.qdata, tensor.scale, ebits, mbits, output_dtype=dtype
            )
            assert torch.equal(tensor.dequantize(dtype), expected)


def test_views_and_cuts_have_the_values_of_the_float_tensor():
    """Transposed, cut, joined: the values are those of the plain tensor."""
    tensor = packed()
    values = tensor.dequantize()
    assert torch.equal(tensor.t().dequantize(), values.t())
    assert torch.equal(tensor[4:12, 8:].dequantize(), values[4:12, 8:])
    assert torch.equal(torch.cat([tensor, tensor]).dequantize(), torch.cat([values, values]))


def test_linear_is_the_product_of_the_values():
    """The output is that of the plain weight."""
    tensor = packed()
    activation, bias = torch.randn(3, 64).half(), torch.randn(32).half()
    expected = torch.nn.functional.linear(activation, tensor.dequantize(), bias)
    assert torch.equal(torch.nn.functional.linear(activation, tensor, bias), expected)


def test_codes_beyond_their_bits_are_refused():
    """A code of 64 is none of 6 bits."""
    with pytest.raises(LayoutError, match="qdata is out of range"):
        codes = torch.full((4, 8), 64, dtype=torch.uint8)
        FloatxTensor(codes, torch.ones(4, 1), 3, 2, torch.float16)


@pytest.mark.parametrize(("ebits", "mbits"), [(5, 2), (4, 3)])
def test_eight_bits_are_none_of_these_types(ebits, mbits):
    """The order of tensor cores has parts of 1, 2 and 4 bits: 7 at most."""
    codes = torch.zeros(64, 64, dtype=torch.uint8)
    with pytest.raises(LayoutError, match="mbits has a wrong size"):
        FloatxTensorLayoutV1(codes, torch.ones(64), ebits, mbits, "float16")
    with pytest.raises(LayoutError, match="mbits has a wrong size"):
        FloatxTensorLayout(codes, torch.ones(64, 1), ebits, mbits, "float16")


def test_tensor_cores_take_multiples_of_64():
    """Rows that are none are named with the size they have."""
    codes = torch.zeros(32, 48, dtype=torch.uint8)
    with pytest.raises(LayoutError, match="packed_floatx_data has a wrong size for codes of 6"):
        FloatxTensorLayoutV1(codes, torch.ones(32), 3, 2, "float16")
