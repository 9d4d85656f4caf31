"""`qconfig diff`: what differs between two configs or two checkpoints."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qconfig.cli.differences import Difference, differences
from qconfig.cli.kinds import is_checkpoint
from qconfig.cli.output import Output, counted, shape_text
from qconfig.cli.verb import PATH, follow_symlinks, verb
from qconfig.errors import StorageError, UsageError

if TYPE_CHECKING:
    from qconfig.checkpoints.inspect import Inspection, TensorSummary

_MAX_SHOWN = 200
_MARKS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}


@verb("diff", "Compare two configs or two checkpoints.", example="qconfig diff old.json new.json")
@click.argument("a", type=PATH)
@click.argument("b", type=PATH)
@click.option(
    "--from",
    "dialects",
    multiple=True,
    metavar="DIALECT",
    help="In whose form both checkpoints are; said twice, of A and of B. Found out otherwise.",
)
@follow_symlinks
def command(
    *, a: Path, b: Path, dialects: tuple[str, ...], follow_symlinks: bool, output: Output
) -> int:
    """Show what differs between A and B, two configs or two checkpoints; exit code 1 if anything.

    Configs are brought to their current version first. Of checkpoints, names, layouts, shapes,
    dtypes, sizes and the config are compared; values are not.
    """
    for path in (a, b):
        if not path.exists():
            raise StorageError("no such file or directory", file=path)
    if len(dialects) > len((a, b)):
        raise UsageError("--from is said once, or of A and of B", found=dialects)
    sides = tuple(zip((a, b), (*dialects, *dialects)[:2] or (None, None), strict=True))
    kinds = {is_checkpoint(path, dialect) for path, dialect in sides}
    if len(kinds) > 1:
        raise UsageError(
            "a config and a checkpoint cannot be compared",
            found=f"{a} and {b}",
            expected="two configs or two checkpoints",
        )
    if True in kinds:
        from qconfig.checkpoints.inspect import inspect_checkpoint

        before, after = (
            inspect_checkpoint(path, follow_symlinks=follow_symlinks, dialect=dialect)
            for path, dialect in sides
        )
        found = checkpoint_differences(before, after)
        output.note("note: names, layouts, shapes, dtypes and sizes are compared, values are not")
    else:
        from qconfig.api import config_to_dict, load_config

        old, new = (config_to_dict(load_config(path)) for path in (a, b))
        found = list(differences(old, new))
    if output.as_json:
        output.result({"equal": not found, "differences": [d.to_dict() for d in found]})
    else:
        for difference in found:
            _show(difference, output)
        output.line(counted(len(found), "difference") if found else "no differences")
    return 1 if found else 0


def checkpoint_differences(before: "Inspection", after: "Inspection") -> list[Difference]:
    """Return what differs between two checkpoints, with pointers like `/tensors/<fqn>/dtype`."""
    return list(differences(_document(before), _document(after)))


def _document(inspection: "Inspection") -> dict[str, Any]:
    return {
        "quantization_config": inspection.quantization_config,
        "ties": inspection.ties,
        "tensors": {t.fqn: _tensor(t) for t in inspection.tensors},
    }


def _tensor(tensor: "TensorSummary") -> dict[str, Any]:
    layout = None if tensor.layout is None else f"{tensor.layout} v{tensor.version}"
    return {
        "layout": layout,
        "shape": shape_text(tensor.shape),
        "dtype": tensor.dtype,
        "bytes": tensor.bytes,
    }


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def _show(difference: Difference, output: Output) -> None:
    mark, colour = _MARKS[difference.change]
    sides = difference.to_dict()
    values = " -> ".join(_short(sides[side]) for side in ("before", "after") if side in sides)
    output.line(f"{mark} {difference.pointer or '/'}: {values}", fg=colour)
