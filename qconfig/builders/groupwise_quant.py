"""Builders of weights that are fake-quantized in groups."""

from typing import ClassVar

from qconfig.builders.base import Target, register_builder
from qconfig.builders.quant_modules import QuantModuleBuilder
from qconfig.builders.quant_weights import QuantWeightBuilder, group_fields
from qconfig.configs.groupwise_quant import GroupwiseFloatQuantConfig, GroupwiseIntQuantConfig
from qconfig.layouts.groupwise_quant import (
    GroupwiseFloatQuantTensorLayout,
    GroupwiseIntQuantTensorLayout,
)


@register_builder(GroupwiseIntQuantConfig)
class GroupwiseIntQuantBuilder(QuantModuleBuilder, QuantWeightBuilder):
    """Gives GroupwiseIntQuantTensors."""

    integers: ClassVar[bool] = True

    def layout(
        self, config: GroupwiseIntQuantConfig, target: Target
    ) -> GroupwiseIntQuantTensorLayout:
        """Return the layout that `build` would give, with specs in place of tensors.

        Raises:
            FieldError: the groups' dimension does not exist.
        """
        fields = self.specs(config, target) | group_fields(config, target)
        return GroupwiseIntQuantTensorLayout(**fields)


@register_builder(GroupwiseFloatQuantConfig)
class GroupwiseFloatQuantBuilder(QuantModuleBuilder, QuantWeightBuilder):
    """Gives GroupwiseFloatQuantTensors."""

    integers: ClassVar[bool] = False

    def layout(
        self, config: GroupwiseFloatQuantConfig, target: Target
    ) -> GroupwiseFloatQuantTensorLayout:
        """Return the layout that `build` would give, with specs in place of tensors.

        Raises:
            FieldError: the groups' dimension does not exist.
        """
        fields = self.specs(config, target) | group_fields(config, target)
        return GroupwiseFloatQuantTensorLayout(**fields)
