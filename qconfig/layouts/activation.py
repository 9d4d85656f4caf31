"""How activations are quantized on the way into a linear: attributes that layouts carry."""

from enum import StrEnum

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.configs.choices import MappingType
from qconfig.configs.granularity import Granularity
from qconfig.configs.supported import check_finite, optional_dtype
from qconfig.errors import FieldError
from qconfig.versioning import attribute, register_value


@register_value("QuantizeTensorToInt8Kwargs")
@frozen
class QuantizeTensorToInt8Kwargs:
    """Dynamic or static int8 quantization of activations, as torchao's class of that name."""

    granularity: Granularity = attribute("Which activations share a scale.")
    mapping_type: MappingType = attribute(
        "Symmetric or asymmetric codes.", default=MappingType.SYMMETRIC
    )
    reduce_range: bool = attribute("Whether codes use 7 of the 8 bits.", default=False)


class Int8Product(StrEnum):
    """Where a product of quantized activations and weights is rounded."""

    ROUNDED_SUM = "rounded_sum"
    """The integer sum and the activation's scale are multiplied in the scale's type (float32 for
    float16) and rounded to the result's type before the weight's scale comes."""
    SCALE_TYPE = "scale_type"
    """The same, rounded to the type of the activation's scale."""
    VALUES = "values"
    """Codes of the activation become values of its type, which meet those of the weight."""


@register_value("Int8Arithmetic")
@frozen
class Int8Arithmetic:
    """How `linear` makes int8 activations and multiplies them, where an older torchao did it.

    Scales of dynamic activations are chosen in the activation's type.
    """

    product: Int8Product = attribute("Where the product is rounded.")
    least_code: int = attribute(
        "Smallest code of an activation.", default=-128, minimum=-128, maximum=-127
    )
    least_scale: float | None = attribute(
        "Smallest scale that is chosen; null is the epsilon of the activation's type.",
        default=None,
        minimum=0.0,
    )
    scale_dtype: DType | None = attribute(
        "Type that a chosen scale takes, float32 or float64; null leaves it.",
        default=None,
        converter=optional_dtype,
    )
    rounds_scaled: bool = attribute(
        "Whether the activation times act_pre_scale is rounded to the activation's type before it "
        "is quantized.",
        default=False,
    )
    skips_single_tokens: bool = attribute(
        "Whether activations (B, 1, K) stay as they are.", default=False
    )

    def __attrs_post_init__(self) -> None:
        """Check the smallest scale and the type of scales. Raises FieldError."""
        check_finite(self.least_scale, "least_scale")
        if self.scale_dtype not in (None, DType.FLOAT32, DType.FLOAT64):
            raise FieldError(
                "scales do not take this type",
                pointer="/scale_dtype",
                found=self.scale_dtype.value,
                expected="float32, float64 or null",
            )
