"""Classes and values that the converter tests share."""

from qconfig.codec.converter import (
    make_converter,
)

CONVERTER = make_converter()


def int8(**fields):
    """Return a document of the current int8 config."""
    return {"type": "Int8WeightOnlyConfig", "version": 3, **fields}
