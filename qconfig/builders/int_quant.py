"""Builder of weights that are fake-quantized to integers."""

from typing import ClassVar

from qconfig.builders.base import Target, register_builder
from qconfig.builders.quant_modules import QuantModuleBuilder
from qconfig.builders.quant_weights import QuantWeightBuilder
from qconfig.configs.int_quant import IntQuantConfig
from qconfig.layouts.int_quant import IntQuantTensorLayout


@register_builder(IntQuantConfig)
class IntQuantBuilder(QuantModuleBuilder, QuantWeightBuilder):
    """Gives IntQuantTensors."""

    integers: ClassVar[bool] = True

    def layout(self, config: IntQuantConfig, target: Target) -> IntQuantTensorLayout:
        """Return the layout that `build` would give, with specs in place of tensors.

        Raises:
            FieldError: the axis does not exist.
        """
        return IntQuantTensorLayout(**self.specs(config, target))
