"""Layouts as the tensors that torchao 0.18 flattens: classes, inner tensors, attributes.

What torchao's class has no words for is refused by name; nothing is left out in silence. Attributes
stand in the order in which `flatten_tensor_state_dict` writes them.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.layout_values import present_fields
from qconfig.codec.tensor_values import LazyTensor
from qconfig.configs.float8 import Float8MMConfig
from qconfig.dialects.torchao.safetensors_encode import encoded
from qconfig.dialects.torchao.safetensors_names import PARTS
from qconfig.errors import MigrationError, QconfigError, raise_problems
from qconfig.layouts import (
    Float8TensorLayout,
    GroupwiseIntQuantTensorLayout,
    Int4TensorLayout,
    Int8TensorLayout,
    IntQuantTensorLayout,
    IntxUnpackedToInt8TensorLayout,
    MXTensorLayout,
    NVFP4TensorLayout,
)
from qconfig.layouts.block_scaled import block_dimension
from qconfig.layouts.int4 import packed_dimension
from qconfig.versioning import Layout, registry

if TYPE_CHECKING:
    import torch

_COMPUTED_OTHERWISE = {
    "rounds_products": "its values are rounded once by torchao 0.18, not after the product as well",
    "rounds_scales": "its scales are multiplied by torchao 0.18 without being rounded",
    "arithmetic": "its products are computed by torchao 0.18 in its own way, not in an older one's",
}
"""Fields of layouts that torchao's tensors do not have and that change no stored value."""
_PACKED_BY_MODEL = (IntQuantTensorLayout, GroupwiseIntQuantTensorLayout)
_PACK = (
    "load it into a model, call qconfig.pack(model) and save that: packed weights of Linear and "
    "Embedding have such forms, and convolutions have none"
)
_INTX_FLOATS = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32)


@frozen
class TorchaoTensor:
    """A tensor as torchao flattens it.

    Args:
        type: class name.
        fields: inner tensors, in the order of the class.
        data: attributes as JSON values, in the order in which torchao writes them.
        notes: what torchao 0.18 computes otherwise than the layout says.
    """

    type: str
    fields: dict[str, LazyTensor]
    data: dict[str, Any]
    notes: tuple[str, ...] = ()

    def description(self) -> dict[str, Any]:
        """Return the JSON object that the metadata holds for the tensor."""
        parts = PARTS[self.type]
        names = [n for n in (*parts.optional, *parts.required) if n in self.fields]
        return {"_type": self.type, "_data": self.data, "_tensor_data_names": names}


def to_torchao(layout: Layout) -> TorchaoTensor:
    """Return a layout as the tensor that torchao 0.18 would flatten.

    Zero points that torchao stores always are supplied where the layout has none.

    Args:
        layout: of any version, with lazy tensors in its fields; no data is read.

    Raises:
        MigrationError: torchao flattens no such tensor, or has no words for a field; SeveralErrors
            where there are several such fields.
    """
    current = registry.convert(layout)
    form = _FORMS.get(type(current))
    if form is None:
        name = registry.entry_of(type(current)).name
        raise MigrationError(
            "torchao stores no such tensor in safetensors files",
            found=name,
            expected="one of " + ", ".join(registry.entry_of(cls).name for cls in _FORMS),
            hint=_PACK if isinstance(current, _PACKED_BY_MODEL) else None,
        )
    problems: list[QconfigError] = []
    name, values, data = form(current, problems)
    raise_problems(problems)
    parts = PARTS[name]
    fields = {n: values[n] for n in (*parts.required, *parts.optional) if n in values}
    notes = tuple(t for f, t in _COMPUTED_OTHERWISE.items() if getattr(current, f, None))
    return TorchaoTensor(name, fields, data, notes)


_Problems = list[QconfigError]
_Form = tuple[str, dict[str, LazyTensor], dict[str, Any]]


