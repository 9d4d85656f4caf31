"""Ask builders what a config makes of a parameter, without making it."""

from attrs import frozen

from qconfig.builders.base import (
    PREPARED,
    ActivationModuleBuilder,
    Builder,
    ModuleBuilder,
    ModuleTarget,
    Target,
    builder_of,
    builders,
)
from qconfig.codec.dtypes import DType
from qconfig.codec.layout_values import layout_nbytes
from qconfig.errors import BuildError, QconfigError
from qconfig.versioning import Config, registry


@frozen
class PlannedLayout:
    """The layout that a parameter will have, and the bytes of its inner tensors."""

    name: str
    version: int
    bytes: int


def serving_modules(configs: dict[str, Config]) -> set[str]:
    """Return the names of those configs that can serve modules without parameters."""
    known = builders()
    return {
        name
        for name, config in configs.items()
        if isinstance(known.get(type(config)), ActivationModuleBuilder)
    }


class ConfigBuilders:
    """The builders of the configs of one document; layouts are remembered by shape and dtype.

    Problems are collected in `problems`, one for each config without a builder, and one for each
    shape that a config does not fit.

    Args:
        configs: configs by name.
        used: the names that are needed.
        root: JSON pointer of the place where the configs lie.
    """

    def __init__(self, configs: dict[str, Config], used: set[str], root: str) -> None:
        self.problems: list[QconfigError] = []
        self._configs = configs
        self._root = root
        self._builders: dict[str, Builder] = {}
        self._planned: dict[tuple[str, tuple[int, ...], DType], PlannedLayout | None] = {}
        for name in (name for name in configs if name in used):
            try:
                self._builders[name] = builder_of(configs[name])
            except QconfigError as error:
                self.problems.append(error.at(pointer_prefix=self._pointer(name)))

    def refusal(self, name: str, target: Target) -> str | None:
        """Return why a config cannot serve a parameter, or None."""
        builder = self._builders.get(name)
        if builder is None:
            return "no builder"
        if PREPARED in target.module_classes and not isinstance(builder, ModuleBuilder):
            return "the module is prepared for training: convert it first"
        return builder.refusal(self._configs[name], target)

    def module_refusal(self, name: str, target: ModuleTarget) -> str | None:
        """Return why a config cannot serve a module without parameters, or None."""
        builder = self._builders.get(name)
        if not isinstance(builder, ActivationModuleBuilder):
            return "the module has no parameters"
        return builder.activation_refusal(self._configs[name], target)

    def planned(self, name: str, target: Target) -> PlannedLayout | None:
        """Return what a config that does not refuse makes of a parameter; None after a problem."""
        key = (name, target.shape, target.dtype)
        if key not in self._planned:
            self._planned[key] = self._ask(name, target)
        return self._planned[key]

    def _ask(self, name: str, target: Target) -> PlannedLayout | None:
        try:
            layout = self._builders[name].layout(self._configs[name], target)
        except QconfigError as error:
            for problem in error.problems:
                wrapped = BuildError(
                    f"{name}: {problem.message}",
                    fqn=target.fqn,
                    pointer=self._pointer(name) + (problem.pointer or ""),
                    expected=problem.expected,
                    hint=problem.hint,
                )
                wrapped.found = problem.found
                self.problems.append(wrapped)
            return None
        entry = registry.entry_of(type(layout))
        return PlannedLayout(entry.name, entry.version, layout_nbytes(layout))

    def _pointer(self, name: str) -> str:
        return f"{self._root}/{name}" if self._root else ""
