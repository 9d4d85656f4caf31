"""Values keep their JSON types; cattrs' own hooks, which coerce, are never reached."""

from enum import Enum, IntEnum, StrEnum
from types import NoneType

import pytest

from qconfig.codec.converter import CONVERTER, structure_any
from qconfig.codec.dtypes import DType
from qconfig.configs import Precedence
from qconfig.errors import DocumentErrors, FieldError, QconfigError


@pytest.mark.parametrize(
    "kind", [bool, int, str, float, NoneType, Precedence, DType, StrEnum, IntEnum, Enum]
)
def test_hook_is_ours(kind):
    """The hook of every plain type comes from qconfig."""
    assert CONVERTER.get_structure_hook(kind).__module__.startswith("qconfig.codec.")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *((int, "32"), (int, True), (int, 1.0), (bool, 1), (str, 1), (float, "1"), (float, True)),
        *((Precedence, "x"), (DType, "float33"), (DType, None), (NoneType, 0)),
    ],
)
def test_no_coercion(kind, value):
    """A value of another JSON type, or an unknown member of an enum, is refused."""
    with pytest.raises(QconfigError):
        CONVERTER.structure(value, kind)


def test_document_is_strict():
    """A string for an integer and a number for a flag are reported with their pointers."""
    with pytest.raises(DocumentErrors) as caught:
        structure_any(
            {
                "type": "Int8WeightOnlyConfig",
                "version": 3,
                "granularity": {"type": "PerGroup", "group_size": "32"},
                "set_inductor_config": 1,
            }
        )
    assert [p.pointer for p in caught.value.problems] == [
        "/granularity/group_size",
        "/set_inductor_config",
    ]
    assert all(isinstance(p, FieldError) for p in caught.value.problems)
