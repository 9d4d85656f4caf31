"""Progress of long work on stderr: a bar on a terminal, now and then a line elsewhere."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from time import monotonic

from qconfig.cli.interrupts import remembered_interrupts
from qconfig.cli.output import Output, human_bytes

Progress = Callable[[str, int, int], None]

_SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def progress(output: Output, title: str) -> Iterator[Progress]:
    """Yield what the library calls with name and bytes of each finished tensor, and all bytes.

    After Ctrl-C that call raises KeyboardInterrupt, in every thread: work ends with the tensor that
    is being written, not with its shard.

    Args:
        output: a quiet one shows no progress.
        title: what is going on, in one word.
    """
    with remembered_interrupts() as check, _shown(output, title) as show:

        def report(name: str, count: int, total: int) -> None:
            check()
            show(name, count, total)

        yield report


@contextmanager
def _shown(output: Output, title: str) -> Iterator[Progress]:
    if output.quiet:
        yield lambda *_: None
    elif sys.stderr.isatty():
        with _bar(output, title) as report:
            yield report
    else:
        yield lines(output.note, title)


@contextmanager
def _bar(output: Output, title: str) -> Iterator[Progress]:
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
        task = bar.add_task(title, total=None)
        yield lambda _, count, total: bar.update(task, advance=count, total=total)


def lines(
    note: Callable[[str], None], title: str, clock: Callable[[], float] = monotonic
) -> Progress:
    """Return a callback that notes bytes and rate, at most once in ten seconds.

    It may be called from several threads.
    """
    lock, begin = Lock(), clock()
    done, last = 0, begin

    def report(_: str, count: int, total: int) -> None:
        nonlocal done, last
        with lock:
            done, now = done + count, clock()
            if now - last < _SECONDS_BETWEEN_LINES:
                return
            last, rate = now, human_bytes(int(done / (now - begin)))
            share = 100 * done // total if total else 100
            size = f"{human_bytes(done)} of {human_bytes(total)}"
            note(f"{title}: {size} ({share} %), {rate}/s")

    return report


@contextmanager
def threads(count: int) -> Iterator[Executor | None]:
    """Yield an executor of `count` threads, or None for one; at the end, what waits is dropped."""
    if count == 1:
        yield None
        return
    pool = ThreadPoolExecutor(count, thread_name_prefix="qconfig")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
