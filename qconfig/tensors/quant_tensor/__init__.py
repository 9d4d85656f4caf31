"""Fake-quantized tensors: differentiable values with the metadata of their quantization."""

from qconfig.tensors.quant_tensor.base import QuantTensor
from qconfig.tensors.quant_tensor.float_quant import FloatQuantTensor
from qconfig.tensors.quant_tensor.groupwise_float_quant import GroupwiseFloatQuantTensor
from qconfig.tensors.quant_tensor.groupwise_int_quant import GroupwiseIntQuantTensor
from qconfig.tensors.quant_tensor.int_quant import IntQuantTensor

__all__ = [
    "FloatQuantTensor",
    "GroupwiseFloatQuantTensor",
    "GroupwiseIntQuantTensor",
    "IntQuantTensor",
    "QuantTensor",
]
