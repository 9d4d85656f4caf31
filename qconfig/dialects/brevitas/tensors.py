"""A NamedTuple of Brevitas as one of our layouts, in the version that has its fields."""

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from qconfig.checkpoints.origin import Origin
from qconfig.dialects.brevitas.fields import checked_fields
from qconfig.dialects.brevitas.forms import INT, OLD_INT, Form
from qconfig.dialects.brevitas.repairs import Repaired, in_groups, old_integers, with_widths
from qconfig.versioning import Layout, registry

_UNSAID = "no class is named beside the fields; they are taken for those of {}"
_UNSHAPED = "the logical shape is not said; no group is taken to be filled up"
_COUNTED = "group_dim {} of 0.11 counted the stored dimensions; it is {} of the logical ones"
_EXCHANGED = (
    "0.11 made {0} groups of {1} along the last dimension where groups of {0} were asked for; "
    "group_size is what it made"
)
_OLD_NAME = "QuantTensor"


@frozen
class Read:
    """A quantized tensor, read.

    Args:
        layout: version 1 of ours: the fields of Brevitas.
        origin: what it was.
    """

    layout: Layout
    origin: Origin


def read_tensor(form: Form, given: Mapping[str, Any], path: str | None) -> Read:
    """Return the layout of a NamedTuple.

    Args:
        form: its class and length.
        given: its fields by name.
        path: the class path that the file has; None where fields stand without a class.

    Raises:
        LayoutError: a field is of a wrong kind, or fields contradict each other.
    """
    fields = checked_fields(form, given)
    changes: list[str] = []
    ambiguities: list[str] = [] if path is not None else [_UNSAID.format(form.name)]
    if form.is_groupwise:
        _say_shape(fields, form, changes, ambiguities)
    repaired = _repaired(form, fields, path)
    layout = registry.get(form.layout, 1).cls(**repaired.fields)
    origin = Origin(
        _OLD_NAME if path == OLD_INT else form.name,
        _releases(form, path),
        changes=(*changes, *repaired.changes),
        ambiguities=(*ambiguities, *repaired.ambiguities),
    )
    # The step to the current version checks shapes; what it refuses is refused here already.
    registry.convert(layout)
    return Read(layout, origin)


def _releases(form: Form, path: str | None) -> str:
    if form is not INT or path is None:
        return form.releases
    return "0.8 to 0.10" if path == OLD_INT else "0.11 to 0.13"


def _say_shape(
    fields: dict[str, Any], form: Form, changes: list[str], ambiguities: list[str]
) -> None:
    if "dequant_shape" not in form.fields:
        fields["dequant_shape"] = None
        dim = fields["group_dim"]
        if dim < -1:
            # 0.11 joined the stored dimensions (d, d + 1), or (-2, -1) for -1.
            fields["group_dim"] = dim + 1
            changes.append(_COUNTED.format(dim, dim + 1))
        size, stored = fields["group_size"], fields["value_"].shape
        if dim < 0 and len(stored) > 1 and stored[-1] != size == stored[-2]:
            fields["group_size"] = stored[-1]
            changes.append(_EXCHANGED.format(size, stored[-1]))
    elif fields["dequant_shape"] is None:
        ambiguities.append(_UNSHAPED)


def _repaired(form: Form, fields: dict[str, Any], path: str | None) -> Repaired:
    if form.is_groupwise:
        return in_groups(fields)
    if form.is_float:
        return with_widths(fields)
    if form is INT and path == OLD_INT:
        return old_integers(fields)
    return Repaired(fields)
