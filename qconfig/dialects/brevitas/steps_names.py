"""Steps that give tensors their new names, and say what has no place."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from qconfig.configs.quant_choices import (
    LEARNED_SCALES,
    LEARNED_ZERO_POINTS,
    ScaleKind,
    ScaleRestriction,
    ZeroPointKind,
)
from qconfig.dialects.brevitas.expectations import is_running
from qconfig.dialects.brevitas.quantizer_keys import Kind, QuantizerKey
from qconfig.dialects.brevitas.stages import Change, Done, Settings, Stage
from qconfig.errors import CheckpointError, QconfigError

if TYPE_CHECKING:
    import torch

_WHY: Mapping[str, str] = {
    "threshold": "the threshold: what the largest code stands for",
    "statistic": "running statistics",
    "zero_point": "how far values reach below 0",
    "zero_point_statistic": "running statistics of how far values reach below 0",
}
_AFFINE = "running statistics, times and plus what was learned beside them"
_LEARNED_NOW = "running statistics, which the config has learned from here on"
_RUNNING_NOW = "learned, and running statistics in the config from here on"
_LOST: Mapping[str, str] = {
    "float_to_int_impl": "learned rounding, which no config here has",
    "pre_scaling_impl": "the norms of weight normalization, which no config here has",
    "affine_rescaling": "what a statistic of the weight is multiplied by, which no config here has",
}


def with_folded_statistics(stage: Stage, settings: Settings) -> Stage:
    """Multiply running statistics by what was learned beside them: one statistic is left."""
    keys = stage.quantizer_keys()
    for key in keys:
        if key.kind is not Kind.RUNNING:
            continue
        beside: dict[Kind, str] = {
            k.kind: k.name
            for k in keys
            if (k.layer, k.role) == (key.layer, key.role)
            and k.kind in (Kind.AFFINE_WEIGHT, Kind.AFFINE_BIAS)
        }
        if Kind.AFFINE_WEIGHT in beside:
            stage = _folded(stage, key, beside, settings.config_of(key.layer, key.role))
    return stage


def with_names(stage: Stage, settings: Settings) -> Stage:
    """Rename thresholds, statistics and zero points, as the kinds of the config say."""
    for key in stage.quantizer_keys():
        if key.kind in (Kind.THRESHOLD, Kind.RUNNING, Kind.ZERO_POINT):
            stage = _named(stage, key, settings.config_of(key.layer, key.role))
    return stage


def without_leftovers(stage: Stage, settings: Settings) -> Stage:
    """Say which keys of quantizers have no place; nothing of Brevitas' is left after this."""
    left = stage.quantizer_keys()
    return stage.without(k.name for k in left).noting(problems=[_no_place(k) for k in left])


def _named(stage: Stage, key: QuantizerKey, config: Any) -> Stage:
    name = _zero_name(key, config) if key.kind is Kind.ZERO_POINT else _scale_name(key, config)
    if name is None:
        return stage.without([key.name]).noting(problems=[_not_in_config(key, config)])
    new, tensor = key.of(name), stage.state[key.name]
    if new in stage.state:
        error = CheckpointError(
            "two keys become the same", fqn=key.name, found=new, expected="one of them"
        )
        return stage.without([key.name]).noting(problems=[error])
    if key.kind is Kind.ZERO_POINT or (name == "threshold") is (key.kind is Kind.THRESHOLD):
        change = Change(Done.RENAMED, (key.name,), new, _WHY[name])
        return stage.replaced(key.name, new, tensor).noting([change])
    why = _LEARNED_NOW if name == "threshold" else _RUNNING_NOW
    stored = _stored if name == "threshold" else linear

    def changed(values: "torch.Tensor") -> "torch.Tensor":
        return stored(values, config.scale_restriction)

    if config.scale_restriction is not ScaleRestriction.FP:
        tensor = tensor.map(changed)
    change = Change(Done.DERIVED, (key.name,), new, why)
    return stage.replaced(key.name, new, tensor).noting([change])


def _scale_name(key: QuantizerKey, config: Any) -> str | None:
    if config.scale_kind in LEARNED_SCALES:
        return "threshold"
    if config.scale_kind is ScaleKind.STATS and is_running(config, key.role):
        return "statistic"
    return None


def _zero_name(key: QuantizerKey, config: Any) -> str | None:
    kind = getattr(config, "zero_point_kind", ZeroPointKind.NONE)
    if kind in LEARNED_ZERO_POINTS:
        return "zero_point"
    if kind is ZeroPointKind.STATS and is_running(config, key.role):
        return "zero_point_statistic"
    return None


def _stored(values: "torch.Tensor", restriction: ScaleRestriction) -> "torch.Tensor":
    from qconfig.tensors.quantizers import stored_threshold

    return stored_threshold(values, restriction)


def linear(values: "torch.Tensor", restriction: ScaleRestriction) -> "torch.Tensor":
    """Return the thresholds that stored ones stand for, powers of two not yet rounded."""
    import torch

    return values if restriction is ScaleRestriction.FP else torch.exp2(values)


def _folded(stage: Stage, key: QuantizerKey, beside: Mapping[Kind, str], config: Any) -> Stage:
    weight = stage.state[beside[Kind.AFFINE_WEIGHT]]
    bias = stage.state.get(beside.get(Kind.AFFINE_BIAS, ""))
    statistics = stage.state[key.name]
    shapes = {t.shape for t in (statistics, weight, bias) if t is not None}
    if len(shapes) > 1:
        error = CheckpointError(
            "running statistics and what they are multiplied by differ in shape",
            fqn=key.name,
            found=sorted(shapes),
            expected="one shape",
        )
        return stage.without([key.name, *beside.values()]).noting(problems=[error])
    restriction = config.scale_restriction

    def folded(values: "torch.Tensor") -> "torch.Tensor":
        scaled = _stored(values, restriction) * weight.load()
        return linear(scaled if bias is None else scaled + bias.load(), restriction)

    names = (key.name, *beside.values())
    stage = stage.without(beside.values()).replaced(key.name, key.name, statistics.map(folded))
    return stage.noting([Change(Done.DERIVED, names, key.name, _AFFINE)])


def _not_in_config(key: QuantizerKey, config: Any) -> QconfigError:
    field = "zero_point_kind" if key.kind is Kind.ZERO_POINT else "scale_kind"
    kind = getattr(config, field, ZeroPointKind.NONE)
    return CheckpointError(
        "the file has what the config does not have",
        fqn=key.name,
        found=f"{field} {kind} in the config of {key.quantizer}",
        expected=f"{field} PARAMETER or PARAMETER_FROM_STATS",
        hint="quantize with the config that the checkpoint was trained with, or drop the name",
    )


def _no_place(key: QuantizerKey) -> QconfigError:
    reason = next((why for part, why in _LOST.items() if part in key.part), None)
    return CheckpointError(
        "a key of a quantizer has no place" + ("" if reason is None else f": it is {reason}"),
        fqn=key.name,
        expected="thresholds, zero points and bit widths",
        hint="if the model may go on without it, say so: drop its name",
    )
