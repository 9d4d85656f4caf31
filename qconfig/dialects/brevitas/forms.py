"""The forms in which Brevitas kept quantized values: NamedTuples, by class path and by length.

Field names and their order are those of the classes in releases 0.8 to 0.13. A pickle holds the
class path and a tuple of fields; names and lengths here are the only ones that are read.
"""

from collections.abc import Mapping

from attrs import frozen

from qconfig.codec.pickled_values import Role

LIBRARY = "brevitas"
NEWEST = (0, 13)

_INT = ("value", "scale", "zero_point", "bit_width")
_FORMAT = ("exponent_bit_width", "mantissa_bit_width", "exponent_bias")
_CODES = ("saturating_t", "inf_values", "nan_values")
_FLAGS = ("signed_t", "training_t")
_GROUPS = ("value_", "scale_", "zero_point_", "group_size", "group_dim")


@frozen
class Form:
    """A class of NamedTuples.

    Args:
        name: class name of today.
        layout: registered name of the layout whose version 1 has its fields.
        fields: names of the fields, in order.
        releases: releases that wrote tuples of this length.
    """

    name: str
    layout: str
    fields: tuple[str, ...]
    releases: str

    @property
    def is_groupwise(self) -> bool:
        """Whether values are stored in groups."""
        return "group_size" in self.fields

    @property
    def is_float(self) -> bool:
        """Whether values are small floats."""
        return "exponent_bias" in self.fields


_SHAPE = ("dequant_shape",)
_INT_GROUPS = (*_GROUPS, "bit_width", *_FLAGS)
_FLOAT_GROUPS = (*_GROUPS, *_FORMAT, *_CODES, *_FLAGS)

INT = Form("IntQuantTensor", "IntQuantTensorLayout", (*_INT, *_FLAGS), "0.8 to 0.13")
FLOAT = Form(
    "FloatQuantTensor",
    "FloatQuantTensorLayout",
    (*_INT[:3], *_FORMAT, *_CODES, *_FLAGS),
    "0.11 to 0.13",
)
GROUPWISE_INT = Form(
    "GroupwiseIntQuantTensor",
    "GroupwiseIntQuantTensorLayout",
    (*_INT_GROUPS, *_SHAPE),
    "0.12 and 0.13",
)
GROUPWISE_FLOAT = Form(
    "GroupwiseFloatQuantTensor",
    "GroupwiseFloatQuantTensorLayout",
    (*_FLOAT_GROUPS, *_SHAPE),
    "0.12 and 0.13",
)
_SHAPELESS = {
    GROUPWISE_INT: Form(GROUPWISE_INT.name, GROUPWISE_INT.layout, _INT_GROUPS, "0.11"),
    GROUPWISE_FLOAT: Form(GROUPWISE_FLOAT.name, GROUPWISE_FLOAT.layout, _FLOAT_GROUPS, "0.11"),
}
"""0.11 did not say the logical shape: no group of its is filled up."""

FORMS = (INT, FLOAT, GROUPWISE_INT, GROUPWISE_FLOAT)
BY_NAME: Mapping[str, Form] = {form.name: form for form in FORMS}

OLD_INT = "brevitas.quant_tensor.QuantTensor"
"""The one class of 0.8 to 0.10, for values of every quantizer; its fields may be None."""

_FORMS_OF_PATH: Mapping[str, Form] = {
    OLD_INT: INT,
    "brevitas.quant_tensor.int_quant_tensor.IntQuantTensor": INT,
    "brevitas.quant_tensor.float_quant_tensor.FloatQuantTensor": FLOAT,
    "brevitas.quant_tensor.groupwise_int_quant_tensor.GroupwiseIntQuantTensor": GROUPWISE_INT,
    "brevitas.quant_tensor.groupwise_float_quant_tensor.GroupwiseFloatQuantTensor": (
        GROUPWISE_FLOAT
    ),
}

NAMES: Mapping[str, Role] = dict.fromkeys(_FORMS_OF_PATH, Role.OBJECT)
"""Every class of Brevitas that a pickle may name; it is looked up here and never imported."""


def form_of_path(path: str) -> Form:
    """Return the form of a class path of `NAMES`."""
    return _FORMS_OF_PATH[path]


def of_length(form: Form, length: int) -> Form | None:
    """Return the form in which a class has so many fields, or None."""
    return next((f for f in _lengths(form) if len(f.fields) == length), None)


def lengths(form: Form) -> str:
    """Return in words how many fields a class has."""
    return " or ".join(str(len(f.fields)) for f in _lengths(form))


def by_position(length: int) -> Form | None:
    """Return the one form with so many fields, or None."""
    return next((f for form in FORMS for f in _lengths(form) if len(f.fields) == length), None)


def by_names(names: frozenset[str]) -> Form | None:
    """Return the form with these fields, with or without the suffixes of stored names, or None."""
    forms = (f for form in FORMS for f in _lengths(form))
    return next((f for f in forms if names in (frozenset(f.fields), _public(f))), None)


def public_name(field: str) -> str:
    """Return the name that a constructor of Brevitas takes for a stored field."""
    return field.removesuffix("_t").removesuffix("_")


def _public(form: Form) -> frozenset[str]:
    return frozenset(map(public_name, form.fields))


def _lengths(form: Form) -> tuple[Form, ...]:
    shapeless = _SHAPELESS.get(form)
    return (form,) if shapeless is None else (form, shapeless)
