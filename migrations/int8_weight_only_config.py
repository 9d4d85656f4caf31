"""Int8WeightOnlyConfig: three field sets of torchao under two of its version numbers.

| ours | torchao releases | its `_version` | fields |
|---|---|---|---|
| 1 | 0.10 to 0.14 | 1 | group_size |
| 2 | 0.15 to 0.17; 0.18 (then group_size must be null) | 1 and 2 | group_size, granularity |
| 3 | – | – | granularity |
"""

from attrs import frozen

from qconfig.configs.granularity import Granularity, PerAxis, PerGroup, PerRow
from qconfig.configs.int8 import Int8WeightOnlyConfig
from qconfig.errors import MigrationError
from qconfig.versioning import Config, attribute, migration, register_config


@register_config("Int8WeightOnlyConfig", 1)
@frozen
class Int8WeightOnlyConfigV1(Config):
    """Int8 weight-only as torchao 0.10 to 0.14 wrote it."""

    group_size: int | None = attribute(
        "Weights of a row that share a scale; null for the whole row.",
        default=None,
        minimum=1,
        maximum=2**31 - 1,
    )
    set_inductor_config: bool = attribute("A switch of torchao's.", default=True)


@register_config("Int8WeightOnlyConfig", 2)
@frozen
class Int8WeightOnlyConfigV2(Config):
    """Int8 weight-only as torchao 0.15 and later wrote it: granularity beside group_size."""

    group_size: int | None = attribute(
        "Weights of a row that share a scale; null leaves it to granularity.",
        default=None,
        minimum=1,
        maximum=2**31 - 1,
    )
    granularity: Granularity | None = attribute("Which weights share a scale.", factory=PerRow)
    set_inductor_config: bool = attribute("A switch of torchao's.", default=True)


@migration()
def add_granularity(old: Int8WeightOnlyConfigV1) -> Int8WeightOnlyConfigV2:
    """Put a default granularity beside group_size, which goes on to decide."""
    return Int8WeightOnlyConfigV2(
        group_size=old.group_size, set_inductor_config=old.set_inductor_config
    )


@migration(drops="a granularity beside a group_size: torchao 0.15 to 0.17 ignored it")
def fold_group_size(old: Int8WeightOnlyConfigV2) -> Int8WeightOnlyConfig:
    """Say group_size as PerGroup; without one, granularity stays (null meant PerRow)."""
    group = None if old.group_size is None else PerGroup(old.group_size)
    return Int8WeightOnlyConfig(
        granularity=group or old.granularity or PerRow(),
        set_inductor_config=old.set_inductor_config,
    )


@migration()
def unfold_granularity(new: Int8WeightOnlyConfig) -> Int8WeightOnlyConfigV2:
    """Leave group_size null, as torchao 0.18 demands; refuse PerAxis, which it does not take."""
    if isinstance(new.granularity, PerAxis):
        raise MigrationError(
            "torchao's Int8WeightOnlyConfig has no PerAxis",
            pointer="/granularity",
            found=new.granularity,
            expected="PerTensor, PerRow or PerGroup",
            hint="of a matrix, PerRow() is the same as PerAxis(0)",
        )
    return Int8WeightOnlyConfigV2(
        granularity=new.granularity, set_inductor_config=new.set_inductor_config
    )
