"""Every name of torchao's that a pickle of 0.3 to 0.18 may hold: a closed table, by module.

Nothing is imported by these names. A name that a pickle has and the table has not is refused. What
a tensor means is decided by its class name alone, whichever module it lay in at the time.
"""

from collections.abc import Iterator, Mapping

from qconfig.codec.pickled_values import Role
from qconfig.dialects.torchao.tensors.autoquant_names import CHOSEN
from qconfig.dialects.torchao.tensors.refused_names import REFUSED_NAMES

_Row = tuple[str, str, str]
_DTYPES, _PROTOTYPE = "torchao.dtypes", "torchao.prototype"
_QUANTIZATION, _WORKFLOWS = "torchao.quantization", "torchao.quantization.quantize_.workflows"
_AQT = "torchao.dtypes.affine_quantized_tensor"
_PACKED = "packed_linear_int8_dynamic_activation_intx_weight_layout"

_AUTOQUANT = (
    (f"{_QUANTIZATION}.autoquant", "0.4 to 0.16"),
    (f"{_PROTOTYPE}.quantization.autoquant_v2", "0.7 to 0.16"),
)
_CHOSEN = " ".join(CHOSEN)

# Rows: the module, the releases that wrote the names, and the names.

_TENSORS: tuple[_Row, ...] = (
    (_AQT, "0.3 to 0.17", "AffineQuantizedTensor"),
    (_AQT, "0.3 to 0.6", "PlainAQTLayout TensorCoreTiledAQTLayout"),
    (_AQT, "0.4 to 0.6", "SemiSparseAQTLayout"),
    (_AQT, "0.5 and 0.6", "Float8AQTLayout MarlinSparseAQTLayout"),
    (_AQT, "0.6", "BlockSparseAQTLayout"),
    (f"{_DTYPES}.uintx.Uintx", "0.5", "UintxAQTLayout UintxTensor"),
    (f"{_DTYPES}.uintx.uintx", "0.5 and 0.6", "UintxAQTLayout UintxTensor"),
    (f"{_DTYPES}.fpx.fpx", "0.5", "FpxTensorCoreAQTLayout"),
    (f"{_DTYPES}.floatx.floatx", "0.6", "FloatxTensorCoreAQTLayout"),
    (f"{_DTYPES}.uintx.plain_layout", "0.7 to 0.17", "PlainAQTTensorImpl"),
    (f"{_DTYPES}.uintx.q_dq_layout", "0.10 to 0.16", "QDQTensorImpl"),
    ("torchao.experimental.q_dq_layout", "0.9", "QDQTensorImpl"),
    (f"{_DTYPES}.floatx.float8_layout", "0.7 to 0.16", "Float8AQTTensorImpl"),
    (
        f"{_DTYPES}.uintx.tensor_core_tiled_layout",
        "0.7 to 0.17",
        "TensorCoreTiledAQTTensorImpl Int4CPUAQTTensorImpl",
    ),
    (f"{_DTYPES}.uintx.int4_cpu_layout", "0.8 to 0.16", "Int4CPUAQTTensorImpl"),
    (f"{_DTYPES}.uintx.int4_xpu_layout", "0.11 to 0.16", "Int4XPUAQTTensorImpl"),
    (f"{_DTYPES}.uintx.marlin_sparse_layout", "0.7 to 0.15", "MarlinSparseAQTTensorImpl"),
    (f"{_DTYPES}.uintx.marlin_qqq_tensor", "0.7 to 0.14", "MarlinQQQAQTTensorImpl"),
    (f"{_DTYPES}.uintx.gemlite_layout", "0.7 to 0.14", "GemliteAQTTensorImpl"),
    (f"{_DTYPES}.uintx.semi_sparse_layout", "0.7 to 0.16", "SemiSparseAQTTensorImpl"),
    (f"{_DTYPES}.uintx.block_sparse_layout", "0.7 to 0.14", "BlockSparseAQTTensorImpl"),
    (f"{_DTYPES}.uintx.cutlass_int4_packed_layout", "0.9 to 0.14", "Int4PackedTensorImpl"),
    (f"{_DTYPES}.floatx.cutlass_semi_sparse_layout", "0.10 to 0.16", "CutlassSemiSparseTensorImpl"),
    (
        f"{_DTYPES}.floatx.floatx_tensor_core_layout",
        "0.7 to 0.14",
        "FloatxTensorCoreAQTTensorImpl",
    ),
    (f"{_DTYPES}.uintx.dyn_int8_act_int4_wei_cpu_layout", "0.12 to 0.14", "DA8W4CPUAQTTensorImpl"),
    (
        f"{_DTYPES}.uintx.{_PACKED}",
        "0.10 to 0.16",
        "PackedLinearInt8DynamicActivationIntxWeightAQTTensorImpl",
    ),
    (
        f"torchao.experimental.{_PACKED}",
        "0.9",
        "PackedLinearInt8DynamicActivationIntxWeightAQTTensorImpl",
    ),
    (f"{_DTYPES}.uintx.uintx_layout", "0.7 to 0.14", "UintxAQTTensorImpl UintxTensor"),
    (f"{_DTYPES}.nf4tensor", "0.3 to 0.17", "NF4Tensor"),
    (f"{_DTYPES}.fbgemm_int4_tensor", "0.12", "FbgemmInt4Tensor"),
    (f"{_DTYPES}.fbgemm_fp8_tensor", "0.12 and 0.13", "FbgemmFp8Tensor"),
    (f"{_PROTOTYPE}.dtypes.uintx.marlin_qqq_tensor", "0.15", "MarlinQQQAQTTensorImpl"),
    (f"{_PROTOTYPE}.dtypes.uintx.gemlite_layout", "0.15 and 0.16", "GemliteAQTTensorImpl"),
    (f"{_PROTOTYPE}.dtypes.uintx.block_sparse_layout", "0.15 and 0.16", "BlockSparseAQTTensorImpl"),
    (f"{_PROTOTYPE}.dtypes.uintx.cutlass_int4_packed_layout", "0.15", "Int4PackedTensorImpl"),
    (
        f"{_PROTOTYPE}.dtypes.floatx.floatx_tensor_core_layout",
        "0.15",
        "FloatxTensorCoreAQTTensorImpl",
    ),
    (
        f"{_PROTOTYPE}.dtypes.uintx.dyn_int8_act_int4_wei_cpu_layout",
        "0.15 and 0.16",
        "DA8W4CPUAQTTensorImpl",
    ),
    (f"{_PROTOTYPE}.dtypes.uintx.uintx_layout", "0.15 and 0.16", "UintxAQTTensorImpl UintxTensor"),
    (f"{_PROTOTYPE}.dtypes.uintx.uintx_utils", "0.17", "UintxAQTTensorImpl UintxTensor"),
    (f"{_PROTOTYPE}.mx_formats.mx_tensor", "0.4 and later", "MXTensor"),
    (f"{_PROTOTYPE}.mx_formats.nvfp4_tensor", "0.12 and later", "NVFP4Tensor"),
    (f"{_PROTOTYPE}.int4_opaque_tensor", "0.15 and 0.16", "Int4OpaqueTensor"),
    (f"{_PROTOTYPE}.quantization.int4", "0.17 and later", "Int4OpaqueTensor"),
    (f"{_PROTOTYPE}.float8_opaque_tensor", "0.15 and later", "Float8OpaqueTensor"),
    (
        f"{_PROTOTYPE}.quantization.float8_static_quant.prototype_float8_tensor",
        "0.17 and later",
        "PrototypeFloat8Tensor",
    ),
    (
        f"{_PROTOTYPE}.quantization.codebook.codebook_quantized_tensor",
        "0.8 and later",
        "CodebookQuantizedTensor",
    ),
    (
        f"{_PROTOTYPE}.quantization.codebook_coreml.codebook_quantized_tensor",
        "0.13 and later",
        "CodebookQuantizedTensor",
    ),
    (
        f"{_PROTOTYPE}.quantization.codebook_groupwise.codebook_quantized_tensor",
        "0.14 and later",
        "CodebookQuantizedPackedTensor",
    ),
    (
        f"{_QUANTIZATION}.weight_tensor_linear_activation_quantization",
        "0.5 to 0.17",
        "WeightTensorWithLinearActivationQuantizationMetadata",
    ),
    (
        f"{_QUANTIZATION}.linear_activation_quantized_tensor",
        "0.3 to 0.17",
        "LinearActivationQuantizedTensor",
    ),
    (
        f"{_QUANTIZATION}.linear_activation_scale",
        "0.5 to 0.17",
        "WeightTensorWithLinearActivationScaleMetadata",
    ),
    (
        f"{_QUANTIZATION}.subclass",
        "up to 0.8",
        "Int4WeightOnlyQuantizedLinearWeight Int8DynamicallyQuantizedLinearWeight",
    ),
    (f"{_QUANTIZATION}.subclass", "up to 0.8", "Int8WeightOnlyQuantizedLinearWeight"),
    (_QUANTIZATION, "0.12", "Int4GroupwisePreshuffleTensor"),
    (_QUANTIZATION, "0.13", "IntxUnpackedTensor"),
    (_QUANTIZATION, "0.13 to 0.15", "Int4MarlinSparseTensor"),
    (_QUANTIZATION, "0.14", "Int4OpaqueTensor"),
    (_QUANTIZATION, "0.13 and later", "Float8Tensor Int4PreshuffledTensor Int4Tensor"),
    (
        _QUANTIZATION,
        "0.14 and later",
        "Int4PlainInt32Tensor Int4TilePackedTo4dTensor IntxOpaqueTensor IntxUnpackedToInt8Tensor",
    ),
    (_QUANTIZATION, "0.15 and later", "Int8Tensor"),
    (_QUANTIZATION, "0.16", "PrototypeFloat8Tensor"),
    (f"{_PROTOTYPE}.parq.quant.quant_api", "0.13", "StretchedAffineQuantizedTensor"),
    *((module, releases, _CHOSEN) for module, releases in _AUTOQUANT),
    (f"{_WORKFLOWS}.nf4.nf4_tensor", "0.18 and later", "NF4Tensor"),
    (
        f"{_WORKFLOWS}.float8.sparse_2x4_cutlass_float8_tensor",
        "0.16 and 0.17",
        "Sparse2x4CUTLASSFloat8Tensor",
    ),
    (
        f"{_WORKFLOWS}.float8.float8_sparse_2x4_2d_data_2d_metadata_tensor",
        "0.18 and later",
        "Float8Sparse2x4_2DData2DMetadataTensor",
    ),
    (
        f"{_WORKFLOWS}.float8.float8_sparse_2x4_1d_data_1d_metadata_tensor",
        "0.18 and later",
        "Float8Sparse2x4_1DData1DMetadataTensor",
    ),
)

