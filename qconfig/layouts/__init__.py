"""Current tensor-layout classes, one family a file."""

from qconfig.configs.choices import MappingType
from qconfig.layouts.activation import QuantizeTensorToInt8Kwargs
from qconfig.layouts.int8 import Int8TensorLayout

__all__ = ["Int8TensorLayout", "MappingType", "QuantizeTensorToInt8Kwargs"]
