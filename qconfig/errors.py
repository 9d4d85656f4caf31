"""Every exception that qconfig raises on purpose, and the one warning.

    QconfigError
    ├── DocumentError              a config or layout document is wrong
    │   ├── DocumentSyntaxError    not JSON, YAML or TOML as we read them
    │   ├── FieldError             a value that its field does not allow
    │   ├── UnknownFieldError      a key that the class does not have
    │   ├── UnknownNameError       a type, enum member or dtype nobody registered
    │   └── NewerVersionError      written by a newer qconfig
    ├── RuleError                  a pattern or rule that cannot be used
    ├── PlanError                  rules and model do not fit together
    ├── LayoutError                inner tensors that contradict their layout
    ├── BuildError                 a weight that a builder cannot quantize
    ├── UnsupportedOperationError  an operator that a quantized tensor does not have
    ├── UncalibratedError          a quantizer that has not seen what its scale comes from
    ├── MigrationError             a step that cannot carry the data it met
    ├── RegistrationError          a class, step or builder registered wrongly
    ├── ContainerError             a checkpoint file or index that breaks its format
    ├── CheckpointError            files of a checkpoint that contradict each other
    ├── StorageError               the file system refused
    ├── UsageError                 the caller asked for something contradictory
    └── SeveralErrors              several problems, found in one pass; DocumentErrors, RuleErrors,
                                   PlanErrors and CheckpointErrors are of their kind, too

Each carries the place (file, FQN, JSON pointer), what was found, what is allowed and what to do.
InexactWarning is the warning: a checkpoint of another library was loaded, and not exactly.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any, ClassVar, Self

MOST_PROBLEMS = 1000
"""Problems that are collected of one array, object or index: a flood of them costs memory only."""

_MISSING: Any = object()
_MAX_SHOWN = 120


def printable(text: str) -> str:
    """Return `text` with every character that could steer a terminal written as an escape."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def shown(value: object) -> str:
    """Return a short printable form of `value` for an error message."""
    try:
        text = printable(repr(_head(value)))
    except ValueError:  # an int with more digits than Python converts
        text = f"an {type(value).__name__} too long to print"
    except RecursionError:
        text = f"a {type(value).__name__} too deep to print"
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def _head(value: Any) -> Any:
    """Return as much of a long value as can be shown: its whole repr may take seconds."""
    if type(value) in (str, bytes, list, tuple):
        return value[:_MAX_SHOWN]
    if type(value) is dict:
        return dict(islice(value.items(), _MAX_SHOWN))
    return value


def nearest(name: object, known: Iterable[str]) -> str | None:
    """Return a hint that names the closest of `known` to `name`, or None."""
    # Comparing takes time that grows with the product of lengths.
    if not isinstance(name, str) or len(name) > _MAX_SHOWN:
        return None
    close = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else None


