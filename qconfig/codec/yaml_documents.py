"""YAML without its traps: what it reads, JSON could say.

YAML 1.1 and 1.2 disagree about `on`, `017`, `12:30`, `1_000` or `2024-01-01`; a scalar that either
takes for something else than text is refused unless JSON has it. Aliases, tags, several documents
and duplicate keys are refused too. The reader works on parser events with a stack of its own: no
object is constructed by a name, and nesting cannot exhaust Python's stack.
"""

import re
from collections.abc import Iterator
from math import isinf
from typing import Any, NoReturn

import yaml
from attrs import define, field

from qconfig.codec.document_text import is_underflow
from qconfig.errors import DocumentSyntaxError, json_pointer
from qconfig.limits import Limits, current_limits

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVERS = yaml.SafeLoader.yaml_implicit_resolvers
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_OCTAL = re.compile(r"[-+]?0o[0-7]+")
_WORDS = {"null": None, "~": None, "": None, "true": True, "false": False}
_NO_KEY = object()


@define
class _Frame:
    """An array or object that is not complete yet."""

    value: Any
    is_object: bool
    key: Any = _NO_KEY
    lines: dict[str, int] = field(factory=dict)

    @property
    def wants_key(self) -> bool:
        return self.is_object and self.key is _NO_KEY


def loads_yaml(text: str, *, file: object = None) -> Any:
    """Return the value of a YAML text: objects, arrays, strings, finite numbers, booleans, null.

    Args:
        text: one YAML document.
        file: path named in errors.

    Raises:
        DocumentSyntaxError: not YAML, or one of the things above that qconfig refuses. It names
            the line and the column.
    """
    try:
        return _Reader(current_limits()).read(_events(text))
    except DocumentSyntaxError as error:
        error.at(file=file)
        raise


def _events(text: str) -> Iterator[Any]:
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        what = error.problem or error.context or "syntax error"
        raise DocumentSyntaxError(
            f"not YAML{where}: {what}",
            hint="check the indentation; put text that starts with *, &, !, % or @ in quotes",
        ) from None
    except yaml.YAMLError as error:
        first = str(error).partition("\n")[0]
        raise DocumentSyntaxError(f"not YAML: {first}") from None


class _Reader:
    """Builds one value from parser events."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._stack: list[_Frame] = []
        self._documents = 0
        self._result: Any = None

    def read(self, events: Iterator[Any]) -> Any:
        for event in events:
            self._refuse_extras(event)
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, yaml.MappingStartEvent):
                self._open(event, _Frame({}, is_object=True))
            elif isinstance(event, yaml.SequenceStartEvent):
                self._open(event, _Frame([], is_object=False))
            elif isinstance(event, yaml.CollectionEndEvent):
                self._put(self._stack.pop().value)
        if not self._documents:
            raise DocumentSyntaxError("the document is empty")
        return self._result

    def _refuse_extras(self, event: Any) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._fail(event, "a second document", "one document a file")
        elif isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            self._fail(
                event,
                "an anchor or alias",
                "every value written out",
                "name a config once under configs, and use its name in rules",
            )
        elif getattr(event, "tag", None) is not None:
            self._fail(event, f"the tag {event.tag}", "no tags")

    def _open(self, event: Any, frame: _Frame) -> None:
        if self._stack and self._stack[-1].wants_key:
            self._fail(event, "an array or object as a key", "a string")
        if len(self._stack) >= self._limits.json_depth:
            self._fail(event, "nested too deeply", self._limits.describe("json_depth"))
        self._stack.append(frame)

    def _scalar(self, event: Any) -> None:
        value = event.value if event.style else self._plain(event)
        if isinstance(value, str) and not _is_unicode(value):
            self._fail(event, "half of a surrogate pair", "text that UTF-8 can hold")
        frame = self._stack[-1] if self._stack else None
        if frame is None or not frame.wants_key:
            self._put(value)
            return
        if not isinstance(value, str):
            self._fail(event, f"the key {event.value}", "a string", "put it in quotes")
        line = event.start_mark.line + 1
        if value in frame.lines:
            first = frame.lines[value]
            self._fail(
                event, f"duplicate key {value!r}, which is first on line {first}", "each key once"
            )
        frame.lines[value] = line
        frame.key = value

    def _put(self, value: Any) -> None:
        if not self._stack:
            self._result = value
            return
        frame = self._stack[-1]
        if frame.is_object:
            frame.value[frame.key] = value
            frame.key = _NO_KEY
        else:
            frame.value.append(value)

    def _plain(self, event: Any) -> Any:
        """Return what an unquoted scalar means in YAML 1.1 and 1.2 alike."""
        text = event.value
        if text in _WORDS:
            return _WORDS[text]
        if _NUMBER.fullmatch(text):
            return self._number(event)
        resolvers = [*_RESOLVERS.get(text[0], []), *_RESOLVERS.get(None, [])]
        if _OCTAL.fullmatch(text) or any(pattern.match(text) for _, pattern in resolvers):
            self._fail(
                event,
                f"{text} is not text to every YAML reader",
                "null, true, false, a decimal number as in JSON, or text",
                "put it in quotes if it is text; write true or false for a switch",
            )
        return text

    def _number(self, event: Any) -> int | float:
        text = event.value
        if _INTEGER.fullmatch(text):
            if len(text.removeprefix("-")) > self._limits.number_digits:
                self._fail(
                    event,
                    f"an integer of {len(text)} digits",
                    f"digits: {self._limits.describe('number_digits')}",
                )
            return int(text)
        number = float(text)
        if isinf(number):
            self._fail(event, "a number beyond float64", "a finite number")
        if is_underflow(text, number):
            self._fail(event, "a number below float64", "a number that is not rounded to zero")
        return number

    def _fail(self, event: Any, what: str, expected: str, hint: str | None = None) -> NoReturn:
        mark = event.start_mark
        within = [f for f in self._stack if not f.wants_key]
        pointer = json_pointer(*(f.key if f.is_object else len(f.value) for f in within))
        raise DocumentSyntaxError(
            f"{what}, at line {mark.line + 1}, column {mark.column + 1}",
            pointer=pointer or None,
            expected=expected,
            hint=hint,
        )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
