"""Fields of versioned classes: what they mean, what they allow, and what a tensor looks like.

One call per field says everything once. The constructor's check, the codec, the JSON Schema, the
flatten order of a runtime tensor and the documentation all read it from the field's metadata.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import attrs
from attrs import NOTHING, frozen

from qconfig.errors import FieldError, QconfigError, RegistrationError
from qconfig.limits import DEFAULT_LIMITS, current_limits
from qconfig.versioning.type_check import FieldCheck, tupled

_KEY = "qconfig"
_FLOATS = ("float16", "bfloat16", "float32", "float64")


@cache
def _split(shape: str) -> tuple[str, ...]:
    return tuple(shape.split())


@cache
def _written_out(dtypes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(d for name in dtypes for d in (_FLOATS if name == "float" else (name,)))


@frozen
class TensorPattern:
    """Which tensors a layout field holds.

    Args:
        dtypes: allowed element types by torch name; `float` stands for the real types of at
            least 16 bits.
        shape: dimension names and numbers, as in jaxtyping: `"N K"`, `"*B N K"` (any leading
            dimensions), `"N 1"`, `""` (0-d). Equal names in one layout mean equal sizes.
    """

    dtypes: tuple[str, ...]
    shape: str

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The entries of `shape`, one per dimension; a leading `*` takes any number."""
        return _split(self.shape)

    @property
    def allowed(self) -> tuple[str, ...]:
        """The allowed element types, with `float` written out."""
        return _written_out(self.dtypes)

    @property
    def ranks(self) -> tuple[int, int]:
        """The fewest and the most dimensions."""
        dims = self.dimensions
        any_leading = bool(dims) and dims[0].startswith("*")
        return len(dims) - any_leading, DEFAULT_LIMITS.rank if any_leading else len(dims)


@frozen
class FieldInfo:
    """What a field means and allows, beyond its Python type."""

    doc: str
    minimum: int | float | None = None
    maximum: int | float | None = None
    pattern: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    limit: str | None = None
    tensor: TensorPattern | None = None
    added: bool = False
    incidental: bool = False

    def check(self, value: Any, name: str) -> None:
        """Raise FieldError where `value` breaks a bound; None is left to the type."""
        if value is None or self.tensor is not None:
            return
        problem = None
        # Turned round, so that NaN is within no bound.
        if self.minimum is not None and not value >= self.minimum:
            problem = f"at least {self.minimum}"
        elif self.maximum is not None and not value <= self.maximum:
            problem = f"at most {self.maximum}"
        elif self.pattern is not None and not re.search(self.pattern, value):
            problem = f"a string that matches {self.pattern}"
        elif self.min_length is not None and len(value) < self.min_length:
            problem = f"at least {self.min_length} {_unit(value)}"
        elif self.limit is not None:
            problem = self._limit_problem(value)
        elif self.max_length is not None and len(value) > self.max_length:
            problem = f"at most {self.max_length} {_unit(value)}"
        if problem:
            raise FieldError(
                f"{name} is out of range", pointer=f"/{name}", found=value, expected=problem
            )

    def check_size(self, value: Any, name: str) -> None:
        """Raise FieldError where `value` has more entries than its limit, before they are read."""
        if self.limit is not None and isinstance(value, list | dict):
            self.check(value, name)

    def _limit_problem(self, value: Any) -> str | None:
        limits = current_limits()
        if self.limit is None or len(value) <= getattr(limits, self.limit):
            return None
        return f"{_unit(value)}: {limits.describe(self.limit)}"


def _unit(value: Any) -> str:
    return "characters" if isinstance(value, str) else "entries"


def info_of(field: "attrs.Attribute[Any]") -> FieldInfo:
    """Return the description of a field made by `attribute` or `tensor`."""
    return field.metadata.get(_KEY) or FieldInfo(doc="")


def is_left_out(field: "attrs.Attribute[Any]", value: Any) -> bool:
    """Return whether documents and pickles leave a field out: one added, that has its default."""
    info = info_of(field)
    if info.tensor is not None:  # equality of tensors is by element
        return info.added and value is None
    return info.added and bool(value == field.default)


