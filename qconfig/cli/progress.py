"""Progress of long work on stderr: a bar on a terminal, now and then a line elsewhere, or a log."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from qconfig.checkpoints.events import Event, EventKind, Listener
from qconfig.cli.interrupts import remembered_interrupts
from qconfig.cli.output import Output, human_bytes
from qconfig.cli.time_spent import TimeSpent

_SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def progress(output: Output) -> Iterator[Listener]:
    """Yield what the library calls with every event; show them, and at last where the time went.

    After Ctrl-C that call raises KeyboardInterrupt, in every thread: work ends with the tensor that
    is being written, not with its shard.

    Args:
        output: a quiet one shows no progress; one with a log writes every event there, instead.
    """
    spent = TimeSpent()
    with remembered_interrupts() as check, _shown(output) as show:

        def listen(event: Event, /) -> None:
            if event.kind is not EventKind.DONE:  # then there is nothing left to end
                check()
            spent(event)
            show(event)

        yield listen
    if output.profile:
        spent.show(output)


@contextmanager
def _shown(output: Output) -> Iterator[Listener]:
    if output.log_json:
        yield lambda event, /: output.log(event.to_dict())
    elif output.quiet:
        yield lambda _, /: None
    elif sys.stderr.isatty():
        with _bar(output) as show:
            yield show
    else:
        yield lines(output.note)


@contextmanager
def _bar(output: Output) -> Iterator[Listener]:
    from rich import progress as rich_progress
    from rich.console import Console

    columns = (
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(),
        rich_progress.DownloadColumn(),
        rich_progress.TransferSpeedColumn(),
        rich_progress.TimeRemainingColumn(),
    )
    console = Console(stderr=True, no_color=output.color is False)
    with rich_progress.Progress(*columns, console=console, transient=True) as bar:
        first = bar.add_task(output.command, total=None)
        tasks: dict[str, rich_progress.TaskID] = {}

        def show(event: Event, /) -> None:
            if event.job not in tasks:
                tasks[event.job] = bar.add_task(event.job, total=None) if tasks else first
            bar.update(tasks[event.job], completed=event.done, total=event.total)

        yield show


def lines(note: Callable[[str], None]) -> Listener:
    """Return a listener that notes bytes and rate of each job, at most once in ten seconds.

    Args:
        note: is given each line.
    """
    last: dict[str, float] = {}

    def listen(event: Event, /) -> None:
        begun = last.setdefault(event.job, event.seconds)
        is_due = event.seconds - begun >= _SECONDS_BETWEEN_LINES
        if event.kind is EventKind.TENSOR and is_due:
            last[event.job] = event.seconds
            share = 100 * event.done // event.total if event.total else 100
            size = f"{human_bytes(event.done)} of {human_bytes(event.total)}"
            note(f"{event.job}: {size} ({share} %), {human_bytes(int(event.rate))}/s")

    return listen
