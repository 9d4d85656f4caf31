"""Float8WeightOnlyConfig: AffineQuantizedTensor, then Float8Tensor, then granularity.

| ours | torchao releases | its `_version` | fields |
|---|---|---|---|
| 1 | 0.10 to 0.12; later on request | 1 | weight_dtype, set_inductor_config |
| 2 | 0.13 to 0.17 | 2 | the same |
| 3 | 0.18 | 1 and 2 | granularity beside them |
"""

from attrs import frozen

from qconfig.codec.dtypes import DType
from qconfig.configs.float8 import FLOAT8, Float8WeightOnlyConfig
from qconfig.configs.supported import check_supported
from qconfig.versioning import Config, attribute, migration, register_config

_WEIGHT_DTYPE = "Element type of the codes, float8_e4m3fn or float8_e5m2."
_SWITCH = "A switch of torchao's."


@register_config("Float8WeightOnlyConfig", 1)
@frozen
class Float8WeightOnlyConfigV1(Config):
    """Float8 weights with a scale a row as torchao wrote them under 1."""

    weight_dtype: DType = attribute(
        _WEIGHT_DTYPE, default=DType.FLOAT8_E4M3FN, converter=DType.parse
    )
    set_inductor_config: bool = attribute(_SWITCH, default=True)

    def __attrs_post_init__(self) -> None:
        """Check the element type. Raises FieldError."""
        check_supported(self.weight_dtype, "weight_dtype", FLOAT8)


@register_config("Float8WeightOnlyConfig", 2)
@frozen
class Float8WeightOnlyConfigV2(Config):
    """Float8 weights with a scale a row as torchao 0.13 to 0.17 wrote them."""

    weight_dtype: DType = attribute(
        _WEIGHT_DTYPE, default=DType.FLOAT8_E4M3FN, converter=DType.parse
    )
    set_inductor_config: bool = attribute(_SWITCH, default=True)

    def __attrs_post_init__(self) -> None:
        """Check the element type. Raises FieldError."""
        check_supported(self.weight_dtype, "weight_dtype", FLOAT8)


@migration()
def use_float8_tensor(old: Float8WeightOnlyConfigV1) -> Float8WeightOnlyConfigV2:
    """Keep all: only torchao's tensor class changed."""
    return Float8WeightOnlyConfigV2(
        weight_dtype=old.weight_dtype, set_inductor_config=old.set_inductor_config
    )


@migration()
def add_granularity(old: Float8WeightOnlyConfigV2) -> Float8WeightOnlyConfig:
    """Say a scale a row as PerRow."""
    return Float8WeightOnlyConfig(
        weight_dtype=old.weight_dtype, set_inductor_config=old.set_inductor_config
    )
