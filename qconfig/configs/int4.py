"""Configs of the int4 family, current versions."""

from attrs import frozen

from qconfig.configs.choices import Int4ChooseQParamsAlgorithm, Int4PackingFormat
from qconfig.configs.supported import check_supported, choice_of
from qconfig.versioning import Config, attribute, register_config


@register_config("Int4WeightOnlyConfig", 6)
@frozen
class Int4WeightOnlyConfig(Config):
    """Int4 weights, two a byte, with a scale and a zero point for each group of a row.

    Served are linear weights whose K is divided by the group size, in the packing format PLAIN;
    TILE_PACKED_TO_4D, which torchao asks for with HQQ, says how torchao lays out the same codes.
    """

    group_size: int = attribute(
        "Weights of a row that share a scale and a zero point.",
        default=128,
        minimum=1,
        maximum=2**31 - 1,
    )
    set_inductor_config: bool = attribute(
        "A switch of torchao's, carried so that a document returns to torchao unchanged.",
        default=True,
    )
    int4_packing_format: Int4PackingFormat = attribute(
        "How torchao lays out the codes.",
        default=Int4PackingFormat.PLAIN,
        converter=choice_of(Int4PackingFormat),
        incidental=True,
    )
    int4_choose_qparams_algorithm: Int4ChooseQParamsAlgorithm = attribute(
        "How scales and zero points are found.",
        default=Int4ChooseQParamsAlgorithm.TINYGEMM,
        converter=choice_of(Int4ChooseQParamsAlgorithm),
    )
    int4_tile_packed_ntile: int = attribute(
        "Rows of a tile under TILE_PACKED_TO_4D: 8, or 16 on ROCm.",
        default=8,
        minimum=8,
        maximum=16,
    )

    def __attrs_post_init__(self) -> None:
        """Check the size of a tile. Raises FieldError."""
        check_supported(self.int4_tile_packed_ntile, "int4_tile_packed_ntile", (8, 16))


@register_config("Float8DynamicActivationInt4WeightConfig", 2)
@frozen
class Float8DynamicActivationInt4WeightConfig(Config):
    """Int4 weights in groups of 128, and activations that are quantized to float8 row by row.

    Served are linear weights whose K is divided by 128 or below it, in the packing format PLAIN.
    torchao's default is PRESHUFFLED, which only its CUDA kernel reads.
    """

    int4_packing_format: Int4PackingFormat = attribute(
        "How torchao lays out the codes: PLAIN or PRESHUFFLED.",
        default=Int4PackingFormat.PLAIN,
        converter=choice_of(Int4PackingFormat),
        incidental=True,
    )

    def __attrs_post_init__(self) -> None:
        """Check the format. Raises FieldError."""
        served = (Int4PackingFormat.PLAIN, Int4PackingFormat.PRESHUFFLED)
        check_supported(self.int4_packing_format, "int4_packing_format", served)
