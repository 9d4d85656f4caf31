"""`SketchLayout`: version 1 had a scale without dimensions, version 2 has one of shape (1, 1)."""

from typing import Any

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorValue
from qconfig.versioning import Layout, attribute, migration, register_layout, tensor


@register_layout("SketchLayout", 1)
@frozen
class SketchLayoutV1(Layout):
    """Int8 codes with one scale."""

    codes: TensorValue = tensor("Codes.", "int8", "N K")
    scale: TensorValue = tensor("The scale.", "float32", "")
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)


@register_layout("SketchLayout", 2)
@frozen
class SketchLayout(Layout):
    """Int8 codes with one scale that keeps its dimensions."""

    qdata: TensorValue = tensor("Codes.", "int8", "*B N K")
    scale: TensorValue = tensor("The scale.", "float32", "1 1")
    dtype: DType = attribute("Element type that the tensor shows.", converter=DType.parse)


@migration()
def keep_dimensions(old: SketchLayoutV1) -> SketchLayout:
    """Rename the codes and give the scale its dimensions."""
    scale: Any = old.scale
    return SketchLayout(old.codes, scale.reshape(1, 1), old.dtype)
