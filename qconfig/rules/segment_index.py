"""Which patterns may match a name: an index of rules by the segments they require.

A pattern is filed under the rarest thing it requires: the segments, of those that occur in the
names at hand, that satisfy it. A name then meets only the patterns filed under its own segments.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from qconfig.rules.patterns import expression
from qconfig.rules.regex_tree import parse
from qconfig.rules.requirements import Piece, Requirement, requirements


class SegmentIndex:
    """Candidates among patterns for names drawn from a known set.

    Args:
        patterns: `match` of rules by their number.
        names: every name that will be asked for.
    """

    def __init__(self, patterns: dict[int, str], names: Iterable[str]) -> None:
        self._counts = Counter(segment for name in names for segment in name.split("."))
        self._fitting: dict[Piece, tuple[list[str], int]] = {}
        self._filed: dict[str, list[int]] = {}
        self._always: list[int] = []
        self._known: dict[tuple[str, ...], tuple[int, ...]] = {}
        for number, match in patterns.items():
            self._file(number, requirements(parse(expression(match))))

    def candidates(self, name: str) -> Sequence[int]:
        """Return the numbers of the patterns that may match `name`, ascending."""
        filed = self._filed
        key = tuple([s for s in name.split(".") if s in filed])
        known = self._known.get(key)
        if known is None:
            numbers = {number for segment in key for number in filed[segment]}
            known = self._known[key] = tuple(sorted(numbers.union(self._always)))
        return known

    def _file(self, number: int, required: list[Requirement]) -> None:
        best: set[str] | None = None
        least = self._counts.total()
        for requirement in required:
            segments, count = self._segments(requirement)
            if count < least:
                best, least = segments, count
        if best is None:
            self._always.append(number)
            return
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
