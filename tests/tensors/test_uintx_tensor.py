import pytest
import torch

from qconfig.errors import LayoutError, UnsupportedOperationError
from qconfig.layouts.uintx import UintxTensorLayout
from qconfig.migrations.uintx_tensor_layout import UintxTensorLayoutV1
from qconfig.tensors import UintxTensor, tensor_class_of
from tests.tensors.torchao_peer import quiet_torchao

FLOATS = (torch.float16, torch.bfloat16, torch.float32)
BLOCKS = {"group": (1, 16), "row": (1, 64), "tile": (8, 32), "tensor": (32, 64)}


def packed(bits=4, block=(1, 16), domain="INT", kind=torch.float32, shape=(32, 64), **fields):
    """Return a tensor of random codes, scales and zero points."""
    generator = torch.Generator().manual_seed(bits)
    blocks = [n // b for n, b in zip(shape, block, strict=True)]
    codes = torch.randint(0, 2**bits, shape, generator=generator, dtype=torch.uint8)
    scale = (torch.rand(blocks, generator=generator) + 0.1).to(kind)
    zero = torch.randn(blocks, generator=generator).to(kind)
    if domain == "INT":
        zero = torch.randint(0, 2**bits, blocks, generator=generator, dtype=torch.int32)
    return UintxTensor(
        codes, scale, bits, block, kind, zero_point=zero, zero_point_domain=domain, **fields
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("domain", ["INT", "FLOAT"])
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("bits", [1, 4, 7, 8])
def test_dequantize_equals_torchao(bits, block, domain, kind, dtype):
    """Values are torchao's to the bit, for both kinds of zero points and every type."""
    tensor = packed(bits, BLOCKS[block], domain, kind)
    with quiet_torchao():
        from torchao.quantization import quant_primitives as peer

        function = {"INT": peer.dequantize_affine, "FLOAT": peer._dequantize_affine_tinygemm}
        expected = function[domain](
            tensor.qdata,
            tensor.block_size,
            tensor.scale,
            tensor.zero_point,
            torch.uint8,
            0,
            2**bits - 1,
            output_dtype=dtype,
        )
    assert torch.equal(tensor.dequantize(dtype), expected)


@pytest.mark.parametrize("domain", ["INT", "FLOAT"])
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("shape", [(32, 64), (2, 32, 64)])
def test_dequantize_by_rows_equals_whole(monkeypatch, shape, block, domain):
    """Large tensors, done a few rows at a time, get the same bits as small ones."""
    tensor = packed(block=(1,) * (len(shape) - 2) + BLOCKS[block], domain=domain, shape=shape)
    whole = tensor.dequantize()
    monkeypatch.setattr("qconfig.tensors.blockwise._BUFFER_BYTES", 5 * 64 * 4)
    assert torch.equal(tensor.dequantize(), whole)
    assert torch.equal(tensor.transpose(-1, -2).dequantize(), whole.transpose(-1, -2))


@pytest.mark.parametrize("pack_dim", [-1, 0, 1])
@pytest.mark.parametrize("bits", range(1, 8))
def test_shards_unpack_as_in_torchao(bits, pack_dim):
    """Codes that torchao's UintxTensor packed are the codes again."""
    generator = torch.Generator().manual_seed(bits)
    codes = torch.randint(0, 2**bits, (16, 32), generator=generator, dtype=torch.uint8)
    with quiet_torchao():
        from torchao.prototype.dtypes.uintx.uintx_utils import to_uintx

        theirs = to_uintx(codes, getattr(torch, f"uint{bits}"), pack_dim)
    names, (shape, width, dim) = theirs.__tensor_flatten__()
    old = UintxTensorLayoutV1(
        torch.ones(16),
        shape,
        width,
        (1, 32),
        torch.float32,
        pack_dim=dim,
        **{name: getattr(theirs, name) for name in names},
    )
    assert torch.equal(UintxTensor.from_layout(old).qdata, codes)


def test_a_missing_shard_is_named():
    """Codes of 3 bits need a shard of 2 bits and one of 1."""
    shard = torch.zeros(4, 2, dtype=torch.uint8)
    with pytest.raises(LayoutError, match="int1_shard has a wrong size for 3 bits") as caught:
        UintxTensorLayoutV1(torch.ones(4), (4, 8), 3, (1, 8), "float32", int2_shard=shard)
    assert caught.value.pointer == "/int1_shard"


def test_a_shard_too_many_is_named():
    """Codes of 2 bits have no shard of 4."""
    shards = {f"int{b}_shard": torch.zeros(4, b, dtype=torch.uint8) for b in (2, 4)}
    with pytest.raises(LayoutError, match="int4_shard has a wrong size for codes of 2 bits"):
        UintxTensorLayoutV1(torch.ones(4), (4, 8), 2, (1, 8), "float32", **shards)


def test_integers_are_no_zero_points_of_stored_values():
    """In the domain FLOAT of the stored form, too, zero points are values."""
    options = {"int2_shard": torch.zeros(4, 2, dtype=torch.uint8), "zero_point_domain": "float"}
    zero = torch.zeros(4, dtype=torch.int32)
    with pytest.raises(LayoutError, match="not supported in the domain FLOAT") as caught:
        UintxTensorLayoutV1(torch.ones(4), (4, 8), 2, (1, 8), "float32", zero_point=zero, **options)
    assert caught.value.found == "'int32'"


def test_codes_beyond_their_bits_are_refused():
    """A code of 16 is none of 4 bits; field, count and place are named."""
    with pytest.raises(LayoutError, match=r"qdata is out of range: 1 of 64 .* \[0, 3\]"):
        codes = torch.zeros(4, 16, dtype=torch.uint8)
        codes[0, 3] = 16
        UintxTensor(codes, torch.ones(4, 1), 4, (1, 16), torch.float32)


def test_zero_points_that_are_values_are_no_integers():
    """In the domain FLOAT, zero points of an integer type are refused."""
    zero = torch.zeros(4, 1, dtype=torch.int32)
    with pytest.raises(LayoutError, match="zero_point is not supported in the domain FLOAT"):
        UintxTensorLayout(
            torch.zeros(4, 16, dtype=torch.uint8),
            torch.ones(4, 1),
            4,
            (1, 16),
            "float32",
            zero_point=zero,
            zero_point_domain="FLOAT",
        )


@pytest.mark.parametrize("domain", ["INT", "FLOAT"])
def test_views_and_cuts_have_the_values_of_the_float_tensor(domain):
    """Transposed, cut on blocks, joined: the values are those of the plain tensor."""
    tensor = packed(domain=domain)
    values = tensor.dequantize()
    assert torch.equal(tensor.t().dequantize(), values.t())
    assert torch.equal(tensor[4:12].dequantize(), values[4:12])
    assert torch.equal(tensor[:, 16:48].dequantize(), values[:, 16:48])
    assert torch.equal(torch.cat([tensor, tensor]).dequantize(), torch.cat([values, values]))


def test_linear_multiplies_the_activation_first():
    """The output is that of the scaled activation and the plain weight."""
    factor = torch.rand(64) + 0.5
    tensor = packed(act_pre_scale=factor)
    activation, bias = torch.randn(3, 64), torch.randn(32)
    expected = torch.nn.functional.linear(activation * factor, tensor.dequantize(), bias)
    assert torch.equal(torch.nn.functional.linear(activation, tensor, bias), expected)


def test_code_bounds_are_those_of_the_bits():
    """Codes start from 0; zero points that are values have no bounds."""
    assert packed(3).code_bounds() == (0, 7)
    with pytest.raises(UnsupportedOperationError):
        packed(3, domain="FLOAT").code_bounds()


def test_layout_has_its_class():
    """The registry of tensor classes gives UintxTensor for its layout."""
    assert tensor_class_of(UintxTensorLayout) is UintxTensor
