"""Names, integer versions, steps between them, and the JSON Schemas of the classes."""

from qconfig.versioning.decorators import (
    migration,
    register_config,
    register_layout,
    register_value,
)
from qconfig.versioning.entries import Config, Entry, Kind, Layout, Step
from qconfig.versioning.fields import (
    FieldInfo,
    TensorPattern,
    attribute,
    info_of,
    plain_fields,
    tensor,
    tensor_fields,
)
from qconfig.versioning.registry import Registry, registry

__all__ = [
    "Config",
    "Entry",
    "FieldInfo",
    "Kind",
    "Layout",
    "Registry",
    "Step",
    "TensorPattern",
    "attribute",
    "info_of",
    "migration",
    "plain_fields",
    "register_config",
    "register_layout",
    "register_value",
    "registry",
    "tensor",
    "tensor_fields",
]
