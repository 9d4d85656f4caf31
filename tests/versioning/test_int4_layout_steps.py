import attrs
import pytest
import torch

from qconfig.codec.dtypes import DType
from qconfig.codec.layout_values import wrapped
from qconfig.codec.tensor_values import LazyTensor, TensorSpec
from qconfig.errors import LayoutError, MigrationError
from qconfig.layouts.int4_packing import CpuInt4Order
from qconfig.migrations.block_sparse_tensor_layout import BlockSparseTensorLayoutV1
from qconfig.migrations.int4_opaque_tensor_layout import (
    Int4OpaqueTensorLayoutV1,
    Int4OpaqueTensorLayoutV3,
)
from qconfig.migrations.int4_plain_int32_tensor_layout import (
    Int4PlainInt32TensorLayoutV1,
    Int4PlainInt32TensorLayoutV2,
)
from qconfig.migrations.int4_tile_packed_to4d_tensor_layout import (
    Int4TilePackedTo4dTensorLayoutV1,
    Int4TilePackedTo4dTensorLayoutV2,
)
from qconfig.tensors.int4 import Int4Tensor
from qconfig.tensors.int4_codes import unpack
from qconfig.versioning import registry
from tests.golden_int4 import codes_at, gpu_places

SEED = torch.Generator().manual_seed(3)


def spec(dtype, *shape):
    """Return a tensor of which nothing more is known."""
    return TensorSpec(DType(dtype), shape)


def words(*shape):
    """Return words of random codes."""
    return torch.randint(-(2**31), 2**31, shape, generator=SEED).to(torch.int32)


def pairs(groups, rows):
    """Return scales beside zero points, no two alike."""
    return torch.arange(1.0, groups * rows * 2 + 1).view(groups, rows, 2)


def int4_of(layout):
    """Return the tensor that a layout becomes."""
    result = registry.convert(wrapped(layout))
    fields = ("qdata", "scale", "zero_point", "act_pre_scale")
    loaded = {f: v.load() for f in fields if (v := getattr(result, f)) is not None}
    return Int4Tensor.from_layout(attrs.evolve(result, **loaded))


