"""What a quantized tensor was before it had a layout of ours, for reports."""

from typing import Any

from attrs import frozen

from qconfig.versioning import Step


@frozen
class Origin:
    """Where a tensor of another library comes from.

    Args:
        type: the class, or the classes around each other, that stored it.
        releases: releases that wrote this form, such as `"0.9 to 0.17"`; None if unknown.
        steps: steps of ours that reading it has taken already.
        changes: what is not carried exactly, and by how much.
        ambiguities: what the file does not say, and what was taken.
    """

    type: str
    releases: str | None = None
    steps: tuple[Step, ...] = ()
    changes: tuple[str, ...] = ()
    ambiguities: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether values and products are the writer's, and nothing about them had to be taken."""
        return not self.changes and not self.ambiguities

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for a report."""
        return {
            "type": self.type,
            "releases": self.releases,
            "changes": list(self.changes),
            "ambiguities": list(self.ambiguities),
        }
