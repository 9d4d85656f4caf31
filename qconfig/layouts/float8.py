"""Layout of the float8 family, current version. Retired ones lie in `qconfig.migrations`."""

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.configs.choices import KernelPreference
from qconfig.configs.float8 import FLOAT8, Float8MMConfig
from qconfig.configs.granularity import (
    AnyGranularity,
    PerBlock,
    PerGroup,
    PerRow,
    PerTensor,
    PerToken,
)
from qconfig.configs.supported import check_finite, check_supported
from qconfig.errors import LayoutError
from qconfig.layouts.blocks import check_qparams
from qconfig.layouts.shown_dtype import check_shown_dtype
from qconfig.versioning import Layout, attribute, register_layout, register_value, tensor

CODES = ("float8_e4m3fn", "float8_e5m2")
"""Element types of the codes."""
SCALES = ("float16", "bfloat16", "float32")
"""Element types of their scales; the product is taken in float32."""


@register_value("QuantizeTensorToFloat8Kwargs")
@frozen
class QuantizeTensorToFloat8Kwargs:
    """Float8 quantization of activations or outputs, as torchao's class of that name."""

    float8_dtype: DType = attribute(
        "Element type of the codes, float8_e4m3fn or float8_e5m2.",
        default=DType.FLOAT8_E4M3FN,
        converter=DType.parse,
    )
    granularity: AnyGranularity = attribute("Which elements share a scale.", factory=PerRow)
    mm_config: Float8MMConfig | None = attribute(
        "How torchao's product is computed; carried.", default=None
    )
    hp_value_lb: float | None = attribute(
        "Least absolute maximum that scales are made for; null for none.", default=None, minimum=0.0
    )
    hp_value_ub: float | None = attribute(
        "Greatest absolute maximum that scales are made for; null for none.",
        default=None,
        minimum=0.0,
    )
    kernel_preference: KernelPreference = attribute(
        "Which of torchao's kernels to use; carried.", default=KernelPreference.AUTO
    )

    def __attrs_post_init__(self) -> None:
        """Check dtype and bounds. Raises FieldError."""
        check_supported(self.float8_dtype, "float8_dtype", FLOAT8)
        check_finite(self.hp_value_lb, "hp_value_lb")
        check_finite(self.hp_value_ub, "hp_value_ub")

    @property
    def group(self) -> int | None:
        """Elements of a row that share a scale: 0 for all rows together, None for a whole row.

        Raises:
            LayoutError: the granularity does not quantize activations of any batch size.
        """
        kind = self.granularity
        if isinstance(kind, PerTensor):
            return 0
        if isinstance(kind, PerGroup):
            return kind.group_size
        if isinstance(kind, PerBlock) and all(size == 1 for size in kind.block_size[:-1]):
            return kind.block_size[-1]
        if kind in (PerRow(), PerToken()):
            return None
        raise LayoutError(
            "granularity does not quantize activations",
            pointer="/granularity",
            found=kind,
            expected="PerTensor(), PerRow(), PerToken(), PerGroup(...) or PerBlock((1, ...))",
        )


@register_layout("Float8TensorLayout", 3)
@frozen
class Float8TensorLayout(Layout):
    """Float8 codes with a scale per block: torchao's Float8Tensor of 0.14 and later.

    A value is `qdata * scale`, each block with its own scale. The static scales are those of
    torchao's PrototypeFloat8Tensor.
    """

    qdata: TensorValue = tensor("Codes.", CODES, "*B N K")
    scale: TensorValue = tensor(
        "One scale a block: (N, 1) per row, (1, 1) per tensor, (N, K/g) per group, "
        "(N/128, K/128) per tile.",
        SCALES,
        "*S _ _",
    )
    block_size: tuple[int, ...] = attribute(
        "Elements that share a scale, along each dimension of qdata.", min_length=2
    )
    dtype: DType = attribute(
        "Element type that the tensor shows and dequantizes to.", converter=DType.parse
    )
    act_quant_scale: TensorValue | None = tensor(
        "Static scale of the activation, one element.", "float", "*A", default=None
    )
    output_act_quant_scale: TensorValue | None = tensor(
        "Static scale of the output, one element.", "float", "*O", default=None
    )
    act_pre_scale: TensorValue | None = tensor(
        "Factor by which the activation is multiplied before it is quantized.",
        "float",
        "*P K",
        default=None,
    )
    act_quant_kwargs: QuantizeTensorToFloat8Kwargs | None = attribute(
        "How the activation is quantized; null leaves it as it is.", default=None, kw_only=True
    )
    output_act_quant_kwargs: QuantizeTensorToFloat8Kwargs | None = attribute(
        "How the output is quantized and dequantized; null leaves it as it is.",
        default=None,
        kw_only=True,
    )
    mm_config: Float8MMConfig | None = attribute(
        "How torchao's product is computed; carried.", default=None, kw_only=True
    )
    kernel_preference: KernelPreference = attribute(
        "Which of torchao's kernels to use; carried.", default=KernelPreference.AUTO, kw_only=True
    )

    def check_relations(self) -> None:
        """Check blocks, scales, and that static scales go with a way to quantize.

        Raises:
            LayoutError: naming the field.
        """
        check_shown_dtype(self.dtype)
        shape = tuple(self.qdata.shape)
        check_qparams(shape, self.block_size, self.scale, None)
        check_static("act_quant_scale", self.act_quant_scale, self.act_quant_kwargs, shape[-1])
        check_static(
            "output_act_quant_scale",
            self.output_act_quant_scale,
            self.output_act_quant_kwargs,
            shape[-2],
        )


def check_static(
    name: str, scale: TensorValue | None, kwargs: QuantizeTensorToFloat8Kwargs | None, size: int
) -> None:
    """Check how an activation or output with `size` channels is quantized.

    Raises:
        LayoutError: a scale of several elements or without a way to quantize, a static scale for
            another granularity than PerTensor, or groups that do not divide the channels.
    """
    group = None if kwargs is None else kwargs.group
    if group and size % group:
        raise LayoutError(
            "groups of a float8 activation do not divide its channels",
            pointer=f"/{name.replace('_scale', '_kwargs')}",
            found=group,
            expected=f"a divisor of {size}",
        )
    if scale is None:
        return
    if tuple(n for n in scale.shape if n != 1):
        raise LayoutError(
            f"{name} is not one scale",
            pointer=f"/{name}",
            found=tuple(scale.shape),
            expected="one element",
        )
    if group != 0:
        raise LayoutError(
            f"{name} is there, but nothing says that all elements share it",
            pointer=f"/{name}",
            found="no kwargs" if kwargs is None else kwargs.granularity,
            expected="kwargs with granularity PerTensor()",
        )
