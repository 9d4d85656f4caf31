"""How activations are quantized on the way into a linear: attributes that layouts carry."""

from enum import StrEnum

from attrs import frozen

from qconfig.configs.granularity import Granularity
from qconfig.versioning import attribute, register_value


class MappingType(StrEnum):
    """How real values map to codes; names agree with torchao's `MappingType`."""

    SYMMETRIC = "SYMMETRIC"
    SYMMETRIC_NO_CLIPPING_ERR = "SYMMETRIC_NO_CLIPPING_ERR"
    ASYMMETRIC = "ASYMMETRIC"


@register_value("QuantizeTensorToInt8Kwargs")
@frozen
class QuantizeTensorToInt8Kwargs:
    """Dynamic or static int8 quantization of activations, as torchao's class of that name."""

    granularity: Granularity = attribute("Which activations share a scale.")
    mapping_type: MappingType = attribute(
        "Symmetric or asymmetric codes.", default=MappingType.SYMMETRIC
    )
    reduce_range: bool = attribute("Whether codes use 7 of the 8 bits.", default=False)
