"""Where the tensors of a checkpoint are not what its config makes of such weights."""

from pathlib import Path
from typing import Any

import attrs

from qconfig.builders.base import Target, builder_of
from qconfig.checkpoints.checkpoint import Checkpoint
from qconfig.configs.choices import Int4PackingFormat
from qconfig.configs.fqn_to_config import FqnToConfig
from qconfig.engine.chosen import chosen_config
from qconfig.engine.plan import make_plan
from qconfig.engine.plan_document import Action
from qconfig.engine.targets import inferred_class, named_targets
from qconfig.errors import CheckpointError, QconfigError
from qconfig.versioning import Config, plain_fields, registry

_UNSAID = frozenset({"arithmetic", "rounds_products", "rounds_scales", "is_swizzled_scales"})
"""Fields of layouts that no config decides: how the library that wrote a tensor computed with it,
and in which order it stored scales."""


def contradictions(checkpoint: Checkpoint, config: Config, file: Path) -> list[QconfigError]:
    """Return a problem for each tensor that is not what a config says, quantized or plain.

    Args:
        checkpoint: an open one.
        config: its config, in the current version.
        file: where that stands, for errors.

    Raises:
        QconfigError: the config cannot be used on these tensors.
    """
    current: dict[str, Any] = {f: registry.convert(x) for f, x in checkpoint.layouts.items()}
    plain = named_targets((n, t.shape, t.dtype) for n, t in checkpoint.plain.items())
    quantized = [
        Target(fqn, tuple(x.shape), x.dtype, inferred_class(fqn, len(x.shape)))
        for fqn, x in current.items()
    ]
    plan = make_plan([*plain, *quantized], _as_stored(config), allow_unmatched=True)
    problems: list[QconfigError] = []
    for entry in plan.entries:
        found = current.get(entry.fqn)
        expected = None
        if entry.action is Action.QUANTIZE:
            chosen = chosen_config(plan, entry)
            target = Target(entry.fqn, entry.shape, entry.dtype)
            expected = builder_of(chosen).layout(chosen, target)
        if difference := _difference(found, expected):
            problems.append(
                CheckpointError(
                    "the stored config says otherwise",
                    file=file,
                    fqn=entry.fqn,
                    found=difference[0],
                    expected=difference[1],
                )
            )
    return problems


def _as_stored(config: Any) -> Any:
    """Return a config with int4 codes packed plainly: other orders are those of kernels.

    Checkpoints hold the plain order whatever the config says.
    """
    changes: dict[str, Any] = {}
    if isinstance(config, FqnToConfig):
        changes["configs"] = {name: _as_stored(c) for name, c in config.configs.items()}
    elif isinstance(getattr(config, "base_config", None), Config):
        changes["base_config"] = _as_stored(config.base_config)
    elif hasattr(config, "int4_packing_format"):
        changes["int4_packing_format"] = Int4PackingFormat.PLAIN
    return attrs.evolve(config, **changes)


def _difference(found: Any, expected: Any) -> tuple[str, str] | None:
    """Return what a stored layout is and what the config makes of it, where they differ."""
    if type(found) is not type(expected):
        return _described(found), _described(expected)
    if found is None:
        return None
    said, wanted = _said(found), _said(expected)
    for name, value in said.items():
        if value != wanted[name]:
            pair = getattr(found, name), getattr(expected, name)
            return f"{name} {pair[0]}", f"{name} {pair[1]}"
    return None


def _said(layout: Any) -> dict[str, Any]:
    """Return the fields of a layout that a config decides, in a form that can be compared."""
    fields = {f.name: _comparable(getattr(layout, f.name)) for f in plain_fields(type(layout))}
    shape = tuple(layout.shape)
    block = fields.get("block_size")
    if isinstance(block, tuple) and len(block) == len(shape):
        # A block that is larger than the tensor is the whole of it.
        fields["block_size"] = tuple(map(min, block, shape))
    return {name: value for name, value in fields.items() if name not in _UNSAID}


def _comparable(value: Any) -> Any:
    if not attrs.has(type(value)):
        return value
    parts = attrs.asdict(value, recurse=False)
    return type(value), {k: _comparable(v) for k, v in parts.items() if k not in _UNSAID}


def _described(layout: Any) -> str:
    return "a plain tensor" if layout is None else type(layout).__name__
