"""What the rules of an `FqnToConfig` decided, target by target and rule by rule."""

from enum import StrEnum

from attrs import frozen

from qconfig.builders.base import ModuleTarget, Target


class How(StrEnum):
    """By what a target got its config or was left alone."""

    EXACT_PARAMETER = "exact_parameter"
    EXACT_MODULE = "exact_module"
    PARAMETER_PATTERN = "parameter_pattern"
    MODULE_PATTERN = "module_pattern"
    DEFAULT = "default"
    NONE = "none"

    @property
    def is_exact(self) -> bool:
        """Whether a rule gave the very name."""
        return self in (How.EXACT_PARAMETER, How.EXACT_MODULE)


@frozen
class Decision:
    """The rule that won a target.

    Args:
        rule: its number, or None if the default or nothing reached the target.
        how: by what.
        config: name of the config; None leaves the target alone.
    """

    rule: int | None
    how: How
    config: str | None


@frozen
class Assignment:
    """Decisions about targets.

    Args:
        targets: what was asked about.
        decisions: one for each target, in the same order.
        hits: how many targets and modules each rule won.
        unmatched: numbers of the rules that match no target and are not optional.
        shadowed: numbers of the rules that match targets, each of which another rule won.
        modules: the modules without parameters that were asked about.
        module_decisions: one for each of those, in the same order.
    """

    targets: tuple[Target, ...]
    decisions: tuple[Decision, ...]
    hits: tuple[int, ...]
    unmatched: tuple[int, ...]
    shadowed: tuple[int, ...]
    modules: tuple[ModuleTarget, ...] = ()
    module_decisions: tuple[Decision, ...] = ()
