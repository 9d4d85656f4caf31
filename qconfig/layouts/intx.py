"""Layout of the intx family, current version: codes of 1 to 8 bits, one an int8."""

from enum import StrEnum
from typing import Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.configs.choices import IntxChooseQParamsAlgorithm, MappingType
from qconfig.configs.intx import INTX
from qconfig.errors import FieldError, LayoutError
from qconfig.layouts.activation import Int8Arithmetic, Int8Product
from qconfig.layouts.blocks import check_qparams
from qconfig.layouts.shown_dtype import check_shown_dtype
from qconfig.versioning import Layout, attribute, register_layout, tensor


class ActivationQuantization(StrEnum):
    """How `linear` quantizes its activation; torchao stores the first of these strings."""

    INT8_ASYM_PER_TOKEN = "int8_asym_per_token"  # noqa: S105 (no secret)
    INT8_SYM_PER_TOKEN = "int8_sym_per_token"  # noqa: S105 (no secret)
    INT4_SYM_PER_TOKEN = "int4_sym_per_token"  # noqa: S105 (no secret)
    """Scales in float32, as of torchao's `_int4_symm_cutlass_quant`."""
    UINT8_ASYM_PER_TOKEN = "uint8_asym_per_token"  # noqa: S105 (no secret)
    """Scales in float32, as of torchao's `_uint8_asymm_per_token_quant`; less their zero points,
    codes are also those of its `_int8_asymm_per_token_quant`."""


_WITH_ARITHMETIC = (
    ActivationQuantization.INT8_ASYM_PER_TOKEN,
    ActivationQuantization.INT8_SYM_PER_TOKEN,
)


@register_layout("IntxUnpackedToInt8TensorLayout", 3)
@frozen
class IntxUnpackedToInt8TensorLayout(Layout):
    """Codes of 1 to 8 bits, one an int8: torchao's IntxUnpackedToInt8Tensor since 0.14.

    A value is `(qdata - zero_point) * scale`, each block with its own scale and zero point.
    """

    qdata: TensorValue = tensor("Codes, within the range of target_dtype.", "int8", "*B N K")
    scale: TensorValue = tensor("One scale a block: (N, K/g).", "float", "*S _ _")
    target_dtype: DType = attribute(
        "Integer type, int1 to int8, whose range the codes keep to.", converter=DType.parse
    )
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension of qdata.", min_length=2
    )
    dtype: DType = attribute(
        "Element type that the tensor shows and dequantizes to.", converter=DType.parse
    )
    zero_point: TensorValue | None = tensor(
        "Code of the real value zero, shaped like scale; stretched codes have -0.5.",
        ("int8", "float"),
        "*S _ _",
        default=None,
    )
    act_pre_scale: TensorValue | None = tensor(
        "Factor by which the activation is multiplied before it is quantized.",
        "float",
        "*P K",
        default=None,
        added=True,
    )
    activation_quantization: ActivationQuantization | None = attribute(
        "How linear quantizes its activation; null leaves it as it is.", default=None, kw_only=True
    )
    arithmetic: Int8Arithmetic | None = attribute(
        "How linear computes with quantized activations, which is by their values; null is as "
        "torchao 0.18 does, with fewer roundings.",
        default=None,
        kw_only=True,
        added=True,
        incidental=True,
    )

    def check_relations(self) -> None:
        """Check the integer type, that scales have one entry per block, and the arithmetic."""
        check_intx(self)
        if self.arithmetic is None:
            return
        if self.activation_quantization not in _WITH_ARITHMETIC:
            raise LayoutError(
                "an arithmetic is there, but no int8 activations of a token that it is for",
                pointer="/arithmetic",
                found=self.activation_quantization and self.activation_quantization.value,
                expected="activation_quantization int8_asym_per_token or int8_sym_per_token",
            )
        if self.arithmetic.product is not Int8Product.VALUES:
            raise LayoutError(
                "codes of activations are not multiplied with codes of fewer bits",
                pointer="/arithmetic/product",
                found=self.arithmetic.product.value,
                expected=Int8Product.VALUES.value,
            )


def check_intx(layout: Any) -> None:
    """Check target type, block size, scale, zero point and shown dtype of an intx layout.

    Raises:
        LayoutError: naming the field.
    """
    check_shown_dtype(layout.dtype)
    code_range(layout.target_dtype)
    check_qparams(tuple(layout.qdata.shape), layout.block_size, layout.scale, layout.zero_point)


def code_range(target_dtype: DType) -> tuple[int, int]:
    """Return the smallest and the largest code of int1 to int8: -2**(b-1) and 2**(b-1) - 1.

    Raises:
        LayoutError: any other type.
    """
    if target_dtype not in INTX:
        raise LayoutError(
            "target_dtype is not a signed integer type of 1 to 8 bits",
            pointer="/target_dtype",
            found=target_dtype.value,
            expected="int1, int2, int3, int4, int5, int6, int7 or int8",
        )
    half = 1 << INTX.index(target_dtype)
    return -half, half - 1


def check_mapping(
    mapping_type: MappingType,
    target_dtype: DType,
    algorithm: IntxChooseQParamsAlgorithm,
    name: str = "mapping_type",
) -> None:
    """Check that a mapping exists for an integer type and an algorithm.

    Args:
        mapping_type: how real values map to codes.
        target_dtype: int1 to int8.
        algorithm: how scales are found.
        name: the config's field that says the mapping.

    Raises:
        FieldError: naming the field.
    """
    if mapping_type is MappingType.SYMMETRIC_NO_CLIPPING_ERR and target_dtype is DType.INT1:
        raise FieldError(
            "int1 has no positive code, so that every positive value would be clipped",
            pointer=f"/{name}",
            found=mapping_type.value,
            expected="SYMMETRIC or ASYMMETRIC",
        )
    hqq = algorithm is IntxChooseQParamsAlgorithm.HQQ_SCALE_ONLY
    if hqq and mapping_type is not MappingType.SYMMETRIC:
        raise FieldError(
            "HQQ_SCALE_ONLY finds scales of the symmetric mapping only",
            pointer=f"/{name}",
            found=mapping_type.value,
            expected="SYMMETRIC",
        )
