"""torchao's JSON form of configs, `{"_type", "_version", "_data"}`, read and written.

`_version` does not identify a set of fields: torchao used one number for up to four of them. Type,
`_version` and the keys together name one of our versions; from there our own steps go on.
"""

from qconfig.dialects.torchao.notes import Note, ReadConfig
from qconfig.dialects.torchao.read import from_envelope, read_document
from qconfig.dialects.torchao.wrappers import is_envelope
from qconfig.dialects.torchao.write import to_envelope

__all__ = [
    "Note",
    "ReadConfig",
    "from_envelope",
    "is_envelope",
    "read_document",
    "to_envelope",
]
