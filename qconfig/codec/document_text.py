"""Bytes as the text of a document: UTF-8 without a byte order mark, of a bounded size."""

from qconfig.errors import DocumentSyntaxError
from qconfig.limits import Limits


def place(text: str, offset: int) -> str:
    """Return `line L, column C`, both from 1, of the character `offset` of `text`."""
    line = text.count("\n", 0, offset) + 1
    return f"line {line}, column {offset - text.rfind(chr(10), 0, offset)}"


def is_underflow(literal: str, number: float) -> bool:
    """Return whether a number is zero and its text says something else, below float64."""
    return not number and bool(literal.lower().partition("e")[0].strip("+-0._"))


def both_forms(text: bytes | str, limits: Limits, *bounds: str) -> tuple[bytes, str]:
    """Return a document as UTF-8 and as a str.

    Args:
        text: the document.
        limits: bounds on its size.
        bounds: names of those that hold beside `document_bytes`.

    Raises:
        DocumentSyntaxError: it is too large, begins with a byte order mark, or is not Unicode text.
    """
    _check_size(len(text), limits, *bounds)
    if isinstance(text, str):
        decoded = text
        try:
            raw = text.encode()
        except UnicodeEncodeError as error:
            raise DocumentSyntaxError(
                f"half of a surrogate pair at {place(text, error.start)}",
                hint="decode the file as UTF-8",
            ) from None
        _check_size(len(raw), limits, *bounds)
    else:
        raw = text
        try:
            decoded = raw.decode()
        except UnicodeDecodeError as error:
            before = raw[: error.start].decode()
            raise DocumentSyntaxError(
                f"not UTF-8 at {place(before, len(before))}",
                found=raw[error.start : error.start + 4],
                hint="save the file as UTF-8",
            ) from None
    if decoded.startswith("\ufeff"):
        raise DocumentSyntaxError(
            "a byte order mark at line 1, column 1", hint="save the file as UTF-8 without BOM"
        )
    return raw, decoded


def _check_size(size: int, limits: Limits, *bounds: str) -> None:
    for bound in ("document_bytes", *bounds):
        if size > getattr(limits, bound):
            raise DocumentSyntaxError(
                "the document is too large",
                found=f"{size} bytes",
                expected=f"bytes: {limits.describe(bound)}",
                hint="bulk data belongs in a safetensors file",
            )
