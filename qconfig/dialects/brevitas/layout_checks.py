"""NamedTuples of a file held against the config that the caller gives for them."""

from collections.abc import Mapping
from typing import Any

from qconfig.builders.base import Target
from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.brevitas.entries import ALONE
from qconfig.dialects.brevitas.expectations import checked_family
from qconfig.dialects.brevitas.fields import number_of
from qconfig.errors import CheckpointError, QconfigError
from qconfig.rules.matcher import RuleSet, rules_of
from qconfig.versioning import Config, Layout, registry

_NUMBERS = ("bit_width", "exponent_bit_width", "mantissa_bit_width", "exponent_bias")
_PLAIN = ("signed", "group_size", "group_dim")


def contradictions(layouts: Mapping[str, Layout], config: Config | None) -> list[QconfigError]:
    """Return where quantized weights of a file are of other bits or groups than a config says.

    Args:
        layouts: by name.
        config: rules by name, or one config for every weight.

    Raises:
        FieldError: a config of another family.
        RuleError: a pattern that cannot be compiled.
    """
    if config is None or not layouts:
        return []
    rules = rules_of(registry.convert(config))
    current: dict[str, Any] = {n: registry.convert(layout) for n, layout in layouts.items()}
    targets = [
        Target(
            "weight" if name == ALONE else name,
            tuple(layout.shape),
            layout.dtype,
            rules.default_modules if name.rpartition(".")[2] in ("weight", ALONE) else (),
        )
        for name, layout in current.items()
    ]
    decisions = RuleSet(rules).assign(targets).decisions
    problems: list[QconfigError] = []
    for (name, layout), decision in zip(current.items(), decisions, strict=True):
        if decision.config is not None:
            problems += _differences(name, layout, checked_family(rules.configs[decision.config]))
    return problems


def _differences(name: str, layout: Any, config: Any) -> list[QconfigError]:
    problems: list[QconfigError] = []
    for field in (*_NUMBERS, *_PLAIN):
        said, stored = getattr(config, field, None), getattr(layout, field, None)
        if said is None or (field == "bit_width" and config.learned_bit_width):
            continue
        found = number_of(stored) if isinstance(stored, LazyTensor) else stored
        if field == "group_dim" and found is not None:
            found, said = found % len(layout.shape), said % len(layout.shape)
        if found != said:
            problems.append(
                CheckpointError(
                    f"the file has another {field} than the config",
                    fqn=name,
                    found="none" if found is None else found,
                    expected=f"{said}, as the config says",
                    hint="quantize with the config that the checkpoint was trained with",
                )
            )
    return problems
