"""How activations are quantized on the way into a linear: attributes that layouts carry."""

from attrs import frozen

from qconfig.configs.choices import MappingType
from qconfig.configs.granularity import Granularity
from qconfig.versioning import attribute, register_value


@register_value("QuantizeTensorToInt8Kwargs")
@frozen
class QuantizeTensorToInt8Kwargs:
    """Dynamic or static int8 quantization of activations, as torchao's class of that name."""

    granularity: Granularity = attribute("Which activations share a scale.")
    mapping_type: MappingType = attribute(
        "Symmetric or asymmetric codes.", default=MappingType.SYMMETRIC
    )
    reduce_range: bool = attribute("Whether codes use 7 of the 8 bits.", default=False)
