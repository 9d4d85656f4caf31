"""State_dicts of Brevitas' modules under our names: pure functions from one dict to another."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.brevitas.evidence import (
    with_configs,
    with_floats,
    with_grids,
    with_unsaid,
)
from qconfig.dialects.brevitas.expectations import (
    floats_left,
    reached_roles,
    resolve,
    role_config,
)
from qconfig.dialects.brevitas.stages import Change, Settings, Stage, Step
from qconfig.dialects.brevitas.steps_added import with_beginnings, with_calibration, with_records
from qconfig.dialects.brevitas.steps_bits import with_bit_widths
from qconfig.dialects.brevitas.steps_dropped import (
    without_buffers,
    without_constants,
    without_dropped,
    without_handlers,
)
from qconfig.dialects.brevitas.steps_missing import check_words, with_missing, with_shapes
from qconfig.dialects.brevitas.steps_names import (
    with_folded_statistics,
    with_names,
    without_leftovers,
)
from qconfig.dialects.brevitas.steps_norms import with_folded_norms
from qconfig.errors import MOST_PROBLEMS, CheckpointError, raise_problems
from qconfig.versioning import Config

if TYPE_CHECKING:
    import torch

STEPS: tuple[Step, ...] = (
    without_dropped,
    without_constants,
    with_folded_norms,
    with_floats,
    with_configs,
    without_handlers,
    without_buffers,
    with_folded_statistics,
    with_bit_widths,
    with_names,
    without_leftovers,
    with_beginnings,
    with_missing,
    with_shapes,
    with_calibration,
    with_records,
    with_grids,
    with_unsaid,
)
"""What is done, in this order; each step takes a stage and gives the next."""


@frozen
class StateDictReport:
    """What was done to a state_dict.

    Args:
        changes: every key that was renamed, dropped, derived, left to its beginning or expanded.
        ambiguities: what the file cannot show, and the config decided.
    """

    changes: tuple[Change, ...] = ()
    ambiguities: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a report."""
        return {
            "changes": [change.to_dict() for change in self.changes],
            "ambiguities": list(self.ambiguities),
        }


def convert_state_dict(
    state_dict: "Mapping[str, torch.Tensor]",
    *,
    config: Config | None = None,
    missing: Mapping[str, str] | None = None,
    dropped: Sequence[str] = (),
    expanded: Sequence[str] = (),
    norms: Mapping[str, str] | None = None,
    eps: float = 1e-5,
) -> "tuple[dict[str, torch.Tensor], StateDictReport]":
    """Return a state_dict of Brevitas' modules, of 0.8 to 0.13, under the names of our modules.

    Args:
        state_dict: tensors by name; it is left as it is. Tensors that are only renamed are the
            same objects in the result.
        config: how the model was quantized: a config for all layers with quantizers, or an
            `FqnToConfig`. Needed where the state_dict has keys of quantizers, because Brevitas
            saves neither bit widths nor formats.
        missing: what to do about tensors of quantizers that are not there, by patterns of their
            new or old names; the first that matches decides. "error" is also what no pattern
            gets; "initialise" leaves the name out, so that a model keeps what it begins with;
            "derive" computes it from the weight, as the config says.
        dropped: patterns of old names that may be left out.
        expanded: patterns of new names of scales: one number for all channels may be repeated.
        norms: batch norms that are to be folded, by name: into the layer whose name stands with it,
            or, with its own name, into a factor and an addend in its place.
        eps: of those norms.

    Raises:
        CheckpointError: a key has no place, a tensor is missing, or the state_dict contradicts the
            config; all of them at once.
        FieldError, RuleError, UsageError: the config, a pattern or a policy cannot be used.
    """
    lazy = lazy_state(state_dict)
    resolved = resolve(config, lazy)
    settings = Settings(
        lambda layer, role: role_config(resolved, layer, role),
        reached_roles(resolved, lazy),
        dict(missing or {}),
        tuple(dropped),
        tuple(expanded),
        norms=dict(norms or {}),
        eps=eps,
    )
    stage = converted(lazy, settings)
    left = floats_left(config, resolved, lazy)
    report = StateDictReport(stage.changes, (*stage.ambiguities, *left))
    return {name: tensor.load() for name, tensor in stage.state.items()}, report


def converted(state: Mapping[str, LazyTensor], settings: Settings) -> Stage:
    """Return a state_dict after all steps; no tensor is read that is only renamed.

    Raises:
        QconfigError: what stands against it, all of it at once.
    """
    check_words(settings)
    stage = Stage(dict(state))
    for step in STEPS:
        stage = step(stage, settings)
    raise_problems(list(stage.problems[:MOST_PROBLEMS]))
    return stage


def lazy_state(state_dict: Mapping[Any, Any]) -> dict[str, LazyTensor]:
    """Return the tensors of a state_dict as they go through steps.

    Raises:
        CheckpointError: an entry is no tensor, or has no text for its name.
    """
    from torch import Tensor

    lazy = {}
    problems = []
    for name, value in state_dict.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            problems.append(
                CheckpointError(
                    "not an entry of a state_dict",
                    fqn=name if isinstance(name, str) else None,
                    found=value if isinstance(name, str) else name,
                    expected="a tensor by its name",
                    hint=f"pass the entry {name!r} alone" if isinstance(value, Mapping) else None,
                )
            )
            continue
        lazy[name] = LazyTensor.of(value.detach() if value.requires_grad else value)
    raise_problems(problems)
    return lazy