_OBJECTS: tuple[_Row, ...] = (
    (f"{_DTYPES}.utils", "0.4 to 0.6", "PlainLayoutType"),
    (f"{_DTYPES}.utils", "0.6 to 0.17", "PlainLayout"),
    (_AQT, "0.4 to 0.6", "TensorCoreTiledLayoutType SemiSparseLayoutType"),
    (_AQT, "0.5 and 0.6", "Float8LayoutType MarlinSparseLayoutType"),
    (_AQT, "0.6", "BlockSparseLayoutType"),
    (
        _AQT,
        "0.6",
        "TensorCoreTiledLayout SemiSparseLayout Float8Layout MarlinSparseLayout BlockSparseLayout",
    ),
    (f"{_DTYPES}.uintx.Uintx", "0.5", "UintxLayoutType"),
    (f"{_DTYPES}.uintx.uintx", "0.5 and 0.6", "UintxLayoutType UintxLayout"),
    (f"{_DTYPES}.fpx.fpx", "0.5", "FpxTensorCoreLayoutType"),
    (f"{_DTYPES}.floatx.floatx", "0.6", "FloatxTensorCoreLayoutType FloatxTensorCoreLayout"),
    (f"{_DTYPES}.uintx.q_dq_layout", "0.10 to 0.16", "QDQLayout"),
    ("torchao.experimental.q_dq_layout", "0.9", "QDQLayout"),
    (f"{_DTYPES}.floatx.float8_layout", "0.7 to 0.16", "Float8Layout"),
    (f"{_DTYPES}.uintx.uintx_layout", "0.7 to 0.14", "UintxLayout"),
    (f"{_PROTOTYPE}.dtypes.uintx.uintx_layout", "0.15 and 0.16", "UintxLayout"),
    (f"{_PROTOTYPE}.dtypes.uintx.uintx_utils", "0.17", "UintxLayout"),
    (
        f"{_DTYPES}.uintx.tensor_core_tiled_layout",
        "0.7 to 0.17",
        "TensorCoreTiledLayout Int4CPULayout",
    ),
    (f"{_DTYPES}.uintx.int4_cpu_layout", "0.8 to 0.16", "Int4CPULayout"),
    (f"{_DTYPES}.uintx.int4_xpu_layout", "0.11 to 0.16", "Int4XPULayout"),
    (f"{_DTYPES}.uintx.marlin_sparse_layout", "0.7 to 0.15", "MarlinSparseLayout"),
    (f"{_DTYPES}.uintx.marlin_qqq_tensor", "0.7 to 0.14", "MarlinQQQLayout"),
    (f"{_PROTOTYPE}.dtypes.uintx.marlin_qqq_tensor", "0.15", "MarlinQQQLayout"),
    (f"{_DTYPES}.uintx.gemlite_layout", "0.7 to 0.14", "GemlitePackedLayout"),
    (f"{_PROTOTYPE}.dtypes.uintx.gemlite_layout", "0.15 and 0.16", "GemlitePackedLayout"),
    (f"{_DTYPES}.uintx.semi_sparse_layout", "0.7 to 0.16", "SemiSparseLayout"),
    (f"{_DTYPES}.uintx.block_sparse_layout", "0.7 to 0.14", "BlockSparseLayout"),
    (f"{_PROTOTYPE}.dtypes.uintx.block_sparse_layout", "0.15 and 0.16", "BlockSparseLayout"),
    (f"{_DTYPES}.uintx.cutlass_int4_packed_layout", "0.9 to 0.14", "CutlassInt4PackedLayout"),
    (f"{_PROTOTYPE}.dtypes.uintx.cutlass_int4_packed_layout", "0.15", "CutlassInt4PackedLayout"),
    (f"{_DTYPES}.floatx.cutlass_semi_sparse_layout", "0.10 to 0.16", "CutlassSemiSparseLayout"),
    (f"{_DTYPES}.floatx.floatx_tensor_core_layout", "0.7 to 0.14", "FloatxTensorCoreLayout"),
    (f"{_PROTOTYPE}.dtypes.floatx.floatx_tensor_core_layout", "0.15", "FloatxTensorCoreLayout"),
    (
        f"{_DTYPES}.uintx.dyn_int8_act_int4_wei_cpu_layout",
        "0.12 to 0.14",
        "Int8DynamicActInt4WeightCPULayout",
    ),
    (
        f"{_PROTOTYPE}.dtypes.uintx.dyn_int8_act_int4_wei_cpu_layout",
        "0.15 and 0.16",
        "Int8DynamicActInt4WeightCPULayout",
    ),
    (
        f"{_DTYPES}.uintx.{_PACKED}",
        "0.10 to 0.16",
        "PackedLinearInt8DynamicActivationIntxWeightLayout",
    ),
    (
        f"torchao.experimental.{_PACKED}",
        "0.9",
        "PackedLinearInt8DynamicActivationIntxWeightLayout",
    ),
    (f"{_WORKFLOWS}.int8.int8_tensor", "0.15 and later", "QuantizeTensorToInt8Kwargs"),
    (f"{_WORKFLOWS}.float8.float8_tensor", "0.13 and later", "QuantizeTensorToFloat8Kwargs"),
    (f"{_PROTOTYPE}.mx_formats.mx_tensor", "0.13 and later", "QuantizeTensorToMXKwargs"),
    (f"{_PROTOTYPE}.mx_formats.nvfp4_tensor", "0.13 and later", "QuantizeTensorToNVFP4Kwargs"),
    (f"{_QUANTIZATION}.observer", "0.5 and 0.6", "PerTensor PerAxis PerGroup PerRow PerToken"),
    (
        f"{_QUANTIZATION}.granularity",
        "0.7 and later",
        "PerTensor PerAxis PerGroup PerRow PerToken PerBlock",
    ),
    ("torchao.float8.inference", "0.5 and later", "Float8MMConfig"),
    (f"{_PROTOTYPE}.smoothquant.api", "0.5 to 0.13", "_ActQuantizer"),
)

