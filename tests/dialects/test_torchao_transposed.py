"""Tensors that torchao transposed before it saved them: read as they show, or refused."""

from typing import Any

import attrs
import pytest
import torch

from qconfig.codec.dtypes import DType
from qconfig.codec.pickled_values import PickledSubclass, PickledTensor
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.torchao.stored import Stored, stored_from_pickle
from qconfig.dialects.torchao.tensors.table import read_tensor
from qconfig.errors import ContainerError, MigrationError
from tests.dialects.stored_samples import BF16, G, K, N, affine, domain, float8_weight, inside, lazy
from tests.torchao_pickles import packed

_ROWS = torch.arange(N * K) % 251
_FP8 = (_ROWS.to(torch.uint8) & 0x77).view(N, K).view(torch.float8_e4m3fn)
_FP4 = (torch.arange(N * K // 2) % 251).to(torch.uint8).view(N, K // 2)
_E8M0 = (120 + torch.arange(N * K // 32) % 13).to(torch.uint8).view(N, K // 32)
_E4M3 = (56 + torch.arange(N * K // 16) % 9).to(torch.uint8).view(torch.float8_e4m3fn)
_KERNEL = {"_use_fp4_custom_triton_dequant_kernel": False}


def _pickled(name: str, shape: tuple[int, ...], state: dict[str, Any]) -> Stored:
    """Return what a pickle says of a tensor with such fields, strides and all."""
    values = {k: _plain(v) if isinstance(v, torch.Tensor) else v for k, v in state.items()}
    return stored_from_pickle(PickledSubclass(f"torchao.{name}", BF16, shape, (1, 1), values))


def _plain(tensor: torch.Tensor) -> PickledTensor:
    raw = tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor
    value = LazyTensor.of(raw.contiguous().view(tensor.dtype))
    return PickledTensor(value, "0", 0, tensor.stride())


def _mx(data: torch.Tensor, scale: torch.Tensor, element: Any, shape: tuple[int, ...]) -> Stored:
    said = {"_elem_dtype": element, "_block_size": 32, "_orig_dtype": BF16, **_KERNEL}
    return _pickled("MXTensor", shape, {"_scale_e8m0": scale, "_data": data, **said})


def _nvfp4(codes: torch.Tensor, scale: torch.Tensor, shape: tuple[int, ...]) -> Stored:
    said = {"_block_size": 16, "_orig_dtype": BF16, "_is_swizzled_scales": False}
    return _pickled("NVFP4Tensor", shape, {"qdata": codes, "_scale_e4m3": scale, **said})


def _values(tensor: Stored) -> torch.Tensor:
    return packed(read_tensor(tensor).layout).dequantize()


_E8M0_TYPED = _E8M0.view(torch.float8_e8m0fnu)
_FP8_ELEMENT = DType.FLOAT8_E4M3FN
_NVFP4_SCALE = _E4M3.view(N, K // 16)


@pytest.mark.parametrize(
    ("upright", "turned"),
    [
        (
            _mx(_FP8, _E8M0.flatten(), _FP8_ELEMENT, (N, K)),
            _mx(_FP8.t(), _E8M0.flatten(), _FP8_ELEMENT, (K, N)),
        ),
        (
            _mx(_FP4, _E8M0.flatten(), "fp4_e2m1", (N, K)),
            _mx(_FP4.t(), _E8M0.flatten(), "fp4_e2m1", (K, N)),
        ),
        (
            _mx(_FP8, _E8M0_TYPED, _FP8_ELEMENT, (N, K)),
            _mx(_FP8.t(), _E8M0_TYPED, _FP8_ELEMENT, (K, N)),
        ),
        (
            _nvfp4(_FP4, _NVFP4_SCALE, (N, K)),
            _nvfp4(_FP4.t(), _NVFP4_SCALE, (K, N)),
        ),
        (
            _nvfp4(_FP4, _NVFP4_SCALE, (N, K)),
            _nvfp4(_FP4.t(), _NVFP4_SCALE.t(), (K, N)),
        ),
    ],
    ids=["mxfp8 0.9", "mxfp4 0.9", "mxfp8 0.12", "nvfp4 0.13", "nvfp4 0.14"],
)
def test_a_transposed_block_scaled_tensor_has_the_transposed_values(upright, turned):
    """Whether its scales were transposed with the codes differs by class and release."""
    expected = _values(upright)
    assert expected.isfinite().all()
    assert torch.equal(_values(turned), expected.t())


def test_square_codes_are_transposed_by_their_strides_alone():
    """Where rows and bytes are as many, no shape tells it."""
    codes, scale = _FP4[: K // 2], _E8M0.flatten()[: K // 2 * K // 32]
    expected = _values(_mx(codes, scale, "fp4_e2m1", (K // 2, K)))
    found = _values(_mx(codes.t(), scale, "fp4_e2m1", (K, K // 2)))
    assert torch.equal(found, expected.t())


def test_a_transposed_scale_of_one_block_a_row_is_told_by_its_shape():
    """Strides say nothing of a dimension of size 1."""
    codes, scale = _FP4[:, :8].contiguous(), _NVFP4_SCALE[:, :1].contiguous()
    expected = _values(_nvfp4(codes, scale, (N, 16)))
    assert torch.equal(_values(_nvfp4(codes.t(), scale.t(), (16, N))), expected.t())


def test_a_transposed_tensor_with_scales_in_tiles_is_refused():
    """Tiles are of rows, and no layout has tiles of columns."""
    scale = torch.zeros(128 * 8, dtype=torch.uint8).view(torch.float8_e4m3fn)
    tensor = _nvfp4(_FP4.t(), scale, (K, N))
    fields = tensor.fields | {"_is_swizzled_scales": True}
    with pytest.raises(MigrationError, match="scales in tiles"):
        read_tensor(attrs.evolve(tensor, fields=fields))


def test_a_tensor_that_shows_another_shape_than_it_has_is_refused():
    """Its values would be those of another tensor."""
    with pytest.raises(ContainerError, match="shape is not what its class stores"):
        read_tensor(_mx(_FP8, _E8M0.flatten(), _FP8_ELEMENT, (K, N)))


def _float8(shape: tuple[int, ...], block: tuple[int, ...], *, flag: bool, one: bool) -> Stored:
    rows = max(shape) if one else N
    codes = _FP8[:rows, : min(shape)] if one else _FP8
    scale = lazy(dtype=torch.float32) if one else LazyTensor.of(torch.arange(1.0, N + 1))
    weight = float8_weight(
        float8_data=LazyTensor.of(codes.contiguous()), scale=scale, transposed=flag
    )
    fields = weight.fields | {"block_size": block}
    return attrs.evolve(weight, shape=shape, fields=fields)


def test_a_float8_weight_stays_where_its_flag_alone_says_transposed():
    """Torchao set the flag of the tensor that t() was called of, too."""
    plain = _values(_float8((N, K), (1, K), flag=False, one=False))
    assert torch.equal(_values(_float8((N, K), (1, K), flag=True, one=False)), plain)


@pytest.mark.parametrize("flag", [True, False])
def test_a_float8_weight_of_exchanged_shape_is_transposed(flag):
    """The flag is shared, so that a second t() of either tensor takes it back."""
    plain = _values(_float8((N, K), (1, K), flag=False, one=False))
    assert torch.equal(_values(_float8((K, N), (K, 1), flag=flag, one=False)), plain.t())


def test_a_square_float8_weight_with_one_scale_and_the_flag_is_refused():
    """It may be the weight or its transposition."""
    with pytest.raises(MigrationError, match="not known whether a square tensor"):
        read_tensor(_float8((N, N), (N, N), flag=True, one=True))


def test_a_square_float8_weight_with_one_scale_is_read_without_the_flag():
    """As torchao would, which looks at the flag."""
    assert _values(_float8((N, N), (N, N), flag=False, one=True)).shape == (N, N)


def _tiled(shape: tuple[int, ...], block: tuple[int, ...], *, flag: bool) -> Stored:
    words = torch.arange(N // 8 * 8 * 32 * 4, dtype=torch.int32).view(N // 8, 8, 32, 4) * 77_003_1
    codes = inside(
        "TensorCoreTiledAQTTensorImpl",
        "torchao.dtypes.uintx.tensor_core_tiled_layout",
        "TensorCoreTiledLayout",
        packed_weight=LazyTensor.of(words),
        scale_and_zero=lazy(1024 // G, N, 2),
        transposed=flag,
    )
    bounds = {"quant_min": 0, "quant_max": 15, "zero_point_domain": domain("FLOAT")}
    return attrs.evolve(affine(codes, block_size=block, **bounds), shape=shape)


@pytest.mark.parametrize("flag", [True, False])
def test_blocks_say_whether_packed_int4_is_transposed(flag):
    """Up to 0.6 the flag is that of both tensors, and later it is never set."""
    plain = _values(_tiled((N, K), (1, G), flag=False))
    assert torch.equal(_values(_tiled((N, K), (1, G), flag=flag)), plain)
    assert torch.equal(_values(_tiled((K, N), (G, 1), flag=flag)), plain.t())
