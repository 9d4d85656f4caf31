"""Tensor subclasses that layouts drive."""

from qconfig.tensors.activation_scaling import SupportsActivationScaling
from qconfig.tensors.base import PackedTensor
from qconfig.tensors.classes import check_values, tensor_class_of
from qconfig.tensors.float8 import Float8Tensor
from qconfig.tensors.floatx import FloatxTensor
from qconfig.tensors.int4 import Int4Tensor
from qconfig.tensors.int8 import Int8Tensor
from qconfig.tensors.intx import IntxUnpackedToInt8Tensor
from qconfig.tensors.intx_static import IntxStaticActivationTensor
from qconfig.tensors.matrix import MatrixTensor
from qconfig.tensors.mx import MXTensor
from qconfig.tensors.nf4 import NF4Tensor
from qconfig.tensors.nvfp4 import NVFP4Tensor
from qconfig.tensors.uintx import UintxTensor
from qconfig.versioning.modules import import_modules

__all__ = [
    "Float8Tensor",
    "FloatxTensor",
    "Int4Tensor",
    "Int8Tensor",
    "IntxStaticActivationTensor",
    "IntxUnpackedToInt8Tensor",
    "MXTensor",
    "MatrixTensor",
    "NF4Tensor",
    "NVFP4Tensor",
    "PackedTensor",
    "SupportsActivationScaling",
    "UintxTensor",
    "check_values",
    "tensor_class_of",
]

# Classes register themselves, and their operators lie in modules of their own.
import_modules(__name__)
