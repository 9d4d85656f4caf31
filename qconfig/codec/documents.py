"""Documents in files: JSON, YAML and TOML in, JSON out.

Whatever the format, the value is what JSON could say: objects with string keys, arrays, strings,
finite numbers, booleans and null (which TOML does not have).
"""

import os
import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

from qconfig.codec.converter import structure_any
from qconfig.codec.document_text import both_forms, is_underflow, place
from qconfig.codec.regular_files import read_document
from qconfig.codec.strict_json import loads
from qconfig.codec.yaml_documents import loads_yaml
from qconfig.errors import DocumentSyntaxError, FieldError, StorageError, UsageError, json_pointer
from qconfig.limits import Limits, current_limits
from qconfig.versioning import Config

_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DOTTED = rf"(?:^|[\[{{,])[ \t]*+{_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{%d}}"
FORMATS = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}
"""The format that a file's suffix stands for."""


def load_document(path: Path | str) -> Any:
    """Return the value in a JSON, YAML or TOML file; the suffix says which it is.

    Raises:
        UsageError: the suffix is none of `FORMATS`.
        StorageError: the file cannot be read.
        ContainerError: it is not a regular file, or too large for a document.
        DocumentSyntaxError: the text is not what the suffix says, or says what JSON could not.
    """
    path = Path(path)
    name = FORMATS.get(path.suffix.lower())
    if name is None:
        if not os.path.exists(path):  # noqa: PTH110 - False where a Path's own raises
            raise StorageError("no such file or directory", file=path)
        raise UsageError(
            "unknown kind of document",
            file=path,
            found=path.suffix,
            expected=f"a file name that ends in {', '.join(FORMATS)}",
        )
    return parse_document(read_document(path), name, file=path)


def parse_document(text: bytes | str, name: str, *, file: object = None) -> Any:
    """Return the value of a text.

    Args:
        text: UTF-8 without a byte order mark, or a str.
        name: `"json"`, `"yaml"` or `"toml"`.
        file: path named in errors.

    Raises:
        UsageError: another format.
        DocumentSyntaxError: the text is not in the format, or says what JSON could not.
    """
    if name == "json":
        return loads(text, file=file)
    if name not in FORMATS.values():
        raise UsageError("unknown format", found=name, expected="json, yaml or toml")
    read = loads_yaml if name == "yaml" else _loads_toml
    try:
        _, decoded = both_forms(text, current_limits(), "written_bytes")
        return read(decoded)
    except DocumentSyntaxError as error:
        error.at(file=file)
        raise


def parse_config_document(data: Any) -> Config:
    """Return the config of a document in qconfig's form, in its current version.

    A `$schema` at the top is for editors and no part of the config.

    Raises:
        DocumentError: everything that is wrong, each problem with its JSON pointer.
    """
    if isinstance(data, Mapping) and "$schema" in data:
        address = data["$schema"]
        if not isinstance(address, str):
            raise FieldError(
                "wrong type", pointer="/$schema", found=address, expected="the address of a schema"
            )
        data = {key: value for key, value in data.items() if key != "$schema"}
    config: Config = structure_any(data)
    return config


def replace_text(path: Path | str, text: str) -> None:
    """Write a text file at once: a reader sees the old or the new text, never a part.

    A symbolic link stays one; its target is replaced.

    Raises:
        StorageError: the file system refused; the old file is as it was.
    """
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            Path(temporary).replace(target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StorageError(f"cannot write: {reason}", file=path) from error


def _umask() -> int:
    value = os.umask(0o077)
    os.umask(value)
    return value


def _loads_toml(text: str) -> Any:
    limits = current_limits()
    # A key of many parts takes tomllib time that grows with their square.
    dotted = re.search(_DOTTED % limits.json_depth, text, re.MULTILINE)
    if dotted:
        raise DocumentSyntaxError(
            f"nested too deeply: a key of many parts at {place(text, dotted.start())}",
            expected=limits.describe("json_depth"),
        )
    try:
        value = tomllib.loads(text, parse_float=_number)
    except RecursionError:
        raise DocumentSyntaxError(
            "nested too deeply", expected=limits.describe("json_depth")
        ) from None
    except ValueError as error:  # tomllib's own error is one, and Python's of a long integer
        raise DocumentSyntaxError(f"not TOML: {error}") from None
    for problem in _not_json(value, "", 0, limits):
        raise problem
    return value


def _number(text: str) -> float:
    number = float(text)
    if is_underflow(text, number):
        raise ValueError(f"{text} is below float64")
    return number


def _not_json(
    value: Any, pointer: str, depth: int, limits: Limits
) -> Iterator[DocumentSyntaxError]:
    """Yield what TOML can say and JSON cannot."""
    if isinstance(value, dict | list):
        if depth >= limits.json_depth:
            yield DocumentSyntaxError(
                "nested too deeply", pointer=pointer, expected=limits.describe("json_depth")
            )
            return
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _not_json(item, pointer + json_pointer(key), depth + 1, limits)
    elif isinstance(value, float) and not isfinite(value):
        yield DocumentSyntaxError(
            "not a finite number", pointer=pointer, found=value, expected="a finite number"
        )
    elif type(value) is int and abs(value) >= 10**limits.number_digits:
        yield DocumentSyntaxError(
            "an integer is too long",
            pointer=pointer,
            expected=f"digits: {limits.describe('number_digits')}",
        )
    elif not isinstance(value, bool | int | float | str):
        yield DocumentSyntaxError(
            "dates and times have no place in a document",
            pointer=pointer,
            found=str(value),
            hint="put it in quotes if it is text",
        )
