"""Int4WeightOnlyConfig: six field sets of torchao under two of its version numbers.

| ours | torchao releases | its `_version` | what was new |
|---|---|---|---|
| 1 | 0.10 | 1 | – |
| 2 | 0.11 and 0.12 | 1 | preserve_zero |
| 3 | 0.13 | 1 and 2 | packing_format |
| 4 | 0.14 and 0.15 | 1 and 2 | int4_packing_format in its place; int4_choose_qparams_algorithm |
| 5 | 0.16 | 2 | only those, and group_size |
| 6 | 0.17 and later | 2 | int4_tile_packed_ntile |

Versions 3 and 4 stand for two of torchao's. Under 1, layout, use_hqq, zero_point_domain and
preserve_zero said what was built, under 2 the packing format and the algorithm; the others lay
beside them without effect. `torchao_version` says which it was.
"""

from enum import StrEnum

from attrs import frozen

from qconfig.configs.choices import (
    Int4ChooseQParamsAlgorithm,
    Int4PackingFormat,
    ZeroPointDomain,
)
from qconfig.configs.int4 import Int4WeightOnlyConfig
from qconfig.errors import MigrationError
from qconfig.versioning import Config, attribute, migration, register_config

from .torchao_values import (
    Int4CPULayout,
    Int4XPULayout,
    MarlinSparseLayout,
    PackingFormatV1,
    TensorCoreTiledLayout,
)

OldLayout = TensorCoreTiledLayout | MarlinSparseLayout | Int4CPULayout | Int4XPULayout

_GROUP = "Weights of a row that share a scale and a zero point."
_LAYOUT = "How codes lie."
_HQQ = "Whether scales and zero points are found by HQQ."
_DOMAIN = "Whether zero points are codes or real values; NONE leaves it to the layout."
_PRESERVE = "Whether zero has a code of its own; null leaves it to the layout."
_SWITCH = "A switch of torchao's."
_TORCHAO = "torchao's own version, which says which of the fields count."


class Int4PackingFormatV1(StrEnum):
    """How torchao 0.14 and 0.15 laid out int4 codes."""

    PLAIN = "PLAIN"
    PRESHUFFLED = "PRESHUFFLED"
    MARLIN_SPARSE = "MARLIN_SPARSE"
    PLAIN_INT32 = "PLAIN_INT32"
    TILE_PACKED_TO_4D = "TILE_PACKED_TO_4D"
    OPAQUE = "OPAQUE"


@register_config("Int4WeightOnlyConfig", 1)
@frozen
class Int4WeightOnlyConfigV1(Config):
    """Int4 weights as torchao 0.10 wrote them."""

    group_size: int = attribute(_GROUP, default=128, minimum=1, maximum=2**31 - 1)
    layout: OldLayout = attribute(_LAYOUT, factory=TensorCoreTiledLayout)
    use_hqq: bool = attribute(_HQQ, default=False)
    zero_point_domain: ZeroPointDomain = attribute(_DOMAIN, default=ZeroPointDomain.NONE)
    set_inductor_config: bool = attribute(_SWITCH, default=True)


@register_config("Int4WeightOnlyConfig", 2)
@frozen
class Int4WeightOnlyConfigV2(Config):
    """Int4 weights as torchao 0.11 and 0.12 wrote them."""

    group_size: int = attribute(_GROUP, default=128, minimum=1, maximum=2**31 - 1)
    layout: OldLayout = attribute(_LAYOUT, factory=TensorCoreTiledLayout)
    use_hqq: bool = attribute(_HQQ, default=False)
    zero_point_domain: ZeroPointDomain = attribute(_DOMAIN, default=ZeroPointDomain.NONE)
    set_inductor_config: bool = attribute(_SWITCH, default=True)
    preserve_zero: bool | None = attribute(_PRESERVE, default=None)


