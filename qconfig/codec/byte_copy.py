"""Moving bytes between open files, by the kernel where it can."""

import errno
import os
from collections.abc import Callable

from qconfig.codec.regular_files import OpenFile

CHUNK = 8 * 2**20
_STEP = 2**30  # so that a signal is seen once in a gigabyte
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of a disk or quota that is full."""
NO_ROOM = NO_SPACE | {errno.EFBIG}
"""Errors after which no other way to write as many bytes can succeed."""


def write_all(target: int, view: memoryview | bytes | bytearray) -> None:
    """Write all of `view` at the position of the descriptor `target`, in chunks.

    Raises:
        OSError: the file system refused.
    """
    rest = memoryview(view)
    while rest.nbytes:
        # Python repeats a call that a signal interrupted (PEP 475); a short write is ours.
        rest = rest[os.write(target, rest[:CHUNK]) :]


def copy_range(source: OpenFile, offset: int, length: int, target: int) -> None:
    """Append bytes of one file to another; they pass through this process only as a last resort.

    Args:
        source: the file to read.
        offset: its first byte to copy.
        length: bytes to copy.
        target: descriptor that is written at its position.

    Raises:
        ContainerError: the source ends earlier.
        StorageError: the source cannot be read.
        OSError: the target cannot be written.
    """
    done = 0
    for move in (_copy_file_range, _sendfile):
        done += _moved(move, source.descriptor, target, offset + done, length - done)
    while done < length:
        chunk = source.read(offset + done, min(CHUNK, length - done))
        write_all(target, chunk)
        done += len(chunk)


def _moved(
    move: Callable[[int, int, int, int], int], source: int, target: int, offset: int, length: int
) -> int:
    """Return how many bytes `move` could copy. What it cannot, the next method tries and explains.

    A file system may refuse either call for reasons of its own, or report the end of a file
    too early; only a full disk is final.
    """
    done = 0
    while done < length:
        try:
            count = move(source, target, offset + done, min(_STEP, length - done))
        except OSError as error:
            if error.errno in NO_ROOM:
                raise
            break
        if count == 0:
            break
        done += count
    return done


def _copy_file_range(source: int, target: int, offset: int, length: int) -> int:
    if not hasattr(os, "copy_file_range"):  # not on macOS
        return 0
    return os.copy_file_range(source, target, length, offset_src=offset)


def _sendfile(source: int, target: int, offset: int, length: int) -> int:
    return os.sendfile(target, source, offset, length)
