"""The other direction of `test_round_trip`: what a class refuses, its schema refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qconfig.codec.converter import structure_as_written, unstructure
from qconfig.errors import QconfigError
from tests.strategies import instances
from tests.versioning.test_round_trip import ENTRIES, JSON_VALUES, nodes, replaced, validator

# JSON Schema can neither compare one value with another nor read base64; only these refusals do.
RELATIONS = (
    "block_size does not tile the tensor",
    "has a wrong shape for its blocks",
    "has a wrong size for ",
    "wrong shape",  # more elements than a file can hold
    "are no bounds of int8 codes",
    "no config of that name",
    "is not supported",
    "a scale is not",
    "a scale has a wrong shape",
    "a zero point",
    "a symmetric activation has no zero point",
    "outputs have a scale but are not quantized",
    "a scale that is calibrated is not dynamic",
    "ranges that are learned are not dynamic",
    "does not go with ",
    "the step PREPARE has nothing to simulate",
    "data is not base64",
    "data has a wrong length",
    "is not one scale",
    "but nothing says that all elements share it",
    "groups of a float8 activation do not divide",
    "granularity does not quantize activations",
    "scales and zero points are stored together or apart",
    "is not aligned with the values",
    "is not aligned with the groups",
    "is not in the groups of dequant_shape",
    "is not one number",
    "group_dim is no dimension of the tensor",
)


def refusals(entry, document):
    """Return the messages with which the class refuses a document."""
    try:
        structure_as_written(document, entry.kind)
    except QconfigError as error:
        return [problem.message for problem in error.problems]
    return []


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
@given(data=st.data())
def test_schema_refuses_what_the_class_refuses(entry, data):
    """Whatever stands anywhere in a document: only relations between values escape the schema."""
    document = unstructure(data.draw(instances(entry)))
    place = data.draw(st.sampled_from(list(nodes(document))))
    changed = replaced(document, place, data.draw(JSON_VALUES))
    messages = refusals(entry, changed)
    if messages and validator(entry).is_valid(changed):
        assert all(any(text in message for text in RELATIONS) for message in messages)
