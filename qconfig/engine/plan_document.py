"""The plan: what will be done to each parameter and why; plain data that goes to JSON and back."""

from collections import Counter
from collections.abc import Mapping
from enum import Enum, StrEnum
from math import prod
from typing import Any, ClassVar, Self

import attrs
from attrs import field, frozen
from cattrs import Converter

from qconfig.codec.converter import make_converter, unstructure
from qconfig.codec.dtypes import DType
from qconfig.codec.layout_values import counted
from qconfig.codec.structure_hooks import Hook, collect
from qconfig.errors import (
    FieldError,
    QconfigError,
    UnknownFieldError,
    json_pointer,
    nearest,
    raise_problems,
)
from qconfig.rules.assignment import How
from qconfig.versioning import Config

_TAGS = {"type": "Plan", "version": 1}


class Action(StrEnum):
    """What is done to a parameter."""

    QUANTIZE = "quantize"
    SKIP = "skip"
    TIED = "tied"


@frozen
class PlanEntry:
    """What is done to one parameter.

    Args:
        fqn: its name.
        shape: its dimensions.
        dtype: its element type.
        module_class: class of its module, or None if unknown.
        action: what is done.
        reason: why, in words.
        rule: number of the rule that won it, or None.
        how: by what it was reached.
        config: name of the config that reached it, or None.
        layout: name of the layout that it will have, or None if it stays as it is.
        layout_version: version of that layout.
        tied_to: the name under which the same tensor is treated, for action `tied`.
        bytes_before: bytes of the elements; 0 for a tied name, which has none of its own.
        bytes_after: bytes of all inner tensors.
    """

    derived: ClassVar[tuple[str, ...]] = ("bits_per_weight",)
    unsaid_if_empty: ClassVar[frozenset[str]] = frozenset()

    fqn: str
    shape: tuple[int, ...]
    dtype: DType
    module_class: str | None
    action: Action
    reason: str
    rule: int | None
    how: How
    config: str | None
    layout: str | None
    layout_version: int | None
    tied_to: str | None
    bytes_before: int
    bytes_after: int

    @property
    def bits_per_weight(self) -> float | None:
        """Bits that an element takes afterwards, scales included; None if there is none."""
        count = 0 if self.tied_to else prod(self.shape)
        return round(self.bytes_after * 8 / count, 4) if count else None


@frozen
class ModuleEntry:
    """What is done to one module without parameters, by a rule that names it or its class.

    Args:
        fqn: its name.
        module_class: its class.
        action: what is done.
        reason: why, in words.
        rule: number of the rule that won it, or None.
        how: by what it was reached.
        config: name of the config that reached it, or None.
        tied_to: the name under which the same module is treated, for action `tied`.
    """

    derived: ClassVar[tuple[str, ...]] = ()
    unsaid_if_empty: ClassVar[frozenset[str]] = frozenset()

    fqn: str
    module_class: str
    action: Action
    reason: str
    rule: int | None
    how: How
    config: str | None
    tied_to: str | None


@frozen
class RuleReport:
    """What a rule did.

    Args:
        match: what it matches, as written.
        use: name of its config, or None.
        hits: how many parameters it won, and modules without any.
        quantized: how many of those are quantized.
    """

    derived: ClassVar[tuple[str, ...]] = ()
    unsaid_if_empty: ClassVar[frozenset[str]] = frozenset()

    match: str
    use: str | None
    hits: int
    quantized: int


