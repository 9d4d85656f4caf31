"""Every form in which torchao stored a tensor class, and what each is read as."""

from collections.abc import Mapping
from typing import Any

import torch

from qconfig.codec.dtypes import DType
from qconfig.dialects.torchao.stored import Stored, StoredObject
from qconfig.dialects.torchao.tensors.autoquant_names import CHOSEN
from tests.dialects.stored_samples import (
    BF16,
    FLOAT8_ACTIVATION,
    FP8_KWARGS,
    INT8_ACTIVATION,
    MM_CONFIG,
    PER_TENSOR,
    G,
    K,
    N,
    chosen,
    float8,
    float8_weight,
    int8,
    int8_weight,
    lazy,
    member,
    quantized,
    scaled,
    static,
    stored,
    stretched,
)

_AO = "torchao.quantization"
_MX, _NVFP4 = "torchao.prototype.mx_formats.mx_tensor", "torchao.prototype.mx_formats.nvfp4_tensor"
_SCALES = {"scale": lazy(N, 1, dtype=torch.float32)}
_E8M0 = lazy(N, K // 32, dtype=torch.float8_e8m0fnu)
_BYTES = {"_data": lazy(N, K // 2, dtype=torch.uint8, fill=17), "_elem_dtype": "fp4_e2m1"}
_PAIRS = {"scale_and_zero": lazy(K // G, N, 2), "block_size": [1, G]}
_NONE: dict[str, Any] = {"act_pre_scale": None}


def _int8(**fields: Any) -> Stored:
    values = {"qdata": int8(N, K), "block_size": [1, K], "act_quant_kwargs": INT8_ACTIVATION}
    return stored("Int8Tensor", _AO, **values | _SCALES | fields)


def _float8(name: str = "Float8Tensor", path: str = _AO, **fields: Any) -> Stored:
    kernel = member("KernelPreference", "AUTO")
    values = {"qdata": float8(N, K), "block_size": [1, K], "mm_config": MM_CONFIG}
    values |= {"act_quant_kwargs": FLOAT8_ACTIVATION, "kernel_preference": kernel}
    return stored(name, path, **values | _SCALES | fields)


def _int4(**fields: Any) -> Stored:
    groups = {"scale": lazy(K // G, N), "zero_point": lazy(K // G, N)}
    values = {"qdata": int8(N, K // 2), "block_size": [1, G]}
    return stored("Int4Tensor", _AO, **values | groups | fields)


def _opaque(path: str, **fields: Any) -> Stored:
    codes = int8(N, K // 2, dtype=torch.uint8)
    return stored("Int4OpaqueTensor", path, qdata=codes, **_PAIRS | _NONE | fields)


def _intx(name: str, **fields: Any) -> Stored:
    groups = {"scale": lazy(N, K // G), "zero_point": lazy(N, K // G, dtype=torch.int8, fill=0)}
    values = {"qdata": int8(N, K), "target_dtype": DType.INT4, "block_size": (1, G)}
    return stored(name, _AO, **values | groups | fields)


def _mx(**fields: Any) -> Stored:
    return stored("MXTensor", _MX, **fields)


def _nvfp4(**fields: Any) -> Stored:
    return stored("NVFP4Tensor", _NVFP4, **fields)


def _nf4(path: str) -> Stored:
    fields = {
        "block_size": 64,
        "n_blocks": N * K // 64,
        "scaler_block_size": 128,
        "quantized_scalers": int8(N * K // 64),
        "quantization_factor": lazy(N * K // 64 // 128),
        "scaler_mean": lazy(),
        "quantized_data": int8(N * K // 2, dtype=torch.uint8),
        "nf4": lazy(16),
    }
    return stored("NF4Tensor", path, **fields)


_MX_13 = {
    "qdata": float8(N, K),
    "_scale_e8m0": _E8M0,
    "_elem_dtype": DType.FLOAT8_E4M3FN,
    "_block_size": 32,
    "_orig_dtype": BF16,
    "_gemm_kernel_choice": member("MXGemmKernelChoice", "CUBLAS"),
    "_pack_fp6": False,
    "act_quant_kwargs": StoredObject(
        "QuantizeTensorToMXKwargs",
        {
            "elem_dtype": DType.FLOAT8_E4M3FN,
            "block_size": 32,
            "scaling_mode": member("ScaleCalculationMode", "FLOOR"),
            "gemm_kernel_choice": member("MXGemmKernelChoice", "EMULATED"),
            "pack_fp6": False,
        },
    ),
}
_MX_FLAT = {"_block_size": 32, "_orig_dtype": BF16, **_BYTES}
_MX_15 = {
    "qdata": float8(N, K),
    "scale": _E8M0,
    "block_size": 32,
    "kernel_preference": member("KernelPreference", "EMULATED"),
    "act_quant_kwargs": StoredObject("QuantizeTensorToMXKwargs", {"is_swizzled_scales": False}),
}
_NV_BYTES = lazy(N, K // 2, dtype=torch.uint8, fill=17)
_NV_SCALE = float8(N, K // 16)
_NV_13 = {
    "qdata": _NV_BYTES,
    "_scale_e4m3": _NV_SCALE,
    "_block_size": 16,
    "_orig_dtype": BF16,
    "_per_tensor_scale": lazy(dtype=torch.float32),
    "_act_per_tensor_scale": None,
    "_is_swizzled_scales": False,
    "use_triton_kernel": False,
    "act_quant_kwargs": StoredObject(
        "QuantizeTensorToNVFP4Kwargs", {"block_size": 16, "is_swizzled_scales": False}
    ),
}
_NV_15 = {
    "qdata": _NV_BYTES,
    "scale": _NV_SCALE,
    "block_size": 16,
    "per_tensor_scale": lazy(dtype=torch.float32),
    "act_per_tensor_scale": None,
    "use_triton_kernel": False,
    "act_quant_kwargs": None,
}
_ZERO_POINT = {"zero_point": lazy(N, 1, dtype=torch.int8, fill=0), "act_quant_zero_point": None}
_FBGEMM = {"scale": lazy(K // G, N), "zero_point": lazy(K // G, N), "group_size": G}
_CODES_PER_BYTE = int8(N, K // 2)
_LATE = {"output_act_quant_scale": None, "output_act_quant_kwargs": None}
_STATIC = {
    "act_quant_scale": lazy(1, 1, dtype=torch.float32),
    "act_quant_kwargs": StoredObject("QuantizeTensorToFloat8Kwargs", {"granularity": PER_TENSOR}),
}
_PER_TENSOR_KWARGS = {**FP8_KWARGS, "activation_granularity": PER_TENSOR}
_BOUNDS = {"hp_value_lb": None, "hp_value_ub": 1.5}
_INT8_SCALES = {"act_quant_scale": None, "act_pre_scale": None}
_WORDS = {"qdata": lazy(N, K // 8, dtype=torch.int32)}
_INT8_ZEROS = lazy(K // G, N, dtype=torch.int8)
_OPAQUE_017 = {"qzeros": None, "compensation": None, "act_mapping_type": None}

FORMS: Mapping[str, tuple[Stored, str, str]] = {
    "AffineQuantizedTensor": (int8_weight(), "Int8TensorLayoutV1", "0.7 to 0.17"),
    "FbgemmFp8Tensor": (
        stored(
            "FbgemmFp8Tensor",
            "torchao.dtypes.fbgemm_fp8_tensor",
            float8_data=float8(N, K),
            scale=lazy(N, dtype=torch.float32),
            activation_scale_ub=lazy(1, dtype=torch.float32),
        ),
        "Float8TensorLayout",
        "0.12 and 0.13",
    ),
    "FbgemmInt4Tensor": (
        stored(
            "FbgemmInt4Tensor",
            "torchao.dtypes.fbgemm_int4_tensor",
            packed_weight=_CODES_PER_BYTE,
            **_FBGEMM,
        ),
        "Int4TensorLayoutV1",
        "0.12",
    ),
    "Float8Tensor 0.13": (_float8(**_BOUNDS), "Float8TensorLayoutV2", "0.13"),
    "Float8Tensor": (_float8(), "Float8TensorLayout", "0.14 and later"),
    "PrototypeFloat8Tensor": (
        _float8("PrototypeFloat8Tensor", "torchao.prototype", **_STATIC, **_LATE),
        "Float8TensorLayout",
        "0.17 and later",
    ),
    "Int4OpaqueTensor 0.14": (_opaque(_AO), "Int4OpaqueTensorLayoutV2", "0.14"),
    "Int4OpaqueTensor 0.17": (
        _opaque("torchao.prototype.quantization.int4", **_OPAQUE_017),
        "Int4OpaqueTensorLayoutV3",
        "0.17 and later",
    ),
    "Int4PlainInt32Tensor": (
        stored(
            "Int4PlainInt32Tensor",
            _AO,
            **_WORDS,
            scale=lazy(K // G, N),
            zero_point=_INT8_ZEROS,
            block_size=[1, G],
            act_pre_scale=lazy(K),
        ),
        "Int4PlainInt32TensorLayoutV2",
        "0.14 and later",
    ),
    "Int4Tensor 0.13": (_int4(), "Int4TensorLayoutV2", "0.13"),
    "Int4Tensor 0.14": (_int4(**_NONE), "Int4TensorLayoutV3", "0.14 to 0.16"),
    "Int4Tensor 0.17": (
        _int4(**_NONE, activation_dtype=BF16),
        "Int4TensorLayout",
        "0.17 and later",
    ),
    "Int4TilePackedTo4dTensor": (
        stored(
            "Int4TilePackedTo4dTensor",
            _AO,
            qdata=lazy(N // 8, 1024 // 128, 32, 4, dtype=torch.int32),
            scale_and_zero=lazy(1024 // G, N, 2),
            block_size=[1, G],
            **_NONE,
        ),
        "Int4TilePackedTo4dTensorLayoutV2",
        "0.14 and later",
    ),
    "Int8Tensor 0.15": (_int8(), "Int8TensorLayout", "0.15"),
    "Int8Tensor 0.16": (_int8(**_INT8_SCALES), "Int8TensorLayout", "0.16"),
    "Int8Tensor 0.17": (_int8(**_INT8_SCALES, **_ZERO_POINT), "Int8TensorLayout", "0.17"),
    "Int8Tensor 0.18": (
        _int8(**_INT8_SCALES, **_ZERO_POINT, reduce_range=False),
        "Int8TensorLayout",
        "0.18",
    ),
    "IntxUnpackedTensor": (
        _intx("IntxUnpackedTensor"),
        "IntxUnpackedToInt8TensorLayoutV2",
        "0.13",
    ),
    "IntxUnpackedToInt8Tensor": (
        _intx("IntxUnpackedToInt8Tensor", activation_quantization="int8_asym_per_token"),
        "IntxUnpackedToInt8TensorLayout",
        "0.14 and later",
    ),
    "LinearActivationQuantizedTensor": (
        quantized(int8_weight(), "_int8_asymm_per_token_quant"),
        "Int8TensorLayout",
        "0.7 to 0.17",
    ),
    "MXTensor 0.4": (
        _mx(**_MX_FLAT, _scale_e8m0=lazy(N * K // 32, dtype=torch.uint8)),
        "MXTensorLayoutV1",
        "0.4 to 0.9",
    ),
    "MXTensor 0.10": (
        _mx(
            **_MX_FLAT,
            _scale_e8m0=_E8M0.reshape(N * K // 32),
            _use_fp4_custom_triton_dequant_kernel=False,
            _gemm_kernel_choice=member("MXGemmKernelChoice", "EMULATED"),
            _pack_fp6=False,
        ),
        "MXTensorLayoutV2",
        "0.10 and 0.11",
    ),
    "MXTensor 0.12": (
        _mx(
            _data=float8(N, K),
            _elem_dtype=DType.FLOAT8_E4M3FN,
            _block_size=32,
            _orig_dtype=BF16,
            _scale_e8m0=_E8M0,
            _use_fp4_custom_triton_dequant_kernel=False,
            _gemm_kernel_choice=member("MXGemmKernelChoice", "EMULATED"),
            _pack_fp6=False,
        ),
        "MXTensorLayoutV2",
        "0.12",
    ),
    "MXTensor 0.13": (_mx(**_MX_13), "MXTensorLayoutV3", "0.13 and 0.14"),
    "MXTensor 0.15": (
        _mx(
            **_MX_15,
            _elem_dtype=DType.FLOAT8_E4M3FN,
            _orig_dtype=BF16,
            _is_swizzled_scales=False,
        ),
        "MXTensorLayoutV4",
        "0.15",
    ),
    "MXTensor 0.16": (
        _mx(**_MX_15, elem_dtype=DType.FLOAT8_E4M3FN, orig_dtype=BF16, is_swizzled_scales=False),
        "MXTensorLayout",
        "0.16 and later",
    ),
    "NF4Tensor 0.4": (_nf4("torchao.dtypes.nf4tensor"), "NF4TensorLayout", "0.3 to 0.17"),
    "NF4Tensor 0.18": (
        _nf4("torchao.quantization.quantize_.workflows.nf4.nf4_tensor"),
        "NF4TensorLayout",
        "0.18 and later",
    ),
    "NVFP4Tensor 0.12": (
        _nvfp4(
            _data=_NV_BYTES,
            _scale_e4m3=_NV_SCALE,
            _block_size=16,
            _orig_dtype=BF16,
            _per_tensor_scale=None,
            _is_swizzled_scales=False,
            use_triton_kernel=False,
            mm_config=member("NVFP4MMConfig", "WEIGHT_ONLY"),
        ),
        "NVFP4TensorLayoutV1",
        "0.12",
    ),
    "NVFP4Tensor 0.13": (_nvfp4(**_NV_13), "NVFP4TensorLayout", "0.13 and 0.14"),
    "NVFP4Tensor 0.15": (
        _nvfp4(**_NV_15, _orig_dtype=BF16, _is_swizzled_scales=False),
        "NVFP4TensorLayout",
        "0.15",
    ),
    "NVFP4Tensor 0.16": (
        _nvfp4(**_NV_15, orig_dtype=BF16, is_swizzled_scales=False),
        "NVFP4TensorLayout",
        "0.16 and later",
    ),
    "StretchedAffineQuantizedTensor": (
        stretched(),
        "IntxUnpackedToInt8TensorLayoutV1",
        "0.10 to 0.16",
    ),
    "WeightTensorWithLinearActivationQuantizationMetadata": (
        static(
            float8_weight(), "_input_activation_quant_func_fp8", quant_kwargs=_PER_TENSOR_KWARGS
        ),
        "Float8TensorLayoutV1",
        "0.7 to 0.16",
    ),
    "WeightTensorWithLinearActivationScaleMetadata": (
        scaled(int8_weight(), lazy(K)),
        "Int8TensorLayoutV3",
        "0.7 to 0.17",
    ),
    **{name: (chosen(name), "Int8TensorLayout", "0.7 to 0.17") for name in CHOSEN},
}
"""Class name and first release -> the tensor, the layout that it is read as, and its releases."""
