"""Ctrl-C that is not lost: importing torch can swallow the exception that it raises."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any


@contextmanager
def remembered_interrupts() -> Iterator[Callable[[], None]]:
    """Yield a check that raises KeyboardInterrupt, in any thread, once Ctrl-C has been pressed.

    Where somebody else handles the signal, or ignores it, that stays so and the check does nothing.
    """
    pressed = False

    def remember(*_: Any) -> None:
        nonlocal pressed
        pressed = True
        raise KeyboardInterrupt

    def check() -> None:
        if pressed:
            raise KeyboardInterrupt

    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if current_thread() is not main_thread() or not is_ours:
        yield check
        return
    signal.signal(signal.SIGINT, remember)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