def packed_for_cpu(rows=32, columns=8, **fields):
    """Return a layout of version 1 for a CPU."""
    codes = torch.randint(0, 256, (rows, columns // 2), generator=SEED, dtype=torch.uint8)
    values = {"block_size": (1, 4), "dtype": DType.FLOAT32, **fields}
    return Int4OpaqueTensorLayoutV1(codes, pairs(columns // 4, rows), **values)


def padded(shape, block_size=(1, 32), rows=8, columns=128, **fields):
    """Return a layout of version 1 for a GPU with padding."""
    return Int4TilePackedTo4dTensorLayoutV1(
        words(rows // 8, columns // 128, 32, 4),
        pairs(columns // max(block_size), rows),
        block_size,
        shape,
        DType.FLOAT32,
        **fields,
    )


def test_the_order_decides_where_codes_lie():
    """The same bytes are other values in the order of another processor."""
    layout = packed_for_cpu()
    other = attrs.evolve(layout, cpu_order="avx2")
    assert other.cpu_order is CpuInt4Order.AVX2
    assert not torch.equal(int4_of(layout).dequantize(), int4_of(other).dequantize())


def test_a_transposed_weight_stays_so():
    """A tensor that shows (K, N) has the values of the one that shows (N, K), transposed."""
    layout = packed_for_cpu()
    turned = attrs.evolve(layout, transposed=True, block_size=(4, 1))
    assert torch.equal(int4_of(turned).dequantize(), int4_of(layout).dequantize().t())


def test_a_transposed_weight_of_a_gpu_stays_so():
    """The same, where padding has to go."""
    layout = padded((6, 64))
    turned = attrs.evolve(layout, transposed=True, shape=(64, 6), block_size=(32, 1))
    assert torch.equal(int4_of(turned).dequantize(), int4_of(layout).dequantize().t())


@pytest.mark.parametrize("columns", [128, 64, 34, 2])
def test_padding_goes_and_every_column_keeps_its_scale(columns):
    """Groups that end in padding become smaller ones of the same scale."""
    layout = padded((5, columns))
    found = int4_of(layout)
    codes = codes_at(gpu_places(8, 128, 8, "cuda"), layout.packed_weight)
    both = layout.scale_and_zero
    expected = [
        [(codes[n, k] - 8) * both[k // 32, n, 0] + both[k // 32, n, 1] for k in range(columns)]
        for n in range(5)
    ]
    assert found.shape == (5, columns)
    assert torch.equal(found.dequantize(), torch.tensor(expected))


def test_a_group_larger_than_the_columns_is_all_of_them():
    """Columns are padded before groups are made."""
    assert int4_of(padded((8, 64), block_size=(1, 128))).block_size == (1, 64)


def test_several_matrices_are_unpacked_one_by_one():
    """Experts keep their order and their scales."""
    data, scales = words(3, 1, 1, 32, 4), torch.randn(3, 4, 8, 2, generator=SEED)
    layout = Int4TilePackedTo4dTensorLayoutV2(data, scales, (1, 1, 32), (3, 8, 128), DType.FLOAT32)
    found = int4_of(layout)
    for i in range(3):
        one = attrs.evolve(
            layout, qdata=data[i], scale_and_zero=scales[i], block_size=(1, 32), shape=(8, 128)
        )
        assert torch.equal(found.dequantize()[i], int4_of(one).dequantize())


def test_an_odd_number_of_columns_is_refused():
    """Two columns share a byte."""
    with pytest.raises(MigrationError, match="holds two columns a byte"):
        registry.convert(wrapped(padded((8, 33))))


@pytest.mark.parametrize("fields", [{"shape": (9, 64)}, {"shape": (8, 130)}])
def test_a_shape_beyond_the_padding_is_refused(fields):
    """What is shown must be there."""
    with pytest.raises(LayoutError):
        attrs.evolve(padded((8, 64)), **fields)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("qzeros", spec("int8", 1, 2, 32)),
        ("compensation", spec("int32", 1, 2, 32)),
        ("act_mapping_type", "symmetric"),
    ],
)
def test_weights_of_the_kernel_of_int8_activations_are_refused(name, value):
    """The step names the field, the release and the reason."""
    from qconfig.migrations.int4_opaque_tensor_layout import ActMappingType

    value = ActMappingType(value) if name == "act_mapping_type" else value
    layout = Int4OpaqueTensorLayoutV3(
        spec("uint8", 1, 2, 32, 16),
        spec("float32", 1, 2, 32),
        (1, 32),
        (32, 64),
        DType.FLOAT32,
        **{name: value},
    )
    with pytest.raises(MigrationError, match=rf"{name} belongs .* torchao 0\.17 .*da8w4") as caught:
        registry.convert(layout)
    assert caught.value.pointer == f"/{name}"


def test_rows_that_no_kernel_packs_are_refused():
    """The kernel packs rows by sixteen."""
    with pytest.raises(LayoutError, match="packs sixteen rows at a time"):
        Int4OpaqueTensorLayoutV1(
            spec("uint8", 8, 4), spec("float32", 2, 8, 2), (1, 4), DType.FLOAT32
        )


def test_words_with_int8_zero_points_are_codes():
    """A value is (q - zero) * scale, scales in the order of rows."""
    data, scale = words(4, 2), torch.rand(4, 4, generator=SEED)
    zero = torch.randint(0, 16, (4, 4), generator=SEED, dtype=torch.int8)
    layout = Int4PlainInt32TensorLayoutV1(data, (1, 4), DType.FLOAT32, scale=scale, zero=zero)
    found = registry.convert(wrapped(layout))
    values = (found.qdata.load().view(4, 4, 4).float() - found.zero_point.load().unsqueeze(-1)) * (
        found.scale.load().unsqueeze(-1)
    )
    for n in range(4):
        for k in range(16):
            code = int(data[n, k // 8]) >> 4 * (k % 8) & 15
            assert values[n, k // 4, k % 4] == (code - zero[k // 4, n]) * scale[k // 4, n]


def test_zero_points_of_an_npu_are_refused():
    """Floating-point zero points that version 1 did not have are of unknown sign."""
    layout = Int4PlainInt32TensorLayoutV2(
        spec("int32", 2, 1),
        spec("float16", 1, 2),
        spec("float16", 1, 2),
        (1, 8),
        (2, 8),
        DType.FLOAT16,
    )
    with pytest.raises(MigrationError, match=r"torchao 0\.17 and later write it on Ascend"):
        registry.convert(layout)


@pytest.mark.parametrize("given", [(), ("scale",), ("scale", "zero", "scale_and_zero")])
def test_scales_are_stored_in_one_way(given):
    """Scales beside zero points, or apart, and not both."""
    every = {
        "scale": spec("float16", 1, 2),
        "zero": spec("int8", 1, 2),
        "scale_and_zero": spec("float16", 1, 2, 2),
    }
    with pytest.raises(LayoutError, match="stored together or apart"):
        Int4PlainInt32TensorLayoutV1(
            spec("int32", 2, 1), (1, 8), DType.FLOAT16, **{n: every[n] for n in given}
        )


def sparse(dense, height, width, **fields):
    """Return the layout of the blocks that are not all 0, as torch stores them."""
    blocks = dense.view(dense.shape[0] // height, height, -1, width).transpose(1, 2)
    kept = blocks.flatten(2).any(2)
    starts = torch.cat((torch.zeros(1, dtype=torch.int64), kept.sum(1).cumsum(0)))
    return BlockSparseTensorLayoutV1(
        blocks[kept],
        fields.pop("starts", starts),
        fields.pop("places", kept.nonzero()[:, 1]),
        torch.ones(dense.shape[0]),
        (1, dense.shape[1]),
        tuple(dense.shape),
        DType.FLOAT32,
        **fields,
    )


def dense_codes():
    """Return codes of which some blocks are all 0, and some hold one."""
    codes = torch.randint(-128, 128, (12, 8), generator=SEED, dtype=torch.int8)
    codes[:4, :4] = 0
    codes[4:8] = 0
    codes[11, 7] = 1
    return codes


def test_blocks_get_their_zeros_back():
    """All codes are where they were, rows of blocks without any included."""
    codes = dense_codes()
    found = registry.convert(wrapped(sparse(codes, 4, 4)))
    assert torch.equal(found.qdata.load(), codes)
    assert found.scale.shape == (12, 1)


def test_zero_points_of_blocks_become_int8():
    """One that does not fit is refused."""
    zero = torch.full((12,), 5)
    found = registry.convert(wrapped(sparse(dense_codes(), 4, 4, zero_point=zero)))
    assert found.zero_point.load().flatten().tolist() == [5] * 12
    with pytest.raises(MigrationError, match="zero_point does not fit int8"):
        registry.convert(
            wrapped(sparse(dense_codes(), 4, 4, zero_point=zero * 50))
        ).zero_point.load()


@pytest.mark.parametrize(
    "fields",
    [
        {"starts": torch.tensor([0, 2, 1, 3])},
        {"starts": torch.tensor([0, 3, 3, 3])},
        {"starts": torch.tensor([1, 1, 1, 3])},
        {"starts": torch.tensor([0, 1, 1, 2])},
        {"places": torch.tensor([0, 1, 2])},
        {"places": torch.tensor([-1, 0, 1])},
    ],
)
def test_blocks_in_no_place_are_refused(fields):
    """Numbers that are no places of blocks are refused before anything is read by them."""
    layout = wrapped(sparse(dense_codes(), 4, 4, **fields))
    with pytest.raises(MigrationError, match=r"bsr_(crow|col)_indices"):
        registry.convert(layout).qdata.load()


def test_nothing_is_computed_before_it_is_asked_for():
    """A plan is made from shapes alone."""

    def never():
        raise AssertionError

    layout = wrapped(packed_for_cpu())
    lazy = attrs.evolve(layout, packed_weight=LazyTensor(DType.UINT8, (32, 4), never))
    assert registry.convert(lazy).shape == (32, 8)


def test_codes_of_bytes_are_those_of_int4_tensors():
    """`Int4Tensor` finds the codes less 8."""
    layout = packed_for_cpu(rows=16, columns=4)
    found = unpack(int4_of(layout).qdata) + 8
    first = layout.packed_weight.flatten()
    assert found[:2, 0].tolist() == [int(first[0]) & 15, int(first[0]) >> 4]
