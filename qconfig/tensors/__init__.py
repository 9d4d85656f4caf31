"""Tensor subclasses that layouts drive."""

from qconfig.tensors import int8_ops as int8_ops
from qconfig.tensors import int8_view_ops as int8_view_ops
from qconfig.tensors.activation_scaling import SupportsActivationScaling
from qconfig.tensors.base import PackedTensor
from qconfig.tensors.classes import check_values, tensor_class_of, tensor_classes
from qconfig.tensors.int8 import Int8Tensor

__all__ = [
    "Int8Tensor",
    "PackedTensor",
    "SupportsActivationScaling",
    "check_values",
    "tensor_class_of",
    "tensor_classes",
]
