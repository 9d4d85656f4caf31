"""What a config says about the state of a quantizer: which tensors there are, of which shapes."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from qconfig.builders.base import Target
from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import LazyTensor
from qconfig.configs.fqn_to_config import FqnToConfig, Rule
from qconfig.configs.granularity import PerTensor
from qconfig.configs.quant_choices import (
    LEARNED_SCALES,
    LEARNED_ZERO_POINTS,
    ScaleKind,
    ZeroPointKind,
)
from qconfig.configs.quant_relations import FakeQuantizedConfig
from qconfig.configs.scale_shapes import scale_shape
from qconfig.dialects.brevitas.quantizer_keys import Kind, dotted, parsed
from qconfig.errors import FieldError, PlanError, nearest, raise_problems
from qconfig.rules.assignment import How
from qconfig.rules.matcher import RuleSet
from qconfig.versioning import Config, registry

WEIGHT, BIAS, ACT = "weight_quant", "bias_quant", "act_quant"
INPUT, OUTPUT = "input_quant", "output_quant"
ROLES = frozenset({WEIGHT, BIAS, ACT, INPUT, OUTPUT})
"""Quantizers that our modules have."""

_NESTED: Mapping[str, Callable[[Any], Config | None]] = {
    INPUT: lambda config: config.input,
    OUTPUT: lambda config: config.output,
    BIAS: lambda config: config.bias,
}
_WITHOUT_STATE = frozenset({Kind.SENTINEL, Kind.FLAG})

_MOST_UNMATCHED, _MOST_SHOWN = 100, 4

Resolved = Mapping[str, Any]
"""The config of each layer that has one."""


def layers_with_state(state: Mapping[str, LazyTensor]) -> dict[str, tuple[str, ...]]:
    """Return the layers with keys of quantizers, and the roles of these."""
    roles: dict[str, dict[str, None]] = {}
    for key in map(parsed, state):
        if key is not None and key.kind not in _WITHOUT_STATE:
            roles.setdefault(key.layer, {})[key.role] = None
    return {layer: tuple(names) for layer, names in roles.items()}


def resolve(
    config: Config | None, state: Mapping[str, LazyTensor], quantized: Collection[str] = ()
) -> dict[str, Any]:
    """Return the config of each layer of a state_dict that it reaches.

    Args:
        config: rules, whose names and patterns decide, their default for layers with quantizers;
            or one config for the layers with quantizers.
        state: the old state_dict.
        quantized: names of quantized tensors beside it, which rules may be for.

    Raises:
        FieldError: a config of another family.
        RuleError: a pattern that cannot be compiled.
        PlanError: rules that match nothing and are not optional; a single config or a default that
            reaches nothing.
    """
    if config is None:
        return {}
    config = registry.convert(config)
    with_state = layers_with_state(state)
    if not isinstance(config, FqnToConfig):
        checked = checked_family(config)
        if not with_state and not quantized:
            raise _reaches_nothing("a single config", state)
        return dict.fromkeys(with_state, checked)
    weights = {
        n.rpartition(".")[0]: t for n, t in state.items() if n.rpartition(".")[2] == "weight"
    }
    layers = list(dict.fromkeys([*weights, *with_state]))
    targets = [
        Target(
            dotted(layer, "weight"),
            weights[layer].shape if layer in weights else (),
            weights[layer].dtype if layer in weights else DType.FLOAT32,
            config.default_modules if layer in with_state else (),
        )
        for layer in layers
    ]
    others = [Target(name, (), DType.FLOAT32) for name in quantized]
    assignment = RuleSet(config).assign([*targets, *others])
    raise_problems(
        [
            PlanError(
                "the rule matches no layer of the state_dict",
                pointer=f"/rules/{number}/match",
                found=config.rules[number].match,
                expected="a layer of it, or an optional rule",
                hint=_unmatched_hint(config.rules[number], [*layers, *quantized]),
            )
            for number in assignment.unmatched[:_MOST_UNMATCHED]
        ]
    )
    if config.default is not None and all(d.how is How.NONE for d in assignment.decisions):
        raise _reaches_nothing("the default", state)
    return {
        layer: checked_family(config.configs[decision.config])
        for layer, decision in zip(layers, assignment.decisions[: len(layers)], strict=True)
        if decision.config is not None
    }


def floats_left(
    config: Config | None, resolved: Resolved, state: Mapping[str, LazyTensor]
) -> tuple[str, ...]:
    """Return a note on layers that a config for all layers does not reach; () for rules alone.

    Args:
        config: what was given.
        resolved: what `resolve` made of it.
        state: the old state_dict.
    """
    if config is None or (isinstance(config, FqnToConfig) and config.default is None):
        return ()
    left = [
        layer
        for layer, _, last in (name.rpartition(".") for name in state)
        if last == "weight" and layer not in resolved and len(state[dotted(layer, last)].shape) > 1
    ]
    if not left:
        return ()
    shown = ", ".join(left[:_MOST_SHOWN])
    more = f" and {len(left) - _MOST_SHOWN} more" if len(left) > _MOST_SHOWN else ""
    note = (
        f"{shown}{more}: no keys of quantizers, and left as floats; if constant quantizers rounded "
        "these weights, name the layers in rules"
    )
    return (note,)


def _unmatched_hint(rule: Rule, names: Collection[str]) -> str | None:
    if rule.modules:
        return "a file says no classes of modules: name its layers, or mark the rule optional"
    return nearest(rule.match, names)


def _reaches_nothing(what: str, state: Mapping[str, LazyTensor]) -> PlanError:
    layers = [n.rpartition(".")[0] for n in state if n.rpartition(".")[2] == "weight"]
    shown = ", ".join(layers[:_MOST_SHOWN])
    return PlanError(
        f"{what} reaches no layer of the state_dict",
        found=f"no layer of {len(layers)} that it is for has keys of quantizers",
        expected="rules that name the layers whose quantizers are constant",
        hint=f"layers with weights are {shown}" if layers else None,
    )


def role_config(resolved: Resolved, layer: str, role: str) -> Config | None:
    """Return the config of a quantizer, or None."""
    config = resolved.get(layer)
    if config is None:
        return None
    if role in (WEIGHT, ACT):
        return config  # type: ignore[no-any-return]
    nested = _NESTED.get(role)
    return None if nested is None else nested(config)


def reached_roles(
    resolved: Resolved, state: Mapping[str, LazyTensor]
) -> dict[str, tuple[str, ...]]:
    """Return the roles of each layer that a config reaches: with state, or named by it."""
    with_state = layers_with_state(state)
    reached = {}
    for layer, config in resolved.items():
        roles = dict.fromkeys(with_state.get(layer, ()))
        if ACT not in roles and dotted(layer, "weight") in state:
            roles[WEIGHT] = None
        for role, nested in _NESTED.items():
            has_one = role != BIAS or dotted(layer, "bias") in state
            if ACT not in roles and has_one and nested(config) is not None:
                roles[role] = None
        reached[layer] = tuple(roles)
    return reached


def saved_names(config: Any, role: str) -> tuple[str, ...]:
    """Return our names of the tensors that Brevitas saves of a quantizer of a config."""
    names = []
    if config.scale_kind in LEARNED_SCALES:
        names.append("threshold")
    elif config.scale_kind is ScaleKind.STATS and is_running(config, role):
        names.append("statistic")
    zeros = getattr(config, "zero_point_kind", ZeroPointKind.NONE)
    if zeros in LEARNED_ZERO_POINTS:
        names.append("zero_point")
    elif zeros is ZeroPointKind.STATS and is_running(config, role):
        names.append("zero_point_statistic")
    if getattr(config, "learned_bit_width", False):
        names.append("bit_width")
    return tuple(names)


def is_running(config: Any, role: str) -> bool:
    """Return whether statistics of a quantizer are running ones, which are state."""
    return role not in (WEIGHT, BIAS) and not hasattr(config, "group_size")


def threshold_shape(config: Any, weight: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Return the shape of the scales of a weight, or of an activation with one scale.

    Args:
        config: of the quantizer.
        weight: shape of the weight; None for an activation.

    Returns:
        None where the config alone does not say it.
    """
    if weight is None:
        return () if isinstance(getattr(config, "granularity", None), PerTensor) else None
    try:
        return scale_shape(weight, config)
    except FieldError:
        return None


def checked_family(config: Config) -> Config:
    """Return a config that quantizers of Brevitas have.

    Raises:
        FieldError: it is of another family.
    """
    if not isinstance(config, FakeQuantizedConfig):
        raise FieldError(
            "a config of another family than Brevitas' quantizers",
            found=type(config).__name__,
            expected="IntQuantConfig, FloatQuantConfig or one of their groupwise forms",
        )
    return config