def _int8(layout: Int8TensorLayout, problems: _Problems) -> _Form:
    kwargs = layout.act_quant_kwargs
    widest = DType.FLOAT32 if kwargs is not None else layout.dtype
    _check_factor(layout.act_pre_scale, layout.dtype, widest, problems)
    data = {
        "act_quant_kwargs": encoded(kwargs, "/act_quant_kwargs", problems),
        "reduce_range": layout.reduce_range,
        "block_size": encoded(layout.block_size),
        "dtype": encoded(layout.dtype),
    }
    return "Int8Tensor", _with_zero_points(layout), data


def _int4(layout: Int4TensorLayout, problems: _Problems) -> _Form:
    if packed_dimension(tuple(layout.qdata.shape), layout.shape) != len(layout.shape) - 1:
        problems.append(_transposed(layout.qdata.shape))
    if layout.dtype != DType.parse(layout.scale.dtype):
        problems.append(
            MigrationError(
                "torchao's Int4Tensor shows the element type of its scale",
                pointer="/dtype",
                found=layout.dtype.value,
                expected=str(layout.scale.dtype),
            )
        )
    if layout.activation_dtype not in (DType.BFLOAT16, DType.FLOAT8_E4M3FN):
        problems.append(
            MigrationError(
                "torchao's Int4Tensor multiplies activations of other types",
                pointer="/activation_dtype",
                found=layout.activation_dtype.value,
                expected="bfloat16 or float8_e4m3fn",
            )
        )
    _check_factor(layout.act_pre_scale, layout.dtype, layout.dtype, problems)
    data = {
        "activation_dtype": encoded(layout.activation_dtype),
        "block_size": encoded(layout.block_size),
        "shape": encoded(layout.shape),
    }
    return "Int4Tensor", _values(layout), data


def _intx(layout: IntxUnpackedToInt8TensorLayout, problems: _Problems) -> _Form:
    kind = layout.activation_quantization
    if kind is not None and kind.value != "int8_asym_per_token":
        problems.append(_no_words("activation_quantization", kind.value, "int8_asym_per_token"))
    _refuse(layout, ("act_pre_scale",), problems)
    floats = {"dtype": layout.dtype, "scale": DType.parse(layout.scale.dtype)}
    if layout.zero_point is not None and layout.zero_point.dtype != DType.INT8:
        floats["zero_point"] = DType.parse(layout.zero_point.dtype)
    for field, dtype in floats.items():
        if dtype not in _INTX_FLOATS:
            problems.append(_no_words(field, dtype.value, "float16, bfloat16 or float32"))
    data = {
        "target_dtype": encoded(layout.target_dtype),
        "block_size": encoded(layout.block_size),
        "dtype": encoded(layout.dtype),
        "activation_quantization": None if kind is None else kind.value,
    }
    return "IntxUnpackedToInt8Tensor", _with_zero_points(layout), data


def _float8(layout: Float8TensorLayout, problems: _Problems) -> _Form:
    unknown = ("act_quant_scale", "output_act_quant_scale", "act_pre_scale")
    _refuse(layout, (*unknown, "output_act_quant_kwargs"), problems)
    mm_config, kwargs = layout.mm_config, layout.act_quant_kwargs
    if kwargs is not None and mm_config is None:
        # What torchao's config puts there; its product asserts that something is.
        mm_config = Float8MMConfig(use_fast_accum=True)
    data = {
        "block_size": encoded(layout.block_size),
        "mm_config": encoded(mm_config, "/mm_config", problems),
        "act_quant_kwargs": encoded(kwargs, "/act_quant_kwargs", problems),
        "kernel_preference": encoded(layout.kernel_preference),
        "dtype": encoded(layout.dtype),
    }
    return "Float8Tensor", _values(layout), data


def _mx(layout: MXTensorLayout, problems: _Problems) -> _Form:
    _check_rows(layout, 2 if layout.elem_dtype.is_packed else 1, problems)
    data = {
        "elem_dtype": encoded(layout.elem_dtype),
        "block_size": layout.block_size,
        "orig_dtype": encoded(layout.dtype),
        "kernel_preference": encoded(layout.kernel_preference),
        "act_quant_kwargs": encoded(layout.act_quant_kwargs, "/act_quant_kwargs", problems),
        "is_swizzled_scales": layout.is_swizzled_scales,
    }
    return "MXTensor", _values(layout), data


