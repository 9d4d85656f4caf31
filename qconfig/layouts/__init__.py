"""Current tensor-layout classes, one family a file."""

from qconfig.layouts.activation import QuantizeTensorToInt8Kwargs
from qconfig.layouts.float8 import Float8TensorLayout
from qconfig.layouts.float_quant import FloatQuantTensorLayout
from qconfig.layouts.floatx import FloatxTensorLayout
from qconfig.layouts.groupwise_quant import (
    GroupwiseFloatQuantTensorLayout,
    GroupwiseIntQuantTensorLayout,
)
from qconfig.layouts.int4 import Int4TensorLayout
from qconfig.layouts.int8 import Int8TensorLayout
from qconfig.layouts.int_quant import IntQuantTensorLayout
from qconfig.layouts.intx import IntxUnpackedToInt8TensorLayout
from qconfig.layouts.intx_static import IntxStaticActivationTensorLayout
from qconfig.layouts.mx import MXTensorLayout
from qconfig.layouts.nf4 import NF4TensorLayout
from qconfig.layouts.nvfp4 import NVFP4TensorLayout
from qconfig.layouts.uintx import UintxTensorLayout

__all__ = [
    "Float8TensorLayout",
    "FloatQuantTensorLayout",
    "FloatxTensorLayout",
    "GroupwiseFloatQuantTensorLayout",
    "GroupwiseIntQuantTensorLayout",
    "Int4TensorLayout",
    "Int8TensorLayout",
    "IntQuantTensorLayout",
    "IntxStaticActivationTensorLayout",
    "IntxUnpackedToInt8TensorLayout",
    "MXTensorLayout",
    "NF4TensorLayout",
    "NVFP4TensorLayout",
    "QuantizeTensorToInt8Kwargs",
    "UintxTensorLayout",
]
