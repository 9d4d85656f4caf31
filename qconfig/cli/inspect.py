"""`qconfig inspect`: what a checkpoint holds, from its headers."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qconfig.cli.kinds import is_checkpoint
from qconfig.cli.output import Output, counted, human_bytes, shape_text
from qconfig.cli.tables import Column, markdown
from qconfig.cli.verb import PATH, dialect, follow_symlinks, place, verb, without_config, writer
from qconfig.codec.documents import FORMATS
from qconfig.errors import UsageError, printable

if TYPE_CHECKING:
    from qconfig.checkpoints.inspect import Inspection

_COLUMNS = (
    Column("tensor"),
    Column("shape"),
    Column("dtype"),
    Column("layout"),
    Column("bytes", right=True),
    Column("bits/weight", right=True),
    Column("file"),
)
_NUMBERS = Column("numbers")


@verb(
    "inspect", "Show what a checkpoint holds.", example="qconfig inspect model-int8/ --no-tensors"
)
@click.argument("path", type=PATH)
@click.option("--no-tensors", is_flag=True, help="Only the summary.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown, for a model card.")
@dialect
@writer
@without_config
@place
@follow_symlinks
def command(
    *,
    path: Path,
    no_tensors: bool,
    as_markdown: bool,
    dialect: str | None,
    writer: str | None,
    without_config: bool,
    key: str | None,
    strip_prefix: str,
    follow_symlinks: bool,
    output: Output,
) -> None:
    """Show what a checkpoint holds: sizes, layouts and their versions, tensor by tensor.

    PATH is a directory in Hugging Face shape or one file. Only headers are read, of pickles the
    names and shapes in them, and of torchao's tensors a few that decide how others are read.
    """
    if as_markdown and output.as_json:
        raise UsageError("--markdown and --json exclude each other", hint="choose one")
    from qconfig.checkpoints.inspect import inspect_checkpoint

    if path.suffix.lower() in FORMATS and path.is_file():
        raise UsageError(
            "inspect shows checkpoints",
            file=path,
            expected="a directory, a safetensors file or one that torch.save wrote",
            hint="qconfig validate checks a config",
        )
    if not is_checkpoint(path, dialect) and path.is_file():
        raise UsageError(
            "not a checkpoint",
            file=path,
            expected="a file named *.safetensors, or *.pt, *.pth, *.bin or *.ckpt",
            hint="say --from torchao-pickle for a file of torch.save under another name",
        )
    inspection = inspect_checkpoint(
        path,
        follow_symlinks=follow_symlinks,
        dialect=dialect,
        writer=writer,
        keep_config=not without_config,
        key=key,
        strip_prefix=strip_prefix,
    )
    if output.as_json:
        result = inspection.to_dict()
        if no_tensors:
            del result["tensors"]
        output.result(result)
    elif as_markdown:
        _show_markdown(inspection, output, tensors=not no_tensors)
    else:
        if not no_tensors:
            output.table(_columns(inspection), _rows(inspection))
            output.line()
        for what, value in _summary(inspection):
            output.line(f"{what + ':':<14}{value}")
    output.notes(inspection.notes)
    output.notes(f"{t} ({counted(n, 'tensor')})" for t, n in inspection.remarks.items())
    if inspection.outdated:
        said = [f"--from {dialect}"] if dialect is not None else []
        said += [f"--key {key}"] if key is not None else []
        said += [f"--strip-prefix {strip_prefix}"] if strip_prefix else []
        said += ["--config FILE"] if inspection.needs_config else []
        words = " ".join(["qconfig upgrade", str(path), "TARGET", *said])
        output.note(f"note: not in today's form; {words} writes it")


def _summary(inspection: "Inspection") -> list[tuple[str, str]]:
    layouts = [f"{n} v{v} ({count})" for (n, v), count in inspection.layouts.items()]
    origins = Counter(t.origin for t in inspection.tensors if t.origin is not None)
    plain = sum(t.layout is None for t in inspection.tensors)
    summary = [
        ("checkpoint", inspection.path),
        ("form", inspection.dialect),
        ("files", str(len(inspection.shards))),
        ("tensors", f"{len(inspection.tensors)}, {plain} of them plain"),
        ("layouts", ", ".join(layouts) or "none"),
        *(("written as", f"{name} ({n})") for name, n in sorted(origins.items())),
        ("size", human_bytes(inspection.total_bytes)),
        ("bits/weight", f"{inspection.bits_per_weight:.2f}"),
    ]
    if inspection.ties:
        summary.append(("tied names", str(len(inspection.ties))))
    config = inspection.quantization_config
    if isinstance(config, dict):
        document = config.get("config")
        kind = document.get("type") if isinstance(document, dict) else None
        summary.append(
            ("quantized by", ", ".join(map(str, filter(None, [config.get("quant_method"), kind]))))
        )
    return summary


def _columns(inspection: "Inspection") -> tuple[Column, ...]:
    """Return the columns of the table; that of numbers where some tensor has any."""
    return (*_COLUMNS, _NUMBERS) if any(t.numbers for t in inspection.tensors) else _COLUMNS


def _number(name: str, value: Any) -> str:
    is_word = isinstance(value, bool | str)
    return f"{name} {str(value).lower() if is_word else format(value, '.4g')}"


def _rows(inspection: "Inspection") -> list[list[str]]:
    has_numbers = _NUMBERS in _columns(inspection)
    return [
        [
            t.fqn,
            shape_text(t.shape),
            t.dtype,
            "" if t.layout is None else f"{t.layout} v{t.version}",
            str(t.bytes),
            f"{t.bits_per_weight:.2f}",
            t.shard,
            *([", ".join(_number(*pair) for pair in t.numbers.items())] if has_numbers else []),
        ]
        for t in inspection.tensors
    ]


def _show_markdown(inspection: "Inspection", output: Output, *, tensors: bool) -> None:
    summary = [[printable(cell) for cell in row] for row in _summary(inspection)]
    for line in markdown((Column("what"), Column("value")), summary):
        output.line(line)
    if tensors:
        output.line()
        rows = [[printable(cell) for cell in row] for row in _rows(inspection)]
        for line in markdown(_columns(inspection), rows):
            output.line(line)
