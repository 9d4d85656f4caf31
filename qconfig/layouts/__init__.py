"""Current tensor-layout classes, one family a file."""

from qconfig.layouts.activation import QuantizeTensorToInt8Kwargs
from qconfig.layouts.float8 import Float8TensorLayout
from qconfig.layouts.int4 import Int4TensorLayout
from qconfig.layouts.int8 import Int8TensorLayout
from qconfig.layouts.intx import IntxUnpackedToInt8TensorLayout
from qconfig.layouts.intx_static import IntxStaticActivationTensorLayout
from qconfig.layouts.mx import MXTensorLayout
from qconfig.layouts.nvfp4 import NVFP4TensorLayout

__all__ = [
    "Float8TensorLayout",
    "Int4TensorLayout",
    "Int8TensorLayout",
    "IntxStaticActivationTensorLayout",
    "IntxUnpackedToInt8TensorLayout",
    "MXTensorLayout",
    "NVFP4TensorLayout",
    "QuantizeTensorToInt8Kwargs",
]