_ENUMS: tuple[_Row, ...] = (
    (f"{_QUANTIZATION}.quant_primitives", "0.3 to 0.17", "ZeroPointDomain"),
    (f"{_QUANTIZATION}.quant_primitives", "0.3 and later", "MappingType"),
    (f"{_QUANTIZATION}.quantize_.common.kernel_preference", "0.13 and later", "KernelPreference"),
    (f"{_PROTOTYPE}.mx_formats.config", "0.9 to 0.14", "MXGemmKernelChoice"),
    (f"{_PROTOTYPE}.mx_formats.mx_tensor", "0.9 to 0.12", "ScaleCalculationMode"),
    (f"{_PROTOTYPE}.mx_formats.config", "0.13 and later", "ScaleCalculationMode"),
    (f"{_PROTOTYPE}.mx_formats.nvfp4_tensor", "0.12", "NVFP4MMConfig"),
    (f"{_WORKFLOWS}.intx.intx_packing_format", "0.14 and later", "IntxPackingFormat"),
    (
        f"{_WORKFLOWS}.intx.intx_unpacked_to_int8_tensor",
        "0.14 and later",
        "IntxUnpackedToInt8TensorActivationQuantization",
    ),
    (f"{_WORKFLOWS}.float8.float8_packing_format", "0.16 and later", "Float8PackingFormat"),
    (f"{_WORKFLOWS}.int4.int4_packing_format", "0.14 and later", "Int4PackingFormat"),
    (f"{_QUANTIZATION}.quantize_.common.packing_format", "0.13 and later", "PackingFormat"),
    (f"{_DTYPES}.uintx.{_PACKED}", "0.10 to 0.16", "Target"),
    (f"torchao.experimental.{_PACKED}", "0.9", "Target"),
)