@register_config("Int4WeightOnlyConfig", 3)
@frozen
class Int4WeightOnlyConfigV3(Config):
    """Int4 weights as torchao 0.13 wrote them."""

    group_size: int = attribute(_GROUP, default=128, minimum=1, maximum=2**31 - 1)
    layout: OldLayout = attribute(_LAYOUT, factory=TensorCoreTiledLayout)
    use_hqq: bool = attribute(_HQQ, default=False)
    zero_point_domain: ZeroPointDomain = attribute(_DOMAIN, default=ZeroPointDomain.NONE)
    set_inductor_config: bool = attribute(_SWITCH, default=True)
    preserve_zero: bool | None = attribute(_PRESERVE, default=None)
    packing_format: PackingFormatV1 = attribute(
        "How codes lie, under 2.", default=PackingFormatV1.PLAIN
    )
    torchao_version: int = attribute(_TORCHAO, default=1, minimum=1, maximum=2)


@register_config("Int4WeightOnlyConfig", 4)
@frozen
class Int4WeightOnlyConfigV4(Config):
    """Int4 weights as torchao 0.14 and 0.15 wrote them."""

    group_size: int = attribute(_GROUP, default=128, minimum=1, maximum=2**31 - 1)
    layout: OldLayout = attribute(_LAYOUT, factory=TensorCoreTiledLayout)
    use_hqq: bool = attribute(_HQQ, default=False)
    zero_point_domain: ZeroPointDomain = attribute(_DOMAIN, default=ZeroPointDomain.NONE)
    set_inductor_config: bool = attribute(_SWITCH, default=True)
    preserve_zero: bool | None = attribute(_PRESERVE, default=None)
    int4_packing_format: Int4PackingFormatV1 = attribute(
        "How codes lie, under 2.", default=Int4PackingFormatV1.PLAIN
    )
    int4_choose_qparams_algorithm: Int4ChooseQParamsAlgorithm = attribute(
        "How scales and zero points are found, under 2.",
        default=Int4ChooseQParamsAlgorithm.TINYGEMM,
    )
    torchao_version: int = attribute(_TORCHAO, default=2, minimum=1, maximum=2)


@register_config("Int4WeightOnlyConfig", 5)
@frozen
class Int4WeightOnlyConfigV5(Config):
    """Int4 weights as torchao 0.16 wrote them."""

    group_size: int = attribute(_GROUP, default=128, minimum=1, maximum=2**31 - 1)
    set_inductor_config: bool = attribute(_SWITCH, default=True)
    int4_packing_format: Int4PackingFormat = attribute(_LAYOUT, default=Int4PackingFormat.PLAIN)
    int4_choose_qparams_algorithm: Int4ChooseQParamsAlgorithm = attribute(
        "How scales and zero points are found.", default=Int4ChooseQParamsAlgorithm.TINYGEMM
    )


@migration()
def add_preserve_zero(old: Int4WeightOnlyConfigV1) -> Int4WeightOnlyConfigV2:
    """Leave it to the layout whether zero has a code, as it was."""
    return Int4WeightOnlyConfigV2(
        group_size=old.group_size,
        layout=old.layout,
        use_hqq=old.use_hqq,
        zero_point_domain=old.zero_point_domain,
        set_inductor_config=old.set_inductor_config,
    )


@migration()
def add_packing_format(old: Int4WeightOnlyConfigV2) -> Int4WeightOnlyConfigV3:
    """Keep all, under torchao's version 1."""
    return Int4WeightOnlyConfigV3(
        group_size=old.group_size,
        layout=old.layout,
        use_hqq=old.use_hqq,
        zero_point_domain=old.zero_point_domain,
        set_inductor_config=old.set_inductor_config,
        preserve_zero=old.preserve_zero,
        torchao_version=1,
    )


_KEPT_FORMATS = (PackingFormatV1.PLAIN, PackingFormatV1.PRESHUFFLED)


