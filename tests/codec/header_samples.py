"""Headers and files that the tests of the container share."""

import json
import struct
from typing import Any

from attrs import evolve

from qconfig.codec.safetensors_header import Header, parse_header
from qconfig.limits import DEFAULT_LIMITS

ENTRY = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}


def file_bytes(header: Any, data: bytes = b"") -> bytes:
    """Return a safetensors file: length, header, data."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def parse_bytes(buffer: bytes, **limits: int) -> Header:
    """Return the header of a whole file given as bytes."""
    return parse_header(
        buffer, file_size=len(buffer), path="m.safetensors", limits=evolve(DEFAULT_LIMITS, **limits)
    )
