"""What an upgrade or conversion of a checkpoint does, tensors of one kind together."""

from typing import TYPE_CHECKING, Any

from qconfig.cli.output import Output, counted

if TYPE_CHECKING:
    from qconfig.checkpoints.report import CheckpointReport, TensorReport


def show_chains(done: "CheckpointReport", output: Output) -> None:
    """Print what was found, which steps it takes, and what is not carried or not known."""
    counts: dict[Any, int] = {}
    for tensor in done.tensors:
        if tensor.becomes != str(tensor.source) or tensor.origin is not None:
            key = _kind(tensor)
            counts[key] = counts.get(key, 0) + 1
    for (found, before, after, steps, changes, ambiguities), count in counts.items():
        prefix = "" if found is None else f"{found}: "
        output.line(f"{prefix}{before} -> {after}: {counted(count, 'tensor')}", bold=True)
        for text, drops in steps:
            output.line(f"  {text}")
            if drops is not None:
                output.line(f"            drops {drops}", fg="yellow")
        for text in changes:
            output.line(f"  changes: {text}", fg="yellow")
        for text in ambiguities:
            output.line(f"  not known: {text}", fg="yellow")


def _kind(tensor: "TensorReport") -> Any:
    origin = tensor.origin
    steps = tuple((f"{_edge(s)}  {s.doc}", s.drops) for s in tensor.steps)
    before, after = str(tensor.source), tensor.becomes
    if origin is None:
        return (None, before, after, steps, (), ())
    found = origin.type if origin.releases is None else f"{origin.type} of {origin.releases}"
    return (found, before, after, steps, origin.changes, origin.ambiguities)


def _edge(step: Any) -> str:
    if step.source.name == step.target.name:
        return f"v{step.source.version} -> v{step.target.version}"
    return f"v{step.source.version} -> {step.target}"
