"""Brevitas: its NamedTuples in pickles, and the state_dicts of its modules."""

from qconfig.dialects.brevitas.load import load_brevitas_state_dict
from qconfig.dialects.brevitas.namedtuples import from_fields, to_fields
from qconfig.dialects.brevitas.state_dict import StateDictReport, convert_state_dict

__all__ = [
    "StateDictReport",
    "convert_state_dict",
    "from_fields",
    "load_brevitas_state_dict",
    "to_fields",
]
