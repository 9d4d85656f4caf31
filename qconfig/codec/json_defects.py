"""Where a JSON text breaks the rules that Python's parser lets pass.

The parser says that something is wrong and drops the place. This slow walk over the tokens finds it
again; it runs only when an error is about to be raised.
"""

import json
import re
from collections.abc import Iterator
from math import isinf

from attrs import define, field

from qconfig.codec.document_text import is_underflow, place
from qconfig.errors import DocumentSyntaxError, json_pointer
from qconfig.limits import Limits

_TOKEN = re.compile(
    r"""[ \t\n\r]*(?: (?P<string>"[^"\\]*(?:\\.[^"\\]*)*") | (?P<open>[\[{]) | (?P<close>[\]}])
    | (?P<comma>,) | (?P<colon>:) | (?P<atom>[^\s\[\]{}:,"]+) )""",
    re.VERBOSE | re.DOTALL,
)


@define
class _Frame:
    is_object: bool
    key: str | int
    wants_key: bool = False
    seen: dict[str, int] = field(factory=dict)


def first_defect(text: str, limits: Limits) -> DocumentSyntaxError | None:
    """Return the first breach in `text` that Python's JSON parser would let pass, or None.

    It looks for duplicate keys, NaN and Infinity, numbers out of bounds, lone surrogates and too
    deep nesting. Of a text that is no JSON at all it reads as far as it understands it.
    """
    stack: list[_Frame] = []
    for match in _tokens(text):
        kind = match.lastgroup or ""
        token, offset = match[kind], match.start(kind)
        top = stack[-1] if stack else None
        problem = None
        if kind == "string":
            problem = _string_defect(text, token, offset, top)
        elif kind == "atom":
            problem = _atom_defect(text, token, offset, limits)
        elif kind == "open" and len(stack) >= limits.json_depth:
            return _too_deep(text, offset, limits)
        else:
            _step(stack, token)
        if problem:
            problem.pointer = json_pointer(*(f.key for f in stack if not f.wants_key))
            return problem
    return None


def _step(stack: list[_Frame], mark: str) -> None:
    if mark in {"{", "["}:
        stack.append(_Frame(mark == "{", 0, wants_key=mark == "{"))
    elif stack and mark == ",":
        top = stack[-1]
        top.wants_key = top.is_object
        if isinstance(top.key, int):
            top.key += 1
    elif stack and mark != ":":
        stack.pop()


def _tokens(text: str) -> Iterator[re.Match[str]]:
    position = 0
    while match := _TOKEN.match(text, position):
        yield match
        position = match.end()


def _too_deep(text: str, offset: int, limits: Limits) -> DocumentSyntaxError:
    return DocumentSyntaxError(
        f"nested too deeply at {place(text, offset)}",
        found=f"more than {limits.json_depth} levels",
        expected=limits.describe("json_depth"),
        hint="flatten the document; nothing that qconfig writes nests that deeply",
    )


def _string_defect(
    text: str, token: str, offset: int, top: _Frame | None
) -> DocumentSyntaxError | None:
    is_key = top is not None and top.wants_key
    try:
        value: str = json.loads(token)
        value.encode()
    except UnicodeEncodeError:
        if top and is_key:
            top.wants_key = False
            top.key = token[1:-1]
        return DocumentSyntaxError(
            f"half of a surrogate pair at {place(text, offset)}",
            found=token,
            expected="text that UTF-8 can hold",
            hint="write the character itself, or both halves of its pair",
        )
    except json.JSONDecodeError:
        return None  # the parser reports this one by itself
    if top is None or not is_key:
        return None
    top.wants_key, top.key = False, value
    first = top.seen.setdefault(value, offset)
    if first == offset:
        return None
    return DocumentSyntaxError(
        f"duplicate key {value!r} at {place(text, offset)}; it is first at {place(text, first)}",
        expected="every key of an object once",
        hint="delete one of the two: other readers silently keep only the last",
    )


def _atom_defect(text: str, token: str, offset: int, limits: Limits) -> DocumentSyntaxError | None:
    if token in {"NaN", "Infinity", "-Infinity"}:
        return DocumentSyntaxError(
            f"{token} is not JSON, at {place(text, offset)}",
            expected="a finite number",
            hint="write null, or leave the field out, where there is no number",
        )
    digits = token.removeprefix("-")
    if digits.isdecimal() and len(digits) > limits.number_digits:
        return DocumentSyntaxError(
            f"an integer of {len(digits)} digits at {place(text, offset)}",
            expected=f"digits: {limits.describe('number_digits')}",
            hint="no field of a document holds such a number",
        )
    try:
        number = 1.0 if digits.isdecimal() else float(token)
    except ValueError:
        return None
    if isinf(number) or is_underflow(token, number):
        return DocumentSyntaxError(
            f"a number {'beyond' if number else 'below'} float64 at {place(text, offset)}",
            found=token,
            expected="a finite number, and one that is not rounded to zero",
            hint="check the exponent",
        )
    return None
