"""Which planned layers need calibration, whether they have it, and building with it."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from attrs import evolve

from qconfig.builders.by_rows import build_by_rows, rows_together
from qconfig.builders.calibrated import build_calibrated, needs_calibration
from qconfig.builders.layer_calibration import LayerCalibration
from qconfig.calibration.calibration import Calibration
from qconfig.codec.tensor_values import LazyTensor
from qconfig.engine.plan_document import Action, Plan, PlanEntry
from qconfig.errors import PlanError, QconfigError, UsageError, raise_problems, shown
from qconfig.versioning import Config, Layout, registry

if TYPE_CHECKING:
    import torch

_HINT = (
    "pass calibration=calibrate(model, batches), in a shell --calibration DIR, "
    "or leave the layer out by a rule"
)


def check_calibrated(plan: Plan, calibration: Calibration | None) -> None:
    """Check that every layer whose config needs calibration has been observed.

    Raises:
        UsageError: what is given is no Calibration.
        PlanError: all the layers that have not, or that had another shape.
    """
    if calibration is not None and not isinstance(calibration, Calibration):
        raise UsageError(
            "not a calibration",
            found=type(calibration).__name__,
            expected="what calibrate or Calibration.load returns",
        )
    waiting = _waiting(plan)
    if calibration is None:
        raise_problems(
            [
                PlanError(
                    f"{_kind(plan, entries)} needs calibration, and there is none",
                    found=[_module(entry) for entry in entries],
                    hint=_HINT,
                )
                for entries in waiting
            ]
        )
        return
    raise_problems(
        [
            problem
            for entries in waiting
            for entry in entries
            if (problem := _problem(entry, _kind(plan, entries), calibration)) is not None
        ]
    )


def with_calibration_notes(plan: Plan) -> Plan:
    """Return the plan with a note for each config that will ask for calibration."""
    notes = [
        f"{_kind(plan, entries)} needs calibration: layers: {len(entries)}, the first "
        f"{shown(_module(entries[0]))}"
        for entries in _waiting(plan)
    ]
    return evolve(plan, notes=(*plan.notes, *notes)) if notes else plan


def build_layer(
    config: Config, weight: "torch.Tensor", fqn: str, calibration: Calibration | None
) -> "torch.Tensor":
    """Return what the builder of a config makes of a weight and of what its layer saw.

    Args:
        config: the config.
        weight: the float weight.
        fqn: its name.
        calibration: of the whole model, or None.

    Raises:
        QconfigError: whatever the builder raises.
    """
    return build_calibrated(config, weight, _layer(fqn, calibration))


def layer_by_rows(
    config: Config, weight: LazyTensor, fqn: str, calibration: Calibration | None
) -> Callable[[], Iterator[Layout]] | None:
    """Return what builds a few rows of a weight at a time, or None where it is built as a whole.

    Args:
        config: the config.
        weight: the float weight; it is read when the rows are built.
        fqn: its name.
        calibration: of the whole model, or None.
    """
    together = rows_together(config, weight)
    if not together:
        return None
    return lambda: build_by_rows(config, weight, _layer(fqn, calibration), together=together)


def _layer(fqn: str, calibration: Calibration | None) -> LayerCalibration | None:
    return None if calibration is None else calibration.layer(fqn.rpartition(".")[0])


def _waiting(plan: Plan) -> list[list[PlanEntry]]:
    """Return the entries that need calibration, those of one config together."""
    needs: dict[str, bool] = {}
    found: dict[str, list[PlanEntry]] = {}
    for entry in plan.entries:
        if entry.action is not Action.QUANTIZE or entry.config is None:
            continue
        config = plan.configs.get(entry.config)
        if config is None:
            continue
        if entry.config not in needs:
            needs[entry.config] = needs_calibration(config)
        if needs[entry.config]:
            found.setdefault(entry.config, []).append(entry)
    return list(found.values())


def _kind(plan: Plan, entries: list[PlanEntry]) -> str:
    """Return the registered name of the config that entries share."""
    return registry.entry_of(type(plan.configs[entries[0].config or ""])).name


def _module(entry: PlanEntry) -> str:
    return entry.fqn.rpartition(".")[0]


def _problem(entry: PlanEntry, kind: str, calibration: Calibration) -> QconfigError | None:
    name = _module(entry)
    layer = calibration.record.layers.get(name)
    if layer is None:
        return PlanError(
            f"{kind} needs calibration, and the layer was not observed",
            fqn=entry.fqn,
            hint="calibrate with a config whose modules and layers reach it",
        )
    if not layer.rows:
        return PlanError(
            f"{kind} needs calibration, and the layer saw no data",
            fqn=entry.fqn,
            hint="calibrate with batches that reach it, or leave it out by a rule",
        )
    observed = (layer.out_features, layer.in_features)
    if entry.shape != observed:
        return PlanError(
            "the calibration is of a layer of another shape",
            fqn=entry.fqn,
            found=observed,
            expected=f"shape {entry.shape}",
        )
    return None
