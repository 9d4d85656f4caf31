"""The bounds that everything which reads foreign bytes keeps to: all of them are here.

    with use_limits(header_bytes=200_000_000):
        load_checkpoint("model")

Bounds hold for the `with` block, in its thread; `with_limits` takes them along to another thread
or process.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import attrs
from attrs import field, frozen

from qconfig.errors import UsageError, nearest

_P = ParamSpec("_P")
_R = TypeVar("_R")
_MOST = "most"
# What Python recurses into and converts without limits of its own.
_DEEPEST = 128
_MOST_DIGITS = 640


def _check(_: Any, attribute: "attrs.Attribute[int]", value: object) -> None:
    most = attribute.metadata[_MOST]
    if type(value) is not int or not 0 <= value <= most:
        raise UsageError(
            f"Limits.{attribute.name} is not a bound",
            found=value,
            expected=f"an integer from 0 to {most}",
        )


def _bound(default: int, most: int = 2**63 - 1) -> Any:
    return field(default=default, validator=_check, metadata={_MOST: most})


@frozen(kw_only=True)
class Limits:
    """How much a file or document may ask of this process. All bounds are inclusive.

    Args:
        header_bytes: bytes of a safetensors header; the format itself allows no more. The
            directory of a zip archive may be as long.
        tensors: tensors of one file or of one index.
        rank: dimensions of one tensor.
        dimension: extent of one dimension.
        name_bytes: UTF-8 bytes of a tensor name or metadata key.
        file_name_bytes: UTF-8 bytes of a shard's name in an index; file systems allow 255.
        metadata_value_bytes: UTF-8 bytes of one metadata value.
        json_depth: arrays and objects nested in each other, in JSON, YAML and TOML.
        folder_depth: folders nested in each other, of the files that a checkpoint carries along.
        json_values: members of all arrays and objects of one JSON document, and they themselves.
        document_bytes: UTF-8 bytes of a config, an index or another document.
        written_bytes: UTF-8 bytes of a YAML or TOML document, which people write; reading one
            takes ten times as long as JSON.
        number_digits: digits of one integer literal.
        rules: rules of one config, and configs that they can name. Lists of each layer of a large
            model have 20,000; five times as many are read in seconds.
        pattern_characters: characters of the `match` of one rule; its JSON Schema says no more
            than the default.
        pattern_groups: groups of one regular expression.
        pattern_cost: doublings of the time that a regular expression may take on a name, because
            it can read the name in several ways: 7 for each repeat that is open.
        matched_characters: characters of a name that rules are matched with.
        archive_records: files in one zip archive.
        pickle_bytes: bytes of one pickle.
        pickle_operations: instructions of one pickle.
        pickle_depth: values of one pickle nested in each other.
        expanded_bytes: bytes of one tensor that is larger than its storage, as torch's `expand`
            makes.
        shared_bytes: bytes that the tensors of one file take beyond the file's own size, because
            they share storages.

    Raises:
        UsageError: a bound that is negative, no integer, or more than Python can bear: 128 for
            depths, 640 for digits.
    """

    header_bytes: int = _bound(100_000_000)
    tensors: int = _bound(1_000_000)
    rank: int = _bound(16)
    dimension: int = _bound(2**48 - 1)
    name_bytes: int = _bound(4_096)
    file_name_bytes: int = _bound(255)
    metadata_value_bytes: int = _bound(16 * 2**20)
    json_depth: int = _bound(64, most=_DEEPEST)
    folder_depth: int = _bound(64, most=_DEEPEST)
    json_values: int = _bound(4_000_000)
    document_bytes: int = _bound(64 * 2**20)
    written_bytes: int = _bound(8 * 2**20)
    number_digits: int = _bound(40, most=_MOST_DIGITS)
    rules: int = _bound(100_000)
    pattern_characters: int = _bound(1_000)
    pattern_groups: int = _bound(100)
    pattern_cost: int = _bound(23)
    matched_characters: int = _bound(512)
    archive_records: int = _bound(1_000_100)
    pickle_bytes: int = _bound(256 * 2**20)
    pickle_operations: int = _bound(32_000_000)
    pickle_depth: int = _bound(64, most=_DEEPEST)
    expanded_bytes: int = _bound(2**30)
    shared_bytes: int = _bound(2**36)

    def describe(self, name: str) -> str:
        """Return the bound called `name` as an error's `expected`.

        Raises:
            AttributeError: there is no such bound.
        """
        return f"at most {getattr(self, name)} (Limits.{name})"


DEFAULT_LIMITS = Limits()
"""What holds unless a caller says otherwise."""
_current: ContextVar[Limits] = ContextVar("qconfig_limits", default=DEFAULT_LIMITS)


def current_limits() -> Limits:
    """Return the bounds that hold here."""
    return _current.get()


@contextmanager
def use_limits(limits: Limits | None = None, /, **bounds: int) -> Iterator[Limits]:
    """Let other bounds hold in a `with` block.

    Args:
        limits: all of them; None for those that hold now.
        bounds: single ones in their place, by the names of the fields of `Limits`.

    Raises:
        UsageError: there is no such bound, or a value is none that it can have.
    """
    known = attrs.fields_dict(Limits)
    for name in bounds:
        if name not in known:
            raise UsageError(
                "unknown limit",
                found=name,
                expected=f"a field of Limits: {', '.join(known)}",
                hint=nearest(name, known),
            )
    token = _current.set(attrs.evolve(limits or current_limits(), **bounds))
    try:
        yield current_limits()
    finally:
        _current.reset(token)


@frozen
class _WithLimits:
    """A function and the bounds that hold when it is called; it can be pickled if that can."""

    function: Callable[..., Any]
    limits: Limits

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with use_limits(self.limits):
            return self.function(*args, **kwargs)


def with_limits(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return a function that runs with the bounds of here wherever it is called.

    Args:
        function: what an executor is to run in another thread or process.
    """
    return _WithLimits(function, current_limits())
