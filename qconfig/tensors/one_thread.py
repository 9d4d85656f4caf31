"""One thread of torch for work on small parts: waiting for others takes longer than the work."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch

_lock = Lock()
_inside, _usual = 0, 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Let the calling thread's operators run in it alone while the block lasts.

    Other threads of torch's own would meet at the end of each operator, which takes milliseconds
    where a core is busy with something else, such as writing.
    """
    global _inside, _usual  # noqa: PLW0603
    with _lock:
        if not _inside:
            _usual = torch.get_num_threads()
        _inside += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            # For threads that begin later, too: the last one to leave is not the only one to say.
            torch.set_num_threads(_usual)
