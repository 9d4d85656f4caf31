"""Modules that quantize weights, biases and activations while a model trains and afterwards.

`Quant*` modules take the place of torch's own, share their parameters, and hold quantizers under
`weight_quant`, `bias_quant`, `input_quant`, `output_quant` and `act_quant`. A quantizer holds state
alone (`threshold`, `zero_point`, `bit_width`, running statistics, the document of its config); the
arithmetic is that of `qconfig.tensors.quantizers`.
"""

from qconfig.modules.activation_quantizer import ActivationQuantizer
from qconfig.modules.activations import QuantIdentity, QuantReLU
from qconfig.modules.bias_quantizer import ExternalBiasQuantizer
from qconfig.modules.conv import QuantConv1d, QuantConv2d
from qconfig.modules.embedding import QuantEmbedding
from qconfig.modules.inference import freeze, to_inference
from qconfig.modules.linear import QuantLinear
from qconfig.modules.metadata_cache import plain_inference, record_metadata
from qconfig.modules.packing import pack
from qconfig.modules.trunc_pool import TruncAdaptiveAvgPool2d, TruncAvgPool2d
from qconfig.modules.weight_quantizer import WeightQuantizer

__all__ = [
    "ActivationQuantizer",
    "ExternalBiasQuantizer",
    "QuantConv1d",
    "QuantConv2d",
    "QuantEmbedding",
    "QuantIdentity",
    "QuantLinear",
    "QuantReLU",
    "TruncAdaptiveAvgPool2d",
    "TruncAvgPool2d",
    "WeightQuantizer",
    "freeze",
    "pack",
    "plain_inference",
    "record_metadata",
    "to_inference",
]
