"""Ctrl-C and SIGTERM that are not lost: importing torch can swallow the exception they raise."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any

import click

from qconfig.errors import printable

INTERRUPTED, TERMINATED = 130, 143
"""Exit codes after SIGINT and SIGTERM, as shells have them."""


class Terminated(KeyboardInterrupt):
    """The process got SIGTERM: it ends as after Ctrl-C, but for the exit code."""


def exit_code_of(error: BaseException) -> int:
    """Return the exit code of a call that was interrupted."""
    return TERMINATED if isinstance(error, Terminated) else INTERRUPTED


def show_interruption(error: BaseException) -> int:
    """Say on stderr what an interrupted call left, and return its exit code."""
    word = "terminated" if isinstance(error, Terminated) else "interrupted"
    notes = getattr(error, "__notes__", None) or ["what was begun is removed"]
    click.echo(printable(f"{word}; {'; '.join(notes)}"), err=True)
    return exit_code_of(error)


@contextmanager
def remembered_interrupts() -> Iterator[Callable[[], None]]:
    """Yield a check that raises KeyboardInterrupt, in any thread, once Ctrl-C has been pressed.

    After SIGTERM it raises `Terminated`. Where somebody else handles a signal, or ignores it, that
    stays so and the check does nothing.
    """
    seen: list[type[KeyboardInterrupt]] = []

    def remember(number: int, _: Any) -> None:
        seen.append(Terminated if number == signal.SIGTERM else KeyboardInterrupt)
        raise seen[0]

    def check() -> None:
        if seen:
            raise seen[0]

    usual: dict[int, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
    }
    ours = [number for number, handler in usual.items() if signal.getsignal(number) is handler]
    if current_thread() is not main_thread():
        ours = []
    for number in ours:
        signal.signal(number, remember)
    try:
        yield check
    finally:
        for number in ours:
            signal.signal(number, usual[number])
