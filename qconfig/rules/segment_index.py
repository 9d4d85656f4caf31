"""Which patterns may match a name: an index of rules by the segments they require.

A pattern is filed under the rarest thing it requires: the segments, of those that occur in the
names at hand, that satisfy it; or the segments it starts with. A name then meets only the patterns
filed under its own segments and starts.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import accumulate
from typing import Generic, TypeVar

from qconfig.rules.patterns import expression
from qconfig.rules.plain_expressions import plain_parts, plain_prefix
from qconfig.rules.regex_tree import parse
from qconfig.rules.requirements import Piece, Requirement, required_texts, requirements

T = TypeVar("T")
Key = tuple[str, ...]


@lru_cache(maxsize=4096)
def _required(match: str) -> tuple[Requirement, ...]:
    pattern = expression(match)
    parts = plain_parts(pattern)
    return tuple(requirements(parse(pattern)) if parts is None else required_texts(parts))


def count_segments(fqns: Iterable[str]) -> Counter[str]:
    """Return how often each segment occurs in names of parameters and in those of their modules."""
    counts = Counter(".".join(fqns).split("."))
    counts[""] += 1  # the name of the root
    return counts


class SegmentIndex(Generic[T]):
    """Candidates among patterns for the names of parameters, and of their modules.

    Args:
        patterns: `match` of rules by their number.
        counts: how often each segment occurs in the names, see `count_segments`.
        prepare: makes of a pattern's number what `candidates` returns for it.
    """

    def __init__(
        self, patterns: Mapping[int, str], counts: Counter[str], prepare: Callable[[int], T]
    ) -> None:
        self._counts = counts
        self._prepare = prepare
        self._fitting: dict[Piece, tuple[list[str], int]] = {}
        self._filed: dict[str, list[int]] = {}
        self._always: list[int] = []
        self._known: dict[Key, tuple[T, ...]] = {}
        self._has_prefixes = False
        for number, match in patterns.items():
            self._file(number, _required(match), match)

    def key(self, name: str) -> Key:
        """Return those segments and starts of a name under which patterns are filed."""
        filed = self._filed
        segments = name.split(".")
        key = [s for s in segments if s in filed]
        if self._has_prefixes:
            key += [start for start in accumulate(f"{s}." for s in segments) if start in filed]
        return tuple(key)

    def extended(self, key: Key, segment: str) -> Key:
        """Return the key of a name with one more segment."""
        return (*key, segment) if segment in self._filed else key

    def candidates(self, key: Key) -> tuple[T, ...]:
        """Return what was prepared for the patterns that may match a name, by their number."""
        known = self._known.get(key)
        if known is None:
            numbers = {number for segment in key for number in self._filed[segment]}
            ascending = sorted(numbers.union(self._always))
            known = self._known[key] = tuple([self._prepare(number) for number in ascending])
        return known

    def _file(self, number: int, required: Iterable[Requirement], match: str) -> None:
        best: set[str] | None = None
        least = self._counts.total()
        for requirement in required:
            segments, count = self._segments(requirement)
            if count < least:
                best, least = segments, count
        if best is None:
            self._always.append(number)
            return
        # A pattern shares a layer's number with many others, and what it starts with, with few.
        start = plain_prefix(expression(match)) if least > 1 else ""
        if start and best.issubset(start.split(".")):
            self._has_prefixes = True
            best = {start}
        for segment in best:
            self._filed.setdefault(segment, []).append(number)

    def _segments(self, requirement: Requirement) -> tuple[set[str], int]:
        """Return segments one of which a matching name has, and how often they occur."""
        chosen: set[str] = set()
        for pieces in requirement:
            segments, _ = min((self._fit(piece) for piece in pieces), key=lambda fit: fit[1])
            chosen.update(segments)
        return chosen, sum(self._counts[segment] for segment in chosen)

    def _fit(self, piece: Piece) -> tuple[list[str], int]:
        known = self._fitting.get(piece)
        if known is None:
            counts = self._counts
            if piece.is_whole:
                segments = [piece.text] if piece.text in counts else []
            else:
                segments = [segment for segment in counts if piece.fits(segment)]
            known = segments, sum(counts[segment] for segment in segments)
            self._fitting[piece] = known
        return known
