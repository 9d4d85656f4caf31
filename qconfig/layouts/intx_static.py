"""Layout of codes of 1 to 8 bits whose activations have scales that were found beforehand."""

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.errors import LayoutError
from qconfig.layouts.intx import check_intx
from qconfig.versioning import Layout, attribute, register_layout, tensor


@register_layout("IntxStaticActivationTensorLayout", 1)
@frozen
class IntxStaticActivationTensorLayout(Layout):
    """Codes of 1 to 8 bits, one an int8, with static int8 quantization of activations.

    A value is `(qdata - zero_point) * scale`, each block with its own scale and zero point. Of an
    activation, `(clamp(round(x / act_quant_scale) + act_quant_zero_point, -128, 127) -
    act_quant_zero_point) * act_quant_scale` is multiplied; the result of the product and its bias
    is treated alike if there is an output_act_quant_scale.
    """

    qdata: TensorValue = tensor("Codes, within the range of target_dtype.", "int8", "*B N K")
    scale: TensorValue = tensor("One scale a block: (N, K/g).", "float", "*S _ _")
    act_quant_scale: TensorValue = tensor(
        "Static scale of the activation: (1) for all of it, (K) per input channel.", "float", "A"
    )
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
        "Code of the real value zero, shaped like scale; null stands for 0.",
        "int8",
        "*S _ _",
        default=None,
    )
    act_quant_zero_point: TensorValue | None = tensor(
        "Static zero point of the activation, shaped like its scale; null stands for 0.",
        "int8",
        "A",
        default=None,
    )
    output_act_quant_scale: TensorValue | None = tensor(
        "Static scale of the output: (1) for all of it, (N) per output channel.",
        "float",
        "O",
        default=None,
    )
    output_act_quant_zero_point: TensorValue | None = tensor(
        "Static zero point of the output, shaped like its scale; null stands for 0.",
        "int8",
        "O",
        default=None,
    )
    weight_sums: TensorValue | None = tensor(
        "Sum of the codes of each row, (N, 1), which zero points of activations are multiplied by; "
        "null has it computed when it is needed.",
        "int32",
        "*S _ _",
        default=None,
    )

    def check_relations(self) -> None:
        """Check the weight as an intx one, and that scales of activations fit its dimensions."""
        check_intx(self)
        shape = tuple(self.qdata.shape)
        _check_vector("act_quant_scale", self.act_quant_scale, "K", shape[-1])
        if self.output_act_quant_scale is not None:
            _check_vector("output_act_quant_scale", self.output_act_quant_scale, "N", shape[-2])
        elif self.output_act_quant_zero_point is not None:
            raise LayoutError(
                "output_act_quant_zero_point has no output_act_quant_scale",
                pointer="/output_act_quant_zero_point",
                found=tuple(self.output_act_quant_zero_point.shape),
                expected="null, or a scale of the output",
            )
        if self.weight_sums is not None and not are_sums_of(tuple(self.weight_sums.shape), shape):
            raise LayoutError(
                "weight_sums has not one entry a row",
                pointer="/weight_sums",
                found=tuple(self.weight_sums.shape),
                expected=f"shape {(*shape[:-1], 1)}",
            )


def are_sums_of(sums: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether sums have one entry a row; of a transposed weight, one a column."""
    return sums in ((*shape[:-1], 1), (*shape[:-2], 1, shape[-1]))


def _check_vector(name: str, value: TensorValue, letter: str, size: int) -> None:
    found = tuple(value.shape)
    if found not in ((1,), (size,)):
        raise LayoutError(
            f"{name} is neither per tensor nor per channel",
            pointer=f"/{name}",
            found=found,
            expected=f"shape (1,) or ({letter},) = ({size},)",
        )