@migration(drops="a packing format, which torchao did not use under its version 1")
def rename_packing_format(old: Int4WeightOnlyConfigV3) -> Int4WeightOnlyConfigV4:
    """Take the new name; refuse sparse weights and the format of another family."""
    packing = Int4PackingFormatV1.PLAIN
    if old.torchao_version == 2:
        if old.packing_format not in _KEPT_FORMATS:
            raise MigrationError(
                "int4 weights have no such packing format any more",
                pointer="/packing_format",
                found=old.packing_format.value,
                expected="PLAIN or PRESHUFFLED",
            )
        packing = Int4PackingFormatV1(old.packing_format.value)
    return Int4WeightOnlyConfigV4(
        group_size=old.group_size,
        layout=old.layout,
        use_hqq=old.use_hqq,
        zero_point_domain=old.zero_point_domain,
        set_inductor_config=old.set_inductor_config,
        preserve_zero=old.preserve_zero,
        int4_packing_format=packing,
        torchao_version=old.torchao_version,
    )


@migration(
    drops="fields without effect under torchao's version; inner_k_tiles and the order of codes for "
    "CPUs, which say where the same codes lie"
)
def fold_layout(old: Int4WeightOnlyConfigV4) -> Int4WeightOnlyConfigV5:
    """Say layout and use_hqq as packing format and algorithm; refuse what changes values."""
    algorithm = old.int4_choose_qparams_algorithm
    packing = old.int4_packing_format
    if old.torchao_version == 1:
        algorithm = Int4ChooseQParamsAlgorithm.HQQ if old.use_hqq else _TINYGEMM
        packing = _format_of(old)
    if packing is Int4PackingFormatV1.MARLIN_SPARSE:
        raise MigrationError(
            "sparse weights have no config any more",
            pointer="/layout" if old.torchao_version == 1 else "/int4_packing_format",
            found=packing.value,
            expected="a format that keeps all weights",
        )
    is_opaque = packing is Int4PackingFormatV1.OPAQUE
    return Int4WeightOnlyConfigV5(
        group_size=old.group_size,
        set_inductor_config=old.set_inductor_config,
        int4_packing_format=Int4PackingFormat("PLAIN" if is_opaque else packing.value),
        int4_choose_qparams_algorithm=algorithm,
    )


_TINYGEMM = Int4ChooseQParamsAlgorithm.TINYGEMM
_FORMATS = {
    TensorCoreTiledLayout: Int4PackingFormatV1.TILE_PACKED_TO_4D,
    MarlinSparseLayout: Int4PackingFormatV1.MARLIN_SPARSE,
    Int4CPULayout: Int4PackingFormatV1.OPAQUE,
    Int4XPULayout: Int4PackingFormatV1.PLAIN_INT32,
}


def _format_of(old: Int4WeightOnlyConfigV4) -> Int4PackingFormatV1:
    """Return the format of a layout; refuse zero points that its format does not have."""
    packing = _FORMATS[type(old.layout)]
    # Zero points that are codes exist on Intel GPUs only; there zero has a code, too.
    if old.zero_point_domain is ZeroPointDomain.INT and packing in _REAL_ZERO_POINTS:
        raise MigrationError(
            "zero points of this layout are real values",
            pointer="/zero_point_domain",
            found=old.zero_point_domain.value,
            expected="NONE or FLOAT",
        )
    if old.preserve_zero and packing in _REAL_ZERO_POINTS:
        raise MigrationError(
            "zero has no code of its own in this layout",
            pointer="/preserve_zero",
            found=True,
            expected="false or null",
        )
    return packing


_REAL_ZERO_POINTS = (Int4PackingFormatV1.TILE_PACKED_TO_4D, Int4PackingFormatV1.OPAQUE)


@migration()
def add_ntile(old: Int4WeightOnlyConfigV5) -> Int4WeightOnlyConfig:
    """Keep all; tiles have 8 rows, as they had."""
    return Int4WeightOnlyConfig(
        group_size=old.group_size,
        set_inductor_config=old.set_inductor_config,
        int4_packing_format=old.int4_packing_format,
        int4_choose_qparams_algorithm=old.int4_choose_qparams_algorithm,
    )