def _nvfp4(layout: NVFP4TensorLayout, problems: _Problems) -> _Form:
    _check_rows(layout, 2, problems)
    values = _values(layout)
    for field in ("per_tensor_scale", "act_per_tensor_scale"):
        scale = values.get(field)
        # torchao has one entry without dimensions, or one for each matrix with three.
        if scale is not None and set(scale.shape) <= {1} and len(scale.shape) != 3:
            values[field] = scale.reshape()
    scale = values.get("per_tensor_scale")
    if scale is not None and len(scale.shape) not in (0, 3):
        problems.append(_no_words("per_tensor_scale", scale.shape, "shape () or (B, 1, 1)"))
    data = {
        "is_swizzled_scales": layout.is_swizzled_scales,
        "use_triton_kernel": layout.use_triton_kernel,
        "act_quant_kwargs": encoded(layout.act_quant_kwargs, "/act_quant_kwargs", problems),
        "block_size": layout.block_size,
        "orig_dtype": encoded(layout.dtype),
    }
    return "NVFP4Tensor", values, data


_FORMS: Mapping[type, Callable[[Any, _Problems], _Form]] = {
    Int8TensorLayout: _int8,
    Int4TensorLayout: _int4,
    IntxUnpackedToInt8TensorLayout: _intx,
    Float8TensorLayout: _float8,
    MXTensorLayout: _mx,
    NVFP4TensorLayout: _nvfp4,
}


def _values(layout: Layout) -> dict[str, LazyTensor]:
    return {field: getattr(layout, field) for field in present_fields(layout)}


def _with_zero_points(layout: Any) -> dict[str, LazyTensor]:
    values = _values(layout)
    if layout.zero_point is None:
        shape = tuple(layout.scale.shape)

        def zeros() -> "torch.Tensor":
            import torch

            return torch.zeros(shape, dtype=torch.int8, device="cpu")

        values["zero_point"] = LazyTensor(DType.INT8, shape, zeros)
    return values


def _check_factor(factor: Any, dtype: DType, widest: DType, problems: _Problems) -> None:
    """Check that torchao's product takes what the activation becomes by its factor.

    It multiplies in the wider of the two types, and an operator then meets two types.
    """
    if factor is None or DType.parse(factor.dtype) in (dtype, widest):
        return
    problems.append(
        MigrationError(
            "torchao's product takes no activation of the type that act_pre_scale gives it",
            pointer="/act_pre_scale",
            found=str(factor.dtype),
            expected=" or ".join(dict.fromkeys((dtype.value, widest.value))),
        )
    )


def _check_rows(layout: Any, per_byte: int, problems: _Problems) -> None:
    scale = None if layout.is_swizzled_scales else tuple(layout.scale.shape)
    shape = tuple(layout.qdata.shape)
    if block_dimension(shape, scale, layout.block_size, per_byte) != len(shape) - 1:
        problems.append(_transposed(shape))


def _transposed(shape: Any) -> MigrationError:
    return MigrationError(
        "torchao stores no transposed tensor: its strides say it, and files have none",
        pointer="/qdata",
        found=tuple(shape),
        expected="blocks along the last dimension",
        hint="transpose the tensor back and save it again",
    )


def _refuse(layout: Layout, fields: tuple[str, ...], problems: _Problems) -> None:
    for field in fields:
        value = getattr(layout, field, None)
        if value is not None:
            problems.append(_no_words(field, _shown(value), "none"))


def _shown(value: Any) -> Any:
    return tuple(value.shape) if isinstance(value, LazyTensor) else value


def _no_words(field: str, found: Any, expected: str) -> MigrationError:
    return MigrationError(
        f"torchao's tensor has no such {field}",
        pointer=f"/{field}",
        found=found,
        expected=expected,
    )
