"""Digests of what a safetensors file holds: a flipped bit is found, and the tensor it lies in.

XXH3 with 64 bits, of each tensor's bytes and of what the header means: a tool that only orders a
file anew leaves them right. They find accidents, of which one in
2**64 goes unseen, and are no protection from an attacker, who would write new ones.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

from attrs import frozen

from qconfig.codec.regular_files import OpenFile, open_regular
from qconfig.codec.safetensors_header import Header
from qconfig.codec.strict_json import dumps_compact
from qconfig.codec.tensor_values import ByteRange, TensorValue
from qconfig.errors import ContainerError

ALGORITHM = "xxh3_64"
DIGITS = 16
BLANK = "0" * DIGITS
"""What stands for a digest that is not known yet, and for the header's in what it is made of."""

_WORTH_A_THREAD = 4 * 2**20
_BUFFER = 2**20  # stays in a processor's cache between being read and being digested
_HINT = "restore the file, or fetch it again"


@frozen
class Digests:
    """The digests of one file, in hexadecimal.

    Args:
        header: see `header_digest`.
        tensors: of the bytes of each tensor, in the order of their sorted names.
        algorithm: how they are made.
    """

    header: str
    tensors: tuple[str, ...]
    algorithm: str = ALGORITHM

    @classmethod
    def blank(cls, count: int) -> "Digests":
        """Return what takes as many bytes as the digests of `count` tensors."""
        return cls(BLANK, (BLANK,) * count)

    @classmethod
    def from_data(cls, data: object) -> "Digests | None":
        """Return the digests that plain data says, or None where it has another form."""
        if not isinstance(data, dict) or set(data) != {"algorithm", "header", "tensors"}:
            return None
        header, text, algorithm = data["header"], data["tensors"], data["algorithm"]
        if not all(isinstance(value, str) for value in (header, text, algorithm)):
            return None
        if len(header) != DIGITS or len(text) % DIGITS or not _HEX.issuperset(header + text):
            return None
        starts = range(0, len(text), DIGITS)
        return cls(header, tuple(text[i : i + DIGITS] for i in starts), algorithm)

    def to_data(self) -> dict[str, Any]:
        """Return plain data; the tensors' digests are one string, since names would take more."""
        return {
            "algorithm": self.algorithm,
            "header": self.header,
            "tensors": "".join(self.tensors),
        }


_HEX = frozenset("0123456789abcdef")


def digest(data: bytes | bytearray | memoryview) -> str:
    """Return the digest of bytes in memory."""
    from xxhash import xxh3_64_hexdigest

    return xxh3_64_hexdigest(data)


def header_digest(
    metadata: Mapping[str, str], tensors: Mapping[str, TensorValue], stated: str = BLANK
) -> str:
    """Return the digest of all that a header says, but for where the tensors lie.

    It is that of a compact JSON text: metadata as sorted pairs, and name, dtype and shape of each
    tensor, sorted; in it `BLANK` stands for the digest itself.

    Args:
        metadata: all of it.
        tensors: by name.
        stated: the digest that the metadata has of the header.
    """
    entries = [
        [name, tensor.dtype.value, list(tensor.shape)] for name, tensor in sorted(tensors.items())
    ]
    text = dumps_compact([sorted(metadata.items()), entries])
    return digest(text.replace(stated, BLANK).encode())


class Passed:
    """The digest of bytes that are handed on in steps."""

    def __init__(self) -> None:
        from xxhash import xxh3_64

        self._running = xxh3_64()

    def update(self, data: memoryview) -> None:
        """Take notice of the next bytes."""
        self._running.update(data)

    def digest(self) -> str:
        """Return the digest of all bytes so far."""
        return self._running.hexdigest()


def digests_in(
    file: OpenFile,
    offset: int,
    lengths: Iterable[int],
    *,
    proceed: Callable[[], bool] = lambda: True,
) -> Iterator[str]:
    """Yield the digests of parts of a file that follow each other; a megabyte is in memory.

    Args:
        file: it is read.
        offset: where the first part begins.
        lengths: bytes of each part.
        proceed: asked before each read; after a no, nothing more is yielded.

    Raises:
        ContainerError: the file ends earlier.
        StorageError: the file system refused.
    """
    from xxhash import xxh3_64

    done = offset
    with memoryview(bytearray(_BUFFER)) as buffer:
        for length in lengths:
            running, end = xxh3_64(), done + length
            while done < end:
                if not proceed():
                    return
                part = buffer[: min(_BUFFER, end - done)]
                file.read_into(part, done)
                running.update(part)
                done += len(part)
            yield running.hexdigest()


@contextmanager
def digested_beside(file: OpenFile, offset: int, lengths: list[int]) -> Iterator[list[str]]:
    """Yield a list that has the digests of parts of a file when the block has ended.

    Parts that take long are read in a thread, while the block copies them. An error in the block
    ends it.

    Raises:
        ContainerError, StorageError: as `digests_in`.
    """
    found: list[str] = []
    if sum(lengths) < _WORTH_A_THREAD:
        yield found
        found += digests_in(file, offset, lengths)
        return
    ended = Event()
    with ThreadPoolExecutor(1, thread_name_prefix="qconfig-digests") as pool:

        def read() -> list[str]:
            return list(digests_in(file, offset, lengths, proceed=lambda: not ended.is_set()))

        future = pool.submit(read)
        try:
            yield found
            found += future.result()
        finally:
            ended.set()


def stated_digests(header: Header, digests: Digests) -> dict[str, str]:
    """Return the digest of each tensor by its name, once the header proves to be as it was written.

    Raises:
        ContainerError: the header is damaged, or another tool has changed it.
    """
    found = header_digest(header.metadata, header.tensors, digests.header)
    if found != digests.header or len(header.tensors) != len(digests.tensors):
        raise ContainerError(
            "the header does not say what was written",
            file=header.path,
            found=f"{ALGORITHM} {found} of metadata, names, dtypes and shapes",
            expected=f"{digests.header}, and {len(digests.tensors)} tensors",
            hint=f"{_HINT}; a tool that changes it has to leave out digests of the record",
        )
    return dict(zip(sorted(header.tensors), digests.tensors, strict=True))


def check_bytes(name: str, source: ByteRange, expected: str) -> None:
    """Read a tensor's bytes and check that they are those that were written.

    Raises:
        ContainerError: they are not; the message has the tensor's place in the file.
        StorageError: they cannot be read.
    """
    try:
        with open_regular(source.path) as file:
            (found,) = digests_in(file, source.offset, [source.length])
    except ContainerError as error:
        raise error.at(fqn=name) from None
    if found != expected:
        end = source.offset + source.length
        raise ContainerError(
            "the bytes are not those that were written",
            file=source.path,
            fqn=name,
            found=f"{ALGORITHM} {found} of bytes {source.offset} to {end}",
            expected=expected,
            hint=_HINT,
        )


def known_digests(files: Iterable[tuple[Header, Digests]]) -> Mapping[ByteRange, str]:
    """Return what is known of the bytes of files, by their place.

    Raises:
        ContainerError: a header is damaged, or another tool has changed it.
    """
    return {
        header.byte_range(name): stated
        for header, digests in files
        if digests.algorithm == ALGORITHM
        for name, stated in stated_digests(header, digests).items()
    }
