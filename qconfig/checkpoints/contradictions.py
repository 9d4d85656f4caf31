"""Where the tensors of a checkpoint are not what its config makes of such weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

from qconfig.builders.base import ChecksLayouts, Target, TrainingBuilder, builder_of
from qconfig.checkpoints.checkpoint import CONFIG_FILE, Checkpoint
from qconfig.checkpoints.config_json import QUANT_METHOD
from qconfig.codec.converter import structure_any
from qconfig.codec.tensor_values import LazyTensor
from qconfig.engine.chosen import chosen_config
from qconfig.engine.plan import make_plan
from qconfig.engine.plan_document import Action, Plan, PlanEntry
from qconfig.engine.targets import inferred_class, named_targets
from qconfig.errors import CheckpointError, QconfigError
from qconfig.rules.matcher import rules_of
from qconfig.versioning import (
    Config,
    Layout,
    info_of,
    plain_fields,
    registry,
    tensor_fields,
)


@frozen
class Disagreement:
    """A tensor that is not what a config makes of it.

    Args:
        fqn: its name.
        found: its layout in the current version, or None for a plain tensor.
        expected: the layout that the config gives it, with specs for tensors, or None.
        words: both, as far as they differ.
    """

    fqn: str
    found: Layout | None
    expected: Layout | None
    words: tuple[str, str]


def contradictions(checkpoint: Checkpoint, config: Config, file: Path) -> list[QconfigError]:
    """Return a problem for each tensor that is not what a config says, quantized or plain.

    Args:
        checkpoint: an open one.
        config: its config, in the current version.
        file: where that stands, for errors.

    Raises:
        QconfigError: the config cannot be used on these tensors.
    """
    found = disagreements(checkpoint.layouts, checkpoint.plain, config)
    return [_problem(x, file) for x in found]


def config_contradictions(checkpoint: Checkpoint) -> list[QconfigError]:
    """Return a problem for each quantized tensor that our own config beside it denies.

    What stays plain, and configs that cannot be read or do not fit, are for `verify_checkpoint`.

    Args:
        checkpoint: an open one, with or without its config.
    """
    said = checkpoint.left_out or checkpoint.quantization_config
    if not checkpoint.layouts or said is None or said.get("quant_method") != QUANT_METHOD:
        return []
    file = checkpoint.directory / CONFIG_FILE
    try:
        config = structure_any(said.get("config"))
    except QconfigError:
        return []
    return quantized_otherwise(checkpoint.layouts, checkpoint.plain, config, file)


def quantized_otherwise(
    layouts: Mapping[str, Layout],
    plain: Mapping[str, LazyTensor],
    config: Config,
    file: Path | None = None,
) -> list[QconfigError]:
    """Return a problem for each quantized tensor of which a config says that it is another one.

    Args:
        layouts: quantized tensors by FQN, in any version.
        plain: the other tensors.
        config: in the current version; one that does not fit the names denies nothing.
        file: where that stands, for errors.
    """
    if _agree_by_form(layouts, config):
        return []
    try:
        found = disagreements(layouts, plain, config)
    except QconfigError:
        return []
    return [_problem(x, file) for x in found if x.found is not None and x.expected is not None]


def _agree_by_form(layouts: Mapping[str, Layout], config: Config) -> bool:
    """Return whether layouts are what a config says, if one of each form tells of all.

    False too where that does not tell: rules go by whole names, a layout is of an earlier version,
    or values matter. Then each has to be looked at.
    """
    try:
        few = _one_of_each_form(layouts, config)
        return few is not None and not disagreements(few, {}, config)
    except QconfigError:
        return False


def _one_of_each_form(layouts: Mapping[str, Layout], config: Config) -> dict[str, Layout] | None:
    rules = rules_of(config)
    if rules.rules or rules.fused:
        return None
    if any(isinstance(builder_of(x), ChecksLayouts) for x in rules.configs.values()):
        return None
    entries = map(registry.entry_of, {type(layout) for layout in layouts.values()})
    if not all(map(registry.is_current, entries)):
        return None
    found: dict[Any, tuple[str, Layout]] = {}
    for fqn, layout in layouts.items():
        # Without rules, what a weight becomes depends on its module's own name, not on the path.
        module, _, parameter = fqn.rpartition(".")
        key = module.rpartition(".")[2], parameter, _form(layout)
        found.setdefault(key, (fqn, layout))
    return dict(found.values())


def _problem(x: Disagreement, file: Path | None) -> CheckpointError:
    problem = CheckpointError(
        "the stored config says otherwise", fqn=x.fqn, found=x.words[0], expected=x.words[1]
    )
    return problem if file is None else problem.at(file=file)


def disagreements(
    layouts: Mapping[str, Layout], plain: Mapping[str, LazyTensor], config: Config
) -> list[Disagreement]:
    """Return the tensors that are not what a config makes of such weights.

    Incidental fields are not compared, see `qconfig.versioning.attribute`.

    Args:
        layouts: quantized tensors by FQN, in any version.
        plain: the other tensors.
        config: in the current version.

    Raises:
        QconfigError: the config cannot be used on these tensors.
    """
    current: dict[str, Any] = {f: registry.convert(x) for f, x in layouts.items()}
    targets = named_targets((n, t.shape, t.dtype) for n, t in plain.items())
    named = {rule.match for rule in rules_of(config).rules if not rule.modules}
    targets += [_target(fqn, layout, named=fqn in named) for fqn, layout in current.items()]
    plan = make_plan(targets, _as_stored(config), allow_unmatched=True)
    compared = _Comparison(plan, plain)
    result = []
    for entry in plan.entries:
        found = current.get(entry.fqn)
        if found is None and entry.action is not Action.QUANTIZE:
            continue
        expected, words = compared.with_config(entry, found)
        if words is not None:
            result.append(Disagreement(entry.fqn, found, expected, words))
    return result


Words = tuple[str, str] | None


class _Comparison:
    """Compares tensors with what a plan makes of them, those of one form only once.

    A checkpoint of thousands of layers has few forms: a layout with its shapes and types, and the
    config that a rule gives it.
    """

    def __init__(self, plan: Plan, plain: Mapping[str, LazyTensor]) -> None:
        self._plan = plan
        self._plain = plain
        self._by_form: dict[Any, tuple[Layout | None, Words]] = {}
        self._looks_inside: dict[str, bool] = {}

    def with_config(self, entry: PlanEntry, found: Any) -> tuple[Layout | None, Words]:
        """Return what the config makes of a weight, and where what was found differs."""
        if entry.action is Action.QUANTIZE and self._has_values(entry):
            return self._compared(entry, found)
        form = entry.action, entry.config, entry.shape, entry.dtype, _form(found)
        known = self._by_form.get(form)
        if known is None:
            known = self._by_form[form] = self._compared(entry, found)
        return known

    def _has_values(self, entry: PlanEntry) -> bool:
        """Return whether the builder of a config looks at more than forms."""
        name = entry.config or ""
        known = self._looks_inside.get(name)
        if known is None:
            builder = builder_of(chosen_config(self._plan, entry))
            known = isinstance(builder, ChecksLayouts | TrainingBuilder)
            self._looks_inside[name] = known
        return known

    def _compared(self, entry: PlanEntry, found: Any) -> tuple[Layout | None, Words]:
        if entry.action is not Action.QUANTIZE:
            return None, _difference(found, None)
        chosen = chosen_config(self._plan, entry)
        target = Target(entry.fqn, entry.shape, entry.dtype)
        builder = builder_of(chosen)
        expected = builder.layout(chosen, target)
        record = _training_record(builder, entry.fqn, self._plain) if found is None else None
        if record is not None:
            trains: Any = builder
            return expected, trains.training_disagreement(chosen, record.load())
        words = _difference(found, expected) or _in_small(builder, chosen, found, expected)
        return expected, words


def _form(layout: Any) -> Any:
    """Return what two layouts share that differ in the values of their tensors alone, hashable."""
    if layout is None:
        return None
    cls = type(layout)
    tensors = [getattr(layout, f.name) for f in tensor_fields(cls)]
    return (
        cls,
        tuple([getattr(layout, f.name) for f in plain_fields(cls)]),
        tuple([None if t is None else (t.shape, t.dtype) for t in tensors]),
    )


def _training_record(builder: Any, fqn: str, plain: Mapping[str, LazyTensor]) -> LazyTensor | None:
    """Return what is stored beside a weight that still trains; None beside any other."""
    if not isinstance(builder, TrainingBuilder):
        return None
    return plain.get(builder.training_record(fqn))


def _in_small(builder: Any, config: Any, found: Any, expected: Any) -> tuple[str, str] | None:
    """Return where small tensors of a layout differ from its config, if a builder compares them."""
    if not isinstance(builder, ChecksLayouts):
        return None
    return builder.disagreement(config, found, expected)


def gives(config: Config, fqn: str, layout: Layout) -> bool:
    """Return whether a config that a rule gives to a weight makes of it such a layout.

    Args:
        config: one config, in the current version.
        fqn: name of the weight.
        layout: in the current version.
    """
    config, target = _as_stored(config), _target(fqn, layout, named=True)
    try:
        builder = builder_of(config)
        if builder.refusal(config, target) is not None:
            return False
        expected = builder.layout(config, target)
    except QconfigError:
        return False
    return not (_difference(layout, expected) or _in_small(builder, config, layout, expected))


def _target(fqn: str, layout: Any, *, named: bool) -> Target:
    """Return a quantized tensor as the weight that it was.

    A class that is only inferred from its name says nothing against a rule that names it.
    """
    shape = tuple(layout.shape)
    classes = () if named else inferred_class(fqn, len(shape))
    return Target(fqn, shape, layout.dtype, classes, named)


def _as_stored(value: Any) -> Any:
    """Return a config with defaults in its incidental fields, and in those of configs in it."""
    if isinstance(value, Mapping):
        return {key: _as_stored(inner) for key, inner in value.items()}
    if not isinstance(value, Config):
        return value
    cls: Any = type(value)
    fields = {
        f.name: f.default if info_of(f).incidental else _as_stored(getattr(value, f.name))
        for f in plain_fields(cls)
    }
    return cls(**fields)


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
    fields = {
        f.name: _comparable(getattr(layout, f.name))
        for f in plain_fields(type(layout))
        if not info_of(f).incidental
    }
    shape = tuple(layout.shape)
    block = fields.get("block_size")
    if isinstance(block, tuple) and len(block) == len(shape):
        # A block that is larger than the tensor is the whole of it.
        fields["block_size"] = tuple(map(min, block, shape))
    return fields


def _comparable(value: Any) -> Any:
    if not attrs.has(type(value)):
        return value
    fields = (f for f in attrs.fields(type(value)) if not info_of(f).incidental)
    return type(value), {f.name: _comparable(getattr(value, f.name)) for f in fields}


def _described(layout: Any) -> str:
    return "a plain tensor" if layout is None else type(layout).__name__
