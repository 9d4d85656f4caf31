"""Text that every name must contain that a regular expression matches as a whole.

Names are split at dots into segments, and what a pattern requires is told per segment: equal to a
text, or starting with, ending with or containing it. The matcher indexes rules by it; a name that
lacks what a pattern requires need not be tried. Finite alternatives such as `(q|k|v)_proj` or
`1[0-5]` are written out.
"""

from collections.abc import Iterable, Sequence

from attrs import frozen

from qconfig.rules.regex_tree import OTHER, Aside, Chars, Choice, Node, Nodes, Repeat

_MOST_TEXTS = 128
_MOST_IN_SET = 16


@frozen
class Piece:
    """A text within one segment, which it may have to start, to end, or both."""

    text: str
    starts: bool
    ends: bool

    @property
    def is_whole(self) -> bool:
        """Whether the segment must be equal to the text."""
        return self.starts and self.ends

    def fits(self, segment: str) -> bool:
        """Return whether a segment has the text where it must be."""
        if self.is_whole:
            return segment == self.text
        if self.starts:
            return segment.startswith(self.text)
        return segment.endswith(self.text) if self.ends else self.text in segment


# One requirement: a matching name contains all pieces of at least one of these.
Requirement = tuple[tuple[Piece, ...], ...]


def requirements(nodes: Nodes) -> list[Requirement]:
    """Return what a whole match of `nodes` requires of a name; all of it holds."""
    return required_texts(map(_texts, nodes))


def required_texts(parts: Iterable[Sequence[str] | None]) -> list[Requirement]:
    """Return what a whole match of `parts` requires of a name.

    Args:
        parts: for each part the texts that it may match, None for many or unknown ones.
    """
    found: list[Requirement] = []
    run = [""]
    bounded = True  # whether the run starts where a segment does
    for texts in parts:
        if texts is None:
            _close(found, run, starts=bounded, ends=False)
            run, bounded = [""], False
        elif len(texts) == 1:
            run = [text + texts[0] for text in run]
        elif len(run) * len(texts) <= _MOST_TEXTS:
            run = [text + more for text in run for more in texts]
        else:
            _close(found, run, starts=bounded, ends=all(t.startswith(".") for t in texts))
            bounded = all(text.endswith(".") for text in run)
            run = list(texts)
    _close(found, run, starts=bounded, ends=True)
    return found


def _close(found: list[Requirement], run: Iterable[str], *, starts: bool, ends: bool) -> None:
    requirement = tuple(_pieces(text, starts=starts, ends=ends) for text in run)
    if all(requirement):
        found.append(requirement)


def _pieces(text: str, *, starts: bool, ends: bool) -> tuple[Piece, ...]:
    parts = text.split(".")
    last = len(parts) - 1
    pieces = (Piece(p, starts or i > 0, ends or i < last) for i, p in enumerate(parts))
    return tuple(p for p in pieces if p.text or p.is_whole)


def _texts(node: Node) -> list[str] | None:
    """Return all texts that a node may match, or None if they are many or unknown."""
    match node:
        case Chars():
            return _characters(node)
        case Choice():
            return _union(_product(option) for option in node.options)
        case Repeat() if node.most is not None and node.most <= 4:
            return _union(_product(node.body * n) for n in range(node.least, node.most + 1))
        case Aside():
            return _product(node.body) if node.takes else [""]
        case _:
            return None


def _characters(node: Chars) -> list[str] | None:
    if node.text is not None:
        return [node.text]
    if node.mask & OTHER or node.mask.bit_count() > _MOST_IN_SET:
        return None
    return [chr(code) for code in range(256) if node.mask >> code & 1]


def _union(parts: Iterable[list[str] | None]) -> list[str] | None:
    union: dict[str, None] = {}
    for part in parts:
        if part is None:
            return None
        union |= dict.fromkeys(part)
    return list(union) if len(union) <= _MOST_TEXTS else None


def _product(nodes: Nodes) -> list[str] | None:
    product = [""]
    for node in nodes:
        texts = _texts(node)
        if texts is None or len(product) * len(texts) > _MOST_TEXTS:
            return None
        product = [text + more for text in product for more in texts]
    return product
