"""Builder of weights that are fake-quantized to small floats."""

from typing import ClassVar

from qconfig.builders.base import Target, register_builder
from qconfig.builders.quant_modules import QuantModuleBuilder
from qconfig.builders.quant_weights import QuantWeightBuilder
from qconfig.configs.float_quant import FloatQuantConfig
from qconfig.layouts.float_quant import FloatQuantTensorLayout


@register_builder(FloatQuantConfig)
class FloatQuantBuilder(QuantModuleBuilder, QuantWeightBuilder):
    """Gives FloatQuantTensors."""

    integers: ClassVar[bool] = False

    def layout(self, config: FloatQuantConfig, target: Target) -> FloatQuantTensorLayout:
        """Return the layout that `build` would give, with specs in place of tensors.

        Raises:
            FieldError: the axis does not exist.
        """
        return FloatQuantTensorLayout(**self.specs(config, target))