def attribute(
    doc: str,
    *,
    default: Any = NOTHING,
    factory: Callable[[], Any] | None = None,
    converter: Callable[[Any], Any] | None = None,
    eq: Callable[[Any], Any] | None = None,
    kw_only: bool = False,
    minimum: int | float | None = None,
    maximum: int | float | None = None,
    pattern: str | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    limit: str | None = None,
    added: bool = False,
    incidental: bool = False,
) -> Any:
    """Declare a plain field: an int, a string, an enum, a nested value or config.

    Args:
        doc: one sentence with units; it becomes the description in the JSON Schema.
        default: value of an optional field.
        factory: makes the default, for mutable or expensive ones.
        converter: normalises what a Python caller passes, as in `attrs.field`; by default lists
            become tuples.
        eq: what to compare and hash in place of the value, for values without a plain `==`.
        kw_only: whether the constructor takes it by keyword only.
        minimum: smallest allowed number.
        maximum: largest allowed number.
        pattern: regular expression that a string must contain.
        min_length: fewest entries of a string, tuple or mapping.
        max_length: most entries of a string, tuple or mapping.
        limit: name of the field of `Limits` that holds the most entries, in place of `max_length`,
            which then is for the JSON Schema alone.
        added: whether the field is younger than the first release of its version. Documents leave
            it out while it has its default, so that readers of that release take them.
        incidental: whether a stored tensor and its config may differ in the field: it says how a
            library computed with the tensor, or in which order a kernel reads it. What a builder
            stores has the default.

    Raises:
        RegistrationError: an added or incidental field without a plain default.
    """
    is_plain = default is not NOTHING and factory is None
    if added and not is_plain:
        raise RegistrationError("an added field needs a default that documents can leave out")
    if incidental and not is_plain:
        raise RegistrationError("an incidental field needs a default, which builders store")
    info = FieldInfo(
        doc,
        minimum,
        maximum,
        pattern,
        min_length,
        max_length,
        limit,
        added=added,
        incidental=incidental,
    )
    bounded = any(b is not None for b in (minimum, maximum, pattern, min_length, max_length, limit))
    kwargs: dict[str, Any] = {"factory": factory} if factory else {"default": default}
    return attrs.field(
        **kwargs,
        converter=_placed(converter) if converter else tupled,
        eq=eq,
        kw_only=kw_only,
        validator=FieldCheck(info.check if bounded else None),
        metadata={_KEY: info},
    )


def _placed(convert: Callable[[Any], Any]) -> Any:
    """Return a converter whose errors name the field."""

    def placed(value: Any, field: "attrs.Attribute[Any]") -> Any:
        try:
            return convert(value)
        except QconfigError as error:
            raise error.at(pointer_prefix=f"/{field.name}") from None

    return attrs.Converter(placed, takes_field=True)


def tensor(
    doc: str,
    dtypes: str | tuple[str, ...],
    shape: str,
    *,
    default: Any = NOTHING,
    added: bool = False,
) -> Any:
    """Declare a tensor field of a layout.

    Args:
        doc: one sentence; it becomes the description in the JSON Schema.
        dtypes: allowed element types, `"int8"` or `("int8", "float")`.
        shape: pattern of the shape, see TensorPattern.
        default: None for an optional tensor.
        added: whether the field is younger than the first release of its version, see `attribute`.
    """
    names = (dtypes,) if isinstance(dtypes, str) else dtypes
    info = FieldInfo(doc, tensor=TensorPattern(names, shape), added=added)
    return attrs.field(default=default, metadata={_KEY: info}, kw_only=default is not NOTHING)


def resolved_fields(cls: type) -> "tuple[attrs.Attribute[Any], ...]":
    """Return the fields of a class with their types, where annotations are strings too.

    Raises:
        RegistrationError: an annotation names what its module does not have when it runs.
    """
    try:
        return tuple(attrs.fields(attrs.resolve_types(cls)))
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise RegistrationError(
            f"the annotations of {cls.__name__} cannot be read",
            found=str(error),
            hint="import what annotations name outside of `if TYPE_CHECKING`",
        ) from None


def tensor_fields(cls: type) -> "tuple[attrs.Attribute[Any], ...]":
    """Return the tensor fields of a layout class, in order."""
    return _fields_of(cls)[0]


def plain_fields(cls: type) -> "tuple[attrs.Attribute[Any], ...]":
    """Return the fields of a versioned class that are not tensors, in order."""
    return _fields_of(cls)[1]


@cache
def _fields_of(
    cls: Any,
) -> "tuple[tuple[attrs.Attribute[Any], ...], tuple[attrs.Attribute[Any], ...]]":
    fields = attrs.fields(cls)
    tensors = tuple(f for f in fields if info_of(f).tensor is not None)
    return tensors, tuple(f for f in fields if info_of(f).tensor is None)
