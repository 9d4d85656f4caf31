"""Every arrangement inside AffineQuantizedTensor, and what each is read as."""

from collections.abc import Mapping
from typing import Any

import torch

from qconfig.codec.dtypes import DType
from qconfig.dialects.torchao.stored import Stored
from tests.dialects.stored_samples import (
    G,
    K,
    N,
    affine,
    domain,
    float8,
    float8_weight,
    inside,
    int8,
    int8_weight,
    intx_weight,
    lazy,
    plain,
    stored,
)

_DTYPES = "torchao.dtypes"


def _arranged(name: str, module: str, layout: str, said: Any = None, **fields: Any) -> Stored:
    codes = inside(name, f"{_DTYPES}.{module}", layout, said, **fields)
    return _shell(affine(codes), codes)


def _packed(name: str, module: str, layout: str, zeros: str = "FLOAT", **fields: Any) -> Stored:
    codes = inside(name, f"{_DTYPES}.uintx.{module}", layout, transposed=False, **fields)
    shell = affine(
        codes, block_size=(1, G), quant_min=0, quant_max=15, zero_point_domain=domain(zeros)
    )
    return _shell(shell, codes)


def _shell(shell: Stored, codes: Stored) -> Stored:
    """Return the shell with the name of the time for the arrangement inside."""
    if not codes.name.endswith("AQTLayout"):
        return shell
    values = {k: v for k, v in shell.fields.items() if k != "tensor_impl"}
    return stored(shell.name, f"{_DTYPES}.affine_quantized_tensor", **values, layout_tensor=codes)


