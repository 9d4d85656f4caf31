"""Steps that add what our quantizers keep and Brevitas did not: configs and counts of steps."""

from typing import TYPE_CHECKING, Any

from qconfig.codec.tensor_values import LazyTensor
from qconfig.configs.quant_choices import (
    SEEN_SCALES,
    SEEN_ZERO_POINTS,
    ScaleKind,
    ZeroPointKind,
)
from qconfig.dialects.brevitas.expectations import ROLES, WEIGHT, is_running
from qconfig.dialects.brevitas.quantizer_keys import dotted
from qconfig.dialects.brevitas.stages import Change, Done, Settings, Stage
from qconfig.dialects.brevitas.steps_names import linear

if TYPE_CHECKING:
    import torch

_RECORD = "the config, which the file lacks"
_COUNTED = "Brevitas does not save how far it has come; calibration is taken to be over"
_ONGOING = (
    "the file does not say of how many steps running statistics are; taken as those of "
    "collect_steps of the config"
)
_OVER = "the file does not say whether calibration was over; taken so, as Brevitas does"
_BEGINNING = (
    "it is 1, which is also what modules begin with that save all of their state before the first "
    "forward; where that is so, drop it and have it derived"
)
_SEEN = "the file has no statistics beside what was made of them; taken from that"


def with_calibration(stage: Stage, settings: Settings) -> Stage:
    """Add the statistics and steps of activations whose thresholds or statistics are there."""
    for layer, roles in settings.reached.items():
        for role in roles:
            config: Any = settings.config_of(layer, role)
            if config is not None and is_running(config, role):
                stage = _calibrated(stage, config, dotted(layer, role))
    return stage


def with_beginnings(stage: Stage, settings: Settings) -> Stage:
    """Say which learned scales of weights may never have been set."""
    said = []
    for layer, roles in settings.reached.items():
        name = dotted(layer, WEIGHT, "threshold")
        weight = stage.state.get(dotted(layer, "weight"))
        threshold = stage.state.get(name)
        config: Any = settings.config_of(layer, WEIGHT)
        if WEIGHT not in roles or weight is None or threshold is None or config is None:
            continue
        if config.scale_kind is ScaleKind.PARAMETER_FROM_STATS and _is_beginning(threshold):
            said.append(f"{name}: {_BEGINNING}")
    return stage.noting(ambiguities=said)


def with_records(stage: Stage, settings: Settings) -> Stage:
    """Add the config of each quantizer, which state_dicts of ours are checked against."""
    from qconfig.modules.recorded_config import RECORD, document_bytes, own_part

    added = {}
    for layer, roles in settings.reached.items():
        for role in roles:
            config = settings.config_of(layer, role)
            if config is not None and role in ROLES:
                name = dotted(layer, role, RECORD)
                added[name] = LazyTensor.of(document_bytes(own_part(config)))
    return stage.adding(added).noting(Change(Done.ADDED, (), name, _RECORD) for name in added)


def _calibrated(stage: Stage, config: Any, quantizer: str) -> Stage:
    zeros = getattr(config, "zero_point_kind", ZeroPointKind.NONE)
    sees_scale = config.scale_kind in SEEN_SCALES
    sees_zero = zeros in SEEN_ZERO_POINTS
    threshold, zero = f"{quantizer}.threshold", f"{quantizer}.zero_point"
    statistic, zero_statistic = f"{quantizer}.statistic", f"{quantizer}.zero_point_statistic"
    added: dict[str, LazyTensor] = {}
    if sees_scale and threshold in stage.state:
        added[statistic] = _as_statistic(stage.state[threshold], config)
    if sees_zero and zero in stage.state:
        added[zero_statistic] = stage.state[zero].map(_copied)
    known = stage.state.keys() | added.keys()
    if (sees_scale and statistic not in known) or (sees_zero and zero_statistic not in known):
        return stage  # it begins anew
    if not sees_scale and not sees_zero:
        return stage
    changes = [Change(Done.ADDED, (), name, _SEEN) for name in added]
    is_over = ScaleKind.PARAMETER_FROM_STATS is config.scale_kind or (
        zeros is ZeroPointKind.PARAMETER_FROM_STATS
    )
    added[f"{quantizer}.steps"] = _count(config.collect_steps + is_over)
    changes.append(Change(Done.ADDED, (), f"{quantizer}.steps", _COUNTED))
    said = _OVER if is_over else _ONGOING
    return stage.adding(added).noting(changes, ambiguities=[f"{quantizer}: {said}"])


def _is_beginning(threshold: LazyTensor) -> bool:
    return bool((threshold.load() == 1).all())


def _as_statistic(threshold: LazyTensor, config: Any) -> LazyTensor:
    def as_statistic(values: "torch.Tensor") -> "torch.Tensor":
        return linear(values, config.scale_restriction).abs()

    return threshold.map(as_statistic)


def _copied(values: "torch.Tensor") -> "torch.Tensor":
    return values.clone()


def _count(number: int) -> LazyTensor:
    import torch

    return LazyTensor.of(torch.tensor(number, dtype=torch.int64))
