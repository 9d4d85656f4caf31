"""Float8DynamicActivationInt4WeightConfig: packing_format (1), then int4_packing_format (2).

| ours | torchao releases | fields |
|---|---|---|
| 1 | 0.13 | packing_format |
| 2 | 0.14 and later | int4_packing_format |

Their default is PRESHUFFLED; that of our current version is PLAIN, which is built here.
"""

from attrs import frozen

from qconfig.configs.choices import Int4PackingFormat
from qconfig.configs.int4 import Float8DynamicActivationInt4WeightConfig
from qconfig.errors import MigrationError
from qconfig.versioning import Config, attribute, migration, register_config

from .torchao_values import PackingFormatV1


@register_config("Float8DynamicActivationInt4WeightConfig", 1)
@frozen
class Float8DynamicActivationInt4WeightConfigV1(Config):
    """Int4 weights and float8 activations as torchao 0.13 wrote them."""

    packing_format: PackingFormatV1 = attribute(
        "How codes lie.", default=PackingFormatV1.PRESHUFFLED
    )


@migration()
def rename_packing_format(
    old: Float8DynamicActivationInt4WeightConfigV1,
) -> Float8DynamicActivationInt4WeightConfig:
    """Take the new name; refuse formats that torchao took and never built."""
    if old.packing_format not in (PackingFormatV1.PLAIN, PackingFormatV1.PRESHUFFLED):
        raise MigrationError(
            "int4 weights for float8 activations never had this packing format",
            pointer="/packing_format",
            found=old.packing_format.value,
            expected="PLAIN or PRESHUFFLED",
        )
    return Float8DynamicActivationInt4WeightConfig(Int4PackingFormat(old.packing_format.value))
