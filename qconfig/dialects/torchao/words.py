"""What torchao says in other words than ours, and what it has no words for."""

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from qconfig.builders.int8_int4 import as_intx
from qconfig.configs.granularity import PerBlock, PerGroup, PerRow, PerToken
from qconfig.dialects.torchao.forms import LOWER_CASE_STEPS
from qconfig.errors import MigrationError
from qconfig.versioning import Config


def _as_intx(config: Any) -> Config:
    if not config.set_inductor_config:
        raise MigrationError(
            "torchao 0.18 reads no Int8DynamicActivationInt4WeightConfig, and the "
            "Int8DynamicActivationIntxWeightConfig that builds the same has no such switch",
            pointer="/set_inductor_config",
            found=False,
            expected="true",
        )
    return as_intx(config)


SAID_AS: Mapping[str, Callable[[Any], Config]] = {
    "Int8DynamicActivationInt4WeightConfig": _as_intx,
}
"""Configs whose name torchao 0.18 does not read: as another that builds the same."""

UNREAD = frozenset({"NF4WeightOnlyConfig"})
"""Configs that torchao writes and cannot read again: it finds no class of that name."""

_INT8_PAIRS = ("Int8DynamicActivationInt8WeightConfig", "Int8StaticActivationInt8WeightConfig")


def in_torchaos_words(name: str, config: Any) -> dict[str, Any]:
    """Return the fields of a config with values as torchao's class of that name has them.

    Args:
        name: the registered name.
        config: in the version that torchao 0.18 reads.

    Raises:
        MigrationError: a granularity that torchao's config refuses.
    """
    fields = {f.name: getattr(config, f.name) for f in attrs.fields(type(config))}
    if name in _INT8_PAIRS:
        fields["granularity"] = _int8_pair(*fields["granularity"])
    if name == "Float8WeightOnlyConfig" and isinstance(fields["granularity"], PerBlock):
        raise _no_words(fields["granularity"], "PerTensor, PerRow or PerGroup")
    if name == "UIntxWeightOnlyConfig":
        _drop_algorithm(config, fields)
    if name in LOWER_CASE_STEPS and fields["step"] is not None:
        fields["step"] = fields["step"].value.lower()
    return fields


def _drop_algorithm(config: Any, fields: dict[str, Any]) -> None:
    """Leave out the algorithm, which follows from the bits in torchao.

    Raises:
        MigrationError: it is another.
    """
    found = fields.pop("uintx_choose_qparams_algorithm")
    usual = attrs.evolve(config, uintx_choose_qparams_algorithm=None).algorithm
    if found not in (None, usual):
        raise MigrationError(
            "torchao finds scales of these codes in another way",
            pointer="/uintx_choose_qparams_algorithm",
            found=found.value,
            expected=usual.value,
        )


def _int8_pair(activation: Any, weight: Any) -> Any:
    """Say a token's scale as a row's, and a pair of equals as one."""
    if isinstance(weight, PerGroup):
        raise _no_words(weight, "PerTensor or PerRow for the weight")
    seen = PerRow() if isinstance(activation, PerToken) else activation
    return seen if seen == weight else (seen, weight)


def _no_words(found: object, expected: str) -> MigrationError:
    return MigrationError(
        "torchao has no such granularity here",
        pointer="/granularity",
        found=found,
        expected=expected,
    )
