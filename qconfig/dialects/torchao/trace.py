"""What is remembered while a document is translated: where parts came from, problems and notes."""

from attrs import define, field

from qconfig.dialects.torchao.notes import Note
from qconfig.errors import QconfigError


@define
class Trace:
    """Where each part of a translated document came from, and what there is to say.

    Args:
        problems: what is wrong, with pointers into torchao's document.
        notes: what is carried otherwise than one might think.
    """

    problems: list[QconfigError] = field(factory=list)
    notes: list[Note] = field(factory=list)
    _places: dict[str, str] = field(factory=dict)
    _envelopes: set[str] = field(factory=set)
    _repeats: dict[str, tuple[str, str, str]] = field(factory=dict)

    def put(self, ours: str, theirs: str) -> None:
        """Remember where a value came from: JSON pointers into both documents."""
        self._places[ours] = theirs

    def put_envelope(self, ours: str, theirs: str) -> None:
        """Remember where an object came from whose fields stand in `_data`."""
        self._envelopes.add(ours)
        self._places[f"{ours}/type"] = f"{theirs}/_type"

    def put_repeat(self, ours: str, theirs: str, first: tuple[str, str]) -> None:
        """Remember that all of a value came as that of an equal one did before.

        Args:
            ours: JSON pointer of the value in our document.
            theirs: that in torchao's.
            first: both pointers of the equal one.
        """
        self._repeats[ours] = (theirs, *first)

    def note(self, pointer: str, text: str) -> None:
        """Add a note; the pointer is into torchao's document."""
        self.notes.append(Note(pointer, text))

    def failed(self, error: QconfigError, theirs: str) -> None:
        """Add the problems of an error whose pointers begin at `theirs`."""
        self.problems += [problem.at(pointer_prefix=theirs) for problem in error.problems]

    def relocated(self, problem: QconfigError) -> QconfigError:
        """Point a problem of the translated document at torchao's."""
        pointer = problem.pointer or ""
        repeated = pointer
        while repeated and repeated not in self._repeats:
            repeated = repeated.rpartition("/")[0]
        if repeated:
            theirs, first_ours, first_theirs = self._repeats[repeated]
            problem.pointer = first_ours + pointer[len(repeated) :]
            found = self.relocated(problem).pointer or ""
            problem.pointer = theirs + found[len(first_theirs) :]
            return problem
        known = pointer
        while known and known not in self._places:
            known = known.rpartition("/")[0]
        rest = pointer[len(known) :]
        inside = "/_data" if rest and known in self._envelopes else ""
        problem.pointer = self._places.get(known, "") + inside + rest
        return problem