class QconfigError(Exception):
    """Base of all errors of this library.

    Args:
        message: what is wrong, in one sentence without a final stop.
        file: path of the file at fault.
        fqn: fully qualified name of the module, parameter or tensor at fault.
        pointer: JSON pointer (RFC 6901) into the document at fault.
        found: the offending value.
        expected: what would have been right, in words.
        hint: what to do about it.
    """

    exit_code: ClassVar[int] = 3

    def __init__(
        self,
        message: str,
        *,
        file: object = None,
        fqn: str | None = None,
        pointer: str | None = None,
        found: object = _MISSING,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = None if file is None else str(file)
        self.fqn = fqn
        self.pointer = pointer
        self.found = None if found is _MISSING else shown(found)
        self.expected = expected
        self.hint = hint

    def at(
        self, *, file: object = None, fqn: str | None = None, pointer_prefix: str | None = None
    ) -> Self:
        """Fill in the parts of the place that are not known yet and return self."""
        if self.file is None and file is not None:
            self.file = str(file)
        if self.fqn is None:
            self.fqn = fqn
        if pointer_prefix:
            self.pointer = pointer_prefix + (self.pointer or "")
        return self

    @property
    def problems(self) -> Sequence["QconfigError"]:
        """The single problems: this error itself, unless it collects several."""
        return (self,)

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain data, for `--json`."""
        fields = ("message", "file", "fqn", "pointer", "found", "expected", "hint")
        values = {name: getattr(self, name) for name in fields}
        return {"error": type(self).__name__} | {k: v for k, v in values.items() if v is not None}

    def __str__(self) -> str:
        places = [p for p in (self.file, self.fqn, self.pointer) if p]
        head = ": ".join([*map(printable, places), printable(self.message)])
        parts = (("found", self.found), ("expected", self.expected), ("hint", self.hint))
        return "\n".join([head, *(f"  {k}: {printable(v)}" for k, v in parts if v is not None)])

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (type(self), self.message, self.__dict__))


def _restore(cls: type[QconfigError], message: str, state: dict[str, Any]) -> QconfigError:
    error = cls.__new__(cls)
    Exception.__init__(error, message)
    error.__dict__.update(state)
    return error


class InexactWarning(UserWarning):
    """What was loaded is not exactly what its writer had, or a part of it had to be assumed."""


class DocumentError(QconfigError):
    """A config or layout document is wrong."""


class DocumentSyntaxError(DocumentError):
    """A text that is not JSON, YAML or TOML as qconfig reads them."""


class FieldError(DocumentError, ValueError):
    """A value that its field does not allow. Validators of attrs classes raise it too."""


class UnknownFieldError(DocumentError):
    """A key that the class of this document does not have."""


class UnknownNameError(DocumentError):
    """A type, enum member or dtype that is in no registry."""


class NewerVersionError(DocumentError):
    """A version that is newer than this release of qconfig."""

    exit_code = 4


class RuleError(QconfigError):
    """A pattern or rule that cannot be used."""


class PlanError(QconfigError):
    """Rules and model do not fit together."""


class LayoutError(QconfigError, ValueError):
    """Inner tensors that contradict their layout."""


class BuildError(QconfigError, ValueError):
    """A weight that a builder cannot quantize under its config."""


class UnsupportedOperationError(QconfigError, NotImplementedError):
    """An operator that a quantized tensor does not have."""


class QuantTensorError(QconfigError, RuntimeError):
    """Operands of a quant tensor's rule do not fit, or its value is not what its metadata says."""


class MetadataOnlyError(QuantTensorError):
    """The value of a quant tensor was asked for that keeps metadata and shape alone."""


class UncalibratedError(QconfigError, RuntimeError):
    """A quantizer was used before it has seen what it takes its scale from."""


class MigrationError(QconfigError):
    """A step that cannot carry the data it met."""


class RegistrationError(QconfigError):
    """A class, step or builder that was registered wrongly: a programming error."""


class ContainerError(QconfigError):
    """A safetensors file or index that breaks its format."""


class CheckpointError(QconfigError):
    """Files of a checkpoint that contradict each other."""


class StorageError(QconfigError):
    """The file system refused: full, read-only, missing."""

    exit_code = 5


class UsageError(QconfigError):
    """The caller asked for something contradictory."""

    exit_code = 2


class SeveralErrors(QconfigError):
    """Several problems, found in one pass."""

    def __init__(self, problems: Sequence[QconfigError], *, file: object = None) -> None:
        super().__init__(f"{len(problems)} problems", file=file)
        self._problems = tuple(p.at(file=file) for p in problems)

    def at(
        self, *, file: object = None, fqn: str | None = None, pointer_prefix: str | None = None
    ) -> Self:
        """Fill in the parts of the place that the single problems do not know yet."""
        for problem in self._problems:
            problem.at(file=file, fqn=fqn, pointer_prefix=pointer_prefix)
        return super().at(file=file)

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """The greatest of the single problems."""
        return max(p.exit_code for p in self._problems)

    @property
    def problems(self) -> Sequence[QconfigError]:
        """The single problems."""
        return self._problems

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain data, for `--json`."""
        return super().to_dict() | {"problems": [p.to_dict() for p in self._problems]}

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *map(str, self._problems)])


class DocumentErrors(SeveralErrors, DocumentError):
    """All problems of one document, in the order of their JSON pointers' appearance."""


class RuleErrors(SeveralErrors, RuleError):
    """All patterns and rules of a config that cannot be used."""


class PlanErrors(SeveralErrors, PlanError):
    """All ways in which rules and model do not fit together."""


class CheckpointErrors(SeveralErrors, CheckpointError):
    """All contradictions of a checkpoint."""


_COLLECTIONS: tuple[tuple[type[QconfigError], type[SeveralErrors]], ...] = (
    (DocumentError, DocumentErrors),
    (RuleError, RuleErrors),
    (PlanError, PlanErrors),
    (CheckpointError, CheckpointErrors),
)


def raise_problems(problems: Sequence[QconfigError], *, file: object = None) -> None:
    """Raise nothing for no problem, the problem itself for one, and a collection for several.

    Args:
        problems: what was found.
        file: path of the file at fault, where the problems do not say it yet.

    Raises:
        QconfigError: `DocumentErrors`, `RuleErrors`, `PlanErrors` or `CheckpointErrors` where all
            problems are of that kind, else `SeveralErrors`.
    """
    if len(problems) == 1:
        raise problems[0].at(file=file)
    if problems:
        kinds = (k for base, k in _COLLECTIONS if all(isinstance(p, base) for p in problems))
        raise next(kinds, SeveralErrors)(problems, file=file)


def json_pointer(*keys: object) -> str:
    """Return the JSON pointer (RFC 6901) that leads through `keys`."""
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys)