@frozen
class Plan:
    """What will be done to every parameter.

    Args:
        entries: one for each parameter, in the order they were given.
        rules: one for each rule, in order.
        notes: what deserves a look and is no error.
        configs: the configs by name, as entries refer to them.
        modules: one for each module without parameters that a rule names for a config that can
            serve it; documents leave them out if there are none.
    """

    derived: ClassVar[tuple[str, ...]] = ("totals",)
    unsaid_if_empty: ClassVar[frozenset[str]] = frozenset({"modules"})

    entries: tuple[PlanEntry, ...] = field(repr=counted)
    rules: tuple[RuleReport, ...] = field(repr=counted)
    notes: tuple[str, ...]
    configs: dict[str, Config]
    modules: tuple[ModuleEntry, ...] = field(default=(), repr=counted)

    def __str__(self) -> str:
        """Return how much is quantized, and how large it will be, in one line."""
        totals = self.totals
        modules = totals.get("modules")
        return (
            f"{totals['quantize']} of {totals['parameters']} tensors quantized, "
            f"{totals['bytes_before']:,} -> {totals['bytes_after']:,} bytes, "
            f"{totals['bits_per_weight']} bits/weight"
        ) + (f", {modules} module{'s' * (modules != 1)} quantized" if self.modules else "")

    @property
    def totals(self) -> dict[str, Any]:
        """Counts by action, bytes before and after, and bits per weight over all parameters.

        If modules without parameters are among what is planned, the number of those that are
        quantized.
        """
        actions = Counter(entry.action for entry in self.entries)
        after = sum(entry.bytes_after for entry in self.entries)
        weights = sum(prod(e.shape) for e in self.entries if not e.tied_to)
        return {
            "parameters": len(self.entries),
            **{action.value: actions[action] for action in Action},
            "bytes_before": sum(entry.bytes_before for entry in self.entries),
            "bytes_after": after,
            "bits_per_weight": round(after * 8 / weights, 4) if weights else None,
            **({"modules": self._quantized_modules()} if self.modules else {}),
        }

    def _quantized_modules(self) -> int:
        return sum(entry.action is Action.QUANTIZE for entry in self.modules)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON has it, with what follows from it (totals, bits per weight)."""
        document: dict[str, Any] = _TAGS | _plain(self)
        return document

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Return the plan of a document that `to_dict` made.

        Raises:
            DocumentError: everything that is wrong with it, each problem with its JSON pointer.
        """
        if isinstance(data, Mapping):
            problems: list[QconfigError] = [
                FieldError(
                    "not a plan", pointer=f"/{tag}", found=data.get(tag), expected=repr(value)
                )
                for tag, value in _TAGS.items()
                if data.get(tag) != value
            ]
            raise_problems(problems)
            data = {key: value for key, value in data.items() if key not in _TAGS}
        plan: Self = _CONVERTER.get_structure_hook(cls)(data, cls)
        return plan


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, PlanEntry | ModuleEntry | RuleReport | Plan):
        names = [*attrs.fields_dict(type(value)), *value.derived]
        values = {name: _plain(getattr(value, name)) for name in names}
        return {k: v for k, v in values.items() if v or k not in value.unsaid_if_empty}
    if isinstance(value, dict):
        return {key: unstructure(item) for key, item in value.items()}
    return value


def _hook(converter: Converter, cls: Any) -> Hook:
    """Structure one class of this module: all fields given, and what follows from them true."""
    types = {field.name: field.type for field in attrs.fields(attrs.resolve_types(cls))}
    hooks = {name: converter.get_structure_hook(kind) for name, kind in types.items()}
    known = {*types, *cls.derived}

    def structure(data: Any, _: Any) -> Any:
        if not isinstance(data, Mapping):
            raise FieldError("wrong type", found=data, expected="an object")
        problems: list[QconfigError] = [
            UnknownFieldError(
                "unknown field", pointer=json_pointer(key), found=key, hint=nearest(str(key), known)
            )
            for key in data
            if key not in known
        ]
        values = {}
        for name, hook in hooks.items():
            if name not in data:
                if name in cls.unsaid_if_empty:
                    continue
                problems.append(FieldError("missing field", pointer=f"/{name}"))
                continue
            values[name] = collect(problems, f"/{name}", hook, data[name], types[name])
        raise_problems(problems)
        result = cls(**values)
        raise_problems(_contradictions(result, data))
        return result

    return structure


def _contradictions(value: Any, data: Mapping[str, Any]) -> list[QconfigError]:
    return [
        FieldError(
            "does not follow from the other fields",
            pointer=f"/{name}",
            found=data[name],
            expected=repr(getattr(value, name)),
        )
        for name in value.derived
        if name in data and data[name] != getattr(value, name)
    ]


def _make_converter() -> Converter:
    converter = make_converter()
    converter.register_structure_hook_factory(
        lambda kind: kind in (Plan, PlanEntry, ModuleEntry, RuleReport),
        lambda kind: _hook(converter, kind),
    )
    return converter


_CONVERTER = _make_converter()