_FUNCTIONS: tuple[_Row, ...] = (
    (
        f"{_QUANTIZATION}.quant_api",
        "0.5 to 0.17",
        "_int8_symm_per_token_reduced_range_quant _int8_asymm_per_token_quant",
    ),
    (f"{_QUANTIZATION}.quant_api", "0.5", "_input_quant_func_dyanmic_fp8"),
    (f"{_QUANTIZATION}.quant_api", "0.5 to 0.16", "_input_activation_quant_func_fp8"),
    (
        f"{_QUANTIZATION}.quant_api",
        "0.7 to 0.17",
        "_int8_symm_per_token_quant _int8_symm_per_token_reduced_range_quant_noop_decode",
    ),
    (f"{_QUANTIZATION}.quant_api", "0.12 to 0.17", "_uint8_asymm_per_token_quant"),
    (
        f"{_QUANTIZATION}.quant_api",
        "0.8 and 0.9",
        "_int8_symm_per_token_reduced_range_quant_cutlass _int4_symm_per_token_quant_cutlass",
    ),
    (
        f"{_QUANTIZATION}.quant_api",
        "0.10 to 0.16",
        "_int8_symm_cutlass_quant _int4_symm_cutlass_quant",
    ),
    (
        f"{_QUANTIZATION}.quant_api",
        "0.10 to 0.16",
        "_float8_cutlass_quant _float8_cutlass_quant_sparse",
    ),
    (f"{_PROTOTYPE}.mx_formats.mx_subclass", "0.12", "_input_activation_quant_func_mxfp"),
    (f"{_QUANTIZATION}.autoquant", "0.5 to 0.16", "_to_bfloat16 _to_float16 _identity"),
    (
        f"{_PROTOTYPE}.smoothquant.api",
        "0.5 to 0.13",
        "_ActQuantizer.dynamic_quantize _ActQuantizer.static_quantize",
    ),
)


def _rows() -> Iterator[tuple[str, Role, str]]:
    tables = (
        (Role.TENSOR, _TENSORS),
        (Role.OBJECT, _OBJECTS),
        (Role.ENUM, _ENUMS),
        (Role.FUNCTION, _FUNCTIONS),
        *REFUSED_NAMES,
    )
    for role, rows in tables:
        for module, releases, names in rows:
            for name in names.split():
                yield f"{module}.{name}", role, releases


NAMES: Mapping[str, Role] = {path: role for path, role, _ in _rows()}
"""Module and name -> what the name stands for."""

_RELEASES: Mapping[str, str] = {path: releases for path, _, releases in _rows()}


def releases_of(path: str | None) -> str | None:
    """Return the releases that wrote a name, or None if it is not in the table."""
    return None if path is None else _RELEASES.get(path)
