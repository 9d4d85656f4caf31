"""Tensor subclasses that layouts drive."""

from qconfig.tensors.activation_scaling import SupportsActivationScaling
from qconfig.tensors.base import PackedTensor
from qconfig.tensors.classes import check_values, tensor_class_of
from qconfig.tensors.int8 import Int8Tensor
from qconfig.versioning.modules import import_modules

__all__ = [
    "Int8Tensor",
    "PackedTensor",
    "SupportsActivationScaling",
    "check_values",
    "tensor_class_of",
]

# Classes register themselves, and their operators lie in modules of their own.
import_modules(__name__)
