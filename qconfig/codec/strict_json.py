"""JSON without its traps: nothing is read twice, dropped or rounded in silence.

The text is parsed by the standard library. What that lets pass (duplicate keys, NaN, nesting that
exhausts the stack, numbers without end, half surrogates) is looked for with scans over the bytes
that cost less than the parse.
"""

import json
import re
from collections.abc import Callable
from itertools import accumulate
from math import isinf
from typing import Any, NoReturn

from qconfig.codec.document_text import both_forms, is_underflow, place
from qconfig.codec.json_defects import first_defect
from qconfig.errors import DocumentSyntaxError, FieldError
from qconfig.limits import Limits, current_limits

_NOT_A_MARK = bytes(set(range(256)) - set(b'[]{}"'))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_CHUNK = 65_536


class _DefectError(Exception):
    """Something that `first_defect` will find again and put into words."""


def loads(text: bytes | str, *, file: object = None, limits: Limits | None = None) -> Any:
    """Return the value of a JSON text.

    Args:
        text: UTF-8 without a byte order mark, or a str.
        file: path named in errors.
        limits: bounds on size, depth and digits.

    Raises:
        DocumentSyntaxError: the text is not JSON, or has duplicate keys, NaN or Infinity, lone
            surrogates, numbers beyond float64, integers or nesting beyond `limits`. It names the
            line and the column.
    """
    try:
        return _loads(text, limits or current_limits())
    except DocumentSyntaxError as error:
        error.at(file=file)
        raise


def dumps(value: Any) -> str:
    """Return the canonical text of a JSON value: indented by two spaces, one newline at the end.

    Raises:
        FieldError: a number is NaN or infinite, or a string is not Unicode text.
    """
    return _encoded(value, indent=2, separators=(",", ": ")) + "\n"


def dumps_compact(value: Any) -> str:
    """Return a JSON value on one line without spaces.

    Raises:
        FieldError: a number is NaN or infinite, or a string is not Unicode text.
    """
    return _encoded(value, indent=None, separators=(",", ":"))


def _encoded(value: Any, *, indent: int | None, separators: tuple[str, str]) -> str:
    try:
        text = json.dumps(
            value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators
        )
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError as error:
        raise FieldError(
            "a string that UTF-8 cannot hold", found=error.object[error.start : error.end]
        ) from None
    except (TypeError, ValueError) as error:
        raise FieldError("a value that JSON cannot hold", hint=str(error)) from None
    return text


def _loads(text: bytes | str, limits: Limits) -> Any:
    raw, text = both_forms(text, limits)
    if _is_deeper(raw, limits.json_depth):
        _report(text, limits)
    # Marks in strings count too, so this stops only floods: an empty array takes 64 bytes.
    if sum(map(raw.count, (b",", b"[", b"{"))) > limits.json_values:
        raise DocumentSyntaxError(
            "the document has too many values",
            expected=f"values: {limits.describe('json_values')}",
            hint="bulk data belongs in a safetensors file",
        )
    # A hook for every int costs much; a long run of digits, wherever it stands, is rare.
    has_long_number = b"0" * (limits.number_digits + 1) in raw.translate(_DIGITS)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_without_duplicates,
            parse_constant=_refuse,
            parse_float=_finite,
            parse_int=_integer(limits) if has_long_number else None,
        )
    except json.JSONDecodeError as error:
        raise _syntax_error(error) from None
    except _DefectError:
        _report(text, limits)
    except RecursionError:  # of a caller that is deep in recursion itself
        raise DocumentSyntaxError(
            "nested too deeply", expected="no more levels than Python can recurse"
        ) from None
    if "\\u" in text and _SURROGATE.search(text) and not _is_unicode(value):
        _report(text, limits)
    return value


def _is_deeper(raw: bytes, limit: int) -> bool:
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Dropping a pair of quotes that lie side by side leaves every bracket inside or outside of a
    # string as it was, and most strings are such pairs by now.
    marks = raw.translate(None, _NOT_A_MARK).replace(b'""', b"")
    steps = memoryview(b"".join(marks.split(b'"')[::2]).translate(_STEPS)).cast("b")
    depth = 0
    for start in range(0, len(steps), _CHUNK):
        depths = list(accumulate(steps[start : start + _CHUNK], initial=depth))
        if max(depths) > limit:
            return True
        depth = depths[-1]
    return False


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _DefectError
    return members


def _refuse(constant: str) -> NoReturn:
    raise _DefectError(constant)


def _integer(limits: Limits) -> Callable[[str], int]:
    longest = limits.number_digits

    def integer(literal: str) -> int:
        if len(literal.removeprefix("-")) > longest:
            raise _DefectError(literal)
        return int(literal)

    return integer


def _finite(literal: str) -> float:
    number = float(literal)
    if isinf(number) or is_underflow(literal, number):
        raise _DefectError(literal)
    return number


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _report(text: str, limits: Limits) -> NoReturn:
    found = first_defect(text, limits)
    raise found or DocumentSyntaxError("not JSON", hint="check brackets and quotes")


def _syntax_error(error: json.JSONDecodeError) -> DocumentSyntaxError:
    document, position = error.doc, error.pos
    comma = _trailing_comma(document, position)
    if comma is not None:
        return DocumentSyntaxError(
            f"not JSON at {place(document, comma)}: a comma without a value after it",
            hint="delete the comma before the closing bracket",
        )
    at_end = not document[position:].strip()
    hint = "the text ends too early" if at_end else "check brackets, quotes and commas"
    if document[position : position + 1] in {"'", "/", "#"}:
        hint = "JSON has double quotes only, and no comments"
    return DocumentSyntaxError(f"not JSON at {place(document, position)}: {error.msg}", hint=hint)


def _trailing_comma(document: str, position: int) -> int | None:
    """Return where the comma is: Python points behind it up to 3.12, and at it from 3.13 on."""
    before = document[:position].rstrip()
    if document[position : position + 1] in {"}", "]"} and before.endswith(","):
        return len(before) - 1
    rest = document[position + 1 :].lstrip()
    if document[position : position + 1] == "," and rest[:1] in {"}", "]"}:
        return position
    return None