def _shards(name: str) -> Stored:
    codes = Stored(
        "UintxTensor",
        f"{_DTYPES}.uintx.uintx.UintxTensor",
        DType.UINT8,
        (N, K),
        {
            "int2_shard": int8(N, K // 4, dtype=torch.uint8),
            "int1_shard": int8(N, K // 8, dtype=torch.uint8),
            "packed_shape": (N, K),
            "bit_width": 3,
            "pack_dim": -1,
        },
    )
    said = {"dtype": DType.UINT3, "pack_dim": -1}
    zero = lazy(N, dtype=torch.int32)
    return _arranged(
        name, "uintx.uintx", "UintxLayout", said, int_data=codes, scale=lazy(N), zero_point=zero
    )


def _floatx(name: str) -> Stored:
    codes, said = int8(N, K * 6 // 8, dtype=torch.uint8), {"ebits": 3, "mbits": 2}
    layout = "FloatxTensorCoreLayout"
    return _arranged(name, "floatx.floatx", layout, said, packed_floatx_data=codes, scale=lazy(N))


def _blocks(name: str) -> Stored:
    fields = {
        "bsr_crow_indices": lazy(N // 64 + 1, dtype=torch.int64, fill=0),
        "bsr_col_indices": lazy(0, dtype=torch.int64),
        "bsr_values": lazy(0, 64, 64, dtype=torch.int8),
    }
    said, zero = {"blocksize": 64}, lazy(N, dtype=torch.int64)
    module = "uintx.block_sparse_layout"
    return _arranged(
        name, module, "BlockSparseLayout", said, scale=lazy(N), zero_point=zero, **fields
    )


_TILES = lazy(N // 8, 1024 // 128, 32, 4, dtype=torch.int32)
_TILED_PAIRS = lazy(1024 // G, N, 2)
_CPU = int8(N, K // 2, dtype=torch.uint8)
_PAIRS = lazy(K // G, N, 2)
_WORDS = lazy(N, K // 8, dtype=torch.int32)
_TILED = {"packed_weight": _TILES, "scale_and_zero": _TILED_PAIRS}

ARRANGEMENTS: Mapping[str, tuple[Stored, str]] = {
    "PlainAQTTensorImpl": (int8_weight(), "Int8TensorLayoutV1"),
    "PlainAQTLayout": (
        _arranged(
            "PlainAQTLayout",
            "affine_quantized_tensor",
            "PlainLayoutType",
            int_data=int8(N, K),
            scale=lazy(N),
            zero_point=lazy(N, dtype=torch.int64),
        ),
        "Int8TensorLayoutV1",
    ),
    "PlainAQTTensorImpl with uint8": (
        affine(
            plain(int_data=int8(N, K, dtype=torch.uint8), zero_point=lazy(N)),
            quant_min=0,
            quant_max=15,
            zero_point_domain=domain("FLOAT"),
        ),
        "UintxTensorLayout",
    ),
    "PlainAQTTensorImpl with int4": (
        affine(plain(zero_point=lazy(N)), quant_min=-8, quant_max=7),
        "IntxUnpackedToInt8TensorLayoutV1",
    ),
    "QDQTensorImpl": (intx_weight(), "IntxUnpackedToInt8TensorLayoutV1"),
    "Float8AQTTensorImpl": (float8_weight(), "Float8TensorLayoutV1"),
    "Float8AQTLayout": (
        _arranged(
            "Float8AQTLayout",
            "affine_quantized_tensor",
            "Float8LayoutType",
            {"mm_config": None},
            float8_data=float8(N, K),
            scale=lazy(N),
            transposed=False,
        ),
        "Float8TensorLayoutV1",
    ),
    "UintxAQTLayout": (_shards("UintxAQTLayout"), "UintxTensorLayoutV1"),
    "UintxAQTTensorImpl": (_shards("UintxAQTTensorImpl"), "UintxTensorLayoutV1"),
    "FpxTensorCoreAQTLayout": (_floatx("FpxTensorCoreAQTLayout"), "FloatxTensorLayoutV1"),
    "FloatxTensorCoreAQTLayout": (_floatx("FloatxTensorCoreAQTLayout"), "FloatxTensorLayoutV1"),
    "FloatxTensorCoreAQTTensorImpl": (
        _floatx("FloatxTensorCoreAQTTensorImpl"),
        "FloatxTensorLayoutV1",
    ),
    "BlockSparseAQTLayout": (_blocks("BlockSparseAQTLayout"), "BlockSparseTensorLayoutV1"),
    "BlockSparseAQTTensorImpl": (_blocks("BlockSparseAQTTensorImpl"), "BlockSparseTensorLayoutV1"),
    "TensorCoreTiledAQTLayout": (
        _packed("TensorCoreTiledAQTLayout", "tiled", "TensorCoreTiledLayoutType", **_TILED),
        "Int4TensorLayout",
    ),
    "TensorCoreTiledAQTTensorImpl": (
        _packed("TensorCoreTiledAQTTensorImpl", "tiled", "TensorCoreTiledLayout", **_TILED),
        "Int4TensorLayout",
    ),
    "Int4CPUAQTTensorImpl": (
        _packed(
            "Int4CPUAQTTensorImpl",
            "int4_cpu_layout",
            "Int4CPULayout",
            packed_weight=_CPU,
            scale_and_zero=_PAIRS,
        ),
        "Int4TensorLayout",
    ),
    "Int4XPUAQTTensorImpl": (
        _packed(
            "Int4XPUAQTTensorImpl",
            "int4_xpu_layout",
            "Int4XPULayout",
            zeros="INT",
            packed_weight=_WORDS,
            scale_and_zero=None,
            scale=lazy(K // G, N),
            zero=lazy(K // G, N, dtype=torch.int8),
        ),
        "Int4PlainInt32TensorLayoutV1",
    ),
    "Int4PackedTensorImpl": (
        affine(
            inside(
                "Int4PackedTensorImpl",
                f"{_DTYPES}.uintx.cutlass_int4_packed_layout",
                "CutlassInt4PackedLayout",
                int_data=int8(N, K // 2),
                scale=lazy(N),
            ),
            quant_min=-8,
            quant_max=7,
            zero_point_domain=domain("NONE"),
        ),
        "CutlassInt4PackedTensorLayoutV1",
    ),
}
"""Class name, or that and what is special -> the tensor, and the layout that it is read as."""
