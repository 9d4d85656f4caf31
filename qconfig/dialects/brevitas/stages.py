"""A state_dict on its way to our names: what it holds, and what was done to it so far."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

from attrs import evolve, field, frozen

from qconfig.codec.tensor_values import LazyTensor
from qconfig.dialects.brevitas.quantizer_keys import QuantizerKey, parsed
from qconfig.errors import QconfigError
from qconfig.versioning import Config


class Done(StrEnum):
    """What happened to a key."""

    RENAMED = "renamed"
    DROPPED = "dropped"
    DERIVED = "derived"
    INITIALISED = "initialised"
    EXPANDED = "expanded"
    ADDED = "added"


@frozen
class Change:
    """One thing that was done.

    Args:
        done: what.
        before: keys of the old state_dict that it was done to.
        after: key of the new one; None where nothing is left.
        why: in words.
    """

    done: Done
    before: tuple[str, ...]
    after: str | None
    why: str

    def __str__(self) -> str:
        names = [" and ".join(self.before), self.after or ""]
        return f"{' -> '.join(name for name in names if name)}: {self.done} ({self.why})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a report."""
        return {
            "done": self.done.value,
            "before": list(self.before),
            "after": self.after,
            "why": self.why,
        }


@frozen
class Stage:
    """A state_dict between two steps; steps return another one and change none.

    Args:
        state: tensors by name.
        changes: what was done.
        ambiguities: what the file does not say, and what was taken.
        problems: what stands against it.
    """

    state: Mapping[str, LazyTensor] = field(repr=False)
    changes: tuple[Change, ...] = ()
    ambiguities: tuple[str, ...] = ()
    problems: tuple[QconfigError, ...] = ()

    def quantizer_keys(self) -> list[QuantizerKey]:
        """Return the keys of quantizers, taken apart."""
        return [key for key in map(parsed, self.state) if key is not None]

    def without(self, names: Iterable[str]) -> "Stage":
        """Return the stage without some tensors."""
        gone = set(names)
        return evolve(self, state={n: t for n, t in self.state.items() if n not in gone})

    def replaced(self, name: str, new: str, tensor: LazyTensor) -> "Stage":
        """Return the stage with a tensor in the place of another, under a new name."""
        state = {(new if n == name else n): (tensor if n == name else t) for n, t in self.items()}
        return evolve(self, state=state)

    def adding(self, tensors: Mapping[str, LazyTensor]) -> "Stage":
        """Return the stage with more tensors."""
        return evolve(self, state={**self.state, **tensors})

    def items(self) -> Iterable[tuple[str, LazyTensor]]:
        """Return names and tensors."""
        return self.state.items()

    def noting(
        self,
        changes: Iterable[Change] = (),
        problems: Iterable[QconfigError] = (),
        ambiguities: Iterable[str] = (),
    ) -> "Stage":
        """Return the stage with more that was done or found."""
        return evolve(
            self,
            changes=(*self.changes, *changes),
            problems=(*self.problems, *problems),
            ambiguities=(*self.ambiguities, *ambiguities),
        )


@frozen
class Settings:
    """What decides how a state_dict is converted.

    Args:
        config_of: gives the config of a quantizer by layer and role, or None.
        reached: layers that a config reaches, with the roles that it gives them.
        missing: policies by patterns of names, in their order.
        dropped: patterns of names that may be left out.
        expanded: patterns of names of one number that may be repeated for all channels.
        shapes: shapes of the tensors that are to be filled, by new name, where a model has them.
        norms: batch norms that are folded, and the layers into which; a norm itself for a scale
            and a bias in its place.
        eps: of those norms.
    """

    config_of: Callable[[str, str], Config | None]
    reached: Mapping[str, tuple[str, ...]]
    missing: Mapping[str, str] = field(factory=dict)
    dropped: tuple[str, ...] = ()
    expanded: tuple[str, ...] = ()
    shapes: Mapping[str, tuple[int, ...]] | None = None
    norms: Mapping[str, str] = field(factory=dict)
    eps: float = 1e-5


Step = Callable[[Stage, Settings], Stage]
