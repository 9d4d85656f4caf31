"""Values in torchao's words: what `TensorSubclassAttributeJSONEncoder` of torchao 0.18 writes.

Only what 0.18 reads again is written: it knows the granularities PerRow and PerTensor, writes
others and cannot load them.
"""

from typing import Any

import attrs

from qconfig.codec.dtypes import DType
from qconfig.configs.granularity import PerAxis, PerBlock, PerGroup, PerRow, PerTensor, PerToken
from qconfig.dialects.torchao.leaves import is_leaf, leaf
from qconfig.errors import MigrationError, QconfigError
from qconfig.layouts.mx import MXElementType
from qconfig.versioning import registry

_GRANULARITIES = (PerAxis, PerBlock, PerGroup, PerRow, PerTensor, PerToken)


def encoded(value: Any, pointer: str = "", problems: list[QconfigError] | None = None) -> Any:
    """Return a value as JSON in torchao's form, keys in the order of its classes.

    Args:
        value: an attribute of a layout.
        pointer: its JSON pointer in the layout.
        problems: gets what torchao cannot read again.
    """
    if isinstance(value, tuple):
        return [encoded(item, pointer, problems) for item in value]
    if isinstance(value, MXElementType):
        # torch has no dtype for fp6; torchao writes its name.
        is_dtype = value.value in {dtype.value for dtype in DType}
        return leaf(DType(value.value) if is_dtype else value.value)
    if is_leaf(value):
        return leaf(value)
    if isinstance(value, PerToken):
        # A token of an activation is a row of it.
        value = PerRow()
    if isinstance(value, _GRANULARITIES) and not isinstance(value, PerRow | PerTensor):
        error = MigrationError(
            "torchao writes this granularity into safetensors files and cannot load it",
            pointer=pointer,
            found=value,
            expected="PerRow or PerTensor",
        )
        if problems is None:
            raise error
        problems.append(error)
    data = {
        f.name: encoded(getattr(value, f.name), f"{pointer}/{f.name}", problems)
        for f in attrs.fields(type(value))
    }
    return {"_type": registry.entry_of(type(value)).name, "_data": data}
