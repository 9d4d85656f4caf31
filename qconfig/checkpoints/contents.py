"""What goes into a new checkpoint: logical tensors per shard, in the order they are made."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs
from attrs import define, frozen

from qconfig.checkpoints.record import (
    METADATA_KEY,
    inner_name,
    record_data,
    with_digests,
    write_record,
)
from qconfig.codec.digests import Digests
from qconfig.codec.layout_values import present_fields, with_values
from qconfig.codec.tensor_values import LazyTensor, TensorSpec, nbytes
from qconfig.errors import CheckpointError, LayoutError
from qconfig.versioning import Layout

if TYPE_CHECKING:
    import torch


@frozen
class ShardContents:
    """The contents of one shard.

    Args:
        plain: tensors that belong to no layout, by name.
        layouts: quantized tensors by FQN, with lazy tensors in their fields.
        metadata: header metadata to carry along.
        ties: further names of tensors of this shard.
    """

    plain: dict[str, LazyTensor] = attrs.field(factory=dict)
    layouts: dict[str, Layout] = attrs.field(factory=dict)
    metadata: dict[str, str] = attrs.field(factory=dict)
    ties: dict[str, str] = attrs.field(factory=dict)

    def tensors(self) -> dict[str, LazyTensor]:
        """Return all stored tensors by name; those of one layout follow each other.

        Raises:
            CheckpointError: an inner tensor has the name of another tensor.
        """
        result = dict(self.plain)
        for fqn, layout in self.layouts.items():
            for field in present_fields(layout):
                name = inner_name(fqn, field)
                if name in result or fqn in self.plain:
                    raise CheckpointError(
                        "two tensors would be stored under one name",
                        fqn=name,
                        hint="rename the parameter, or leave the module unquantized",
                    )
                result[name] = getattr(layout, field)
        return result

    def header_metadata(self) -> dict[str, str]:
        """Return the header metadata, with our record where there is something to record."""
        record = {}
        if self.layouts or self.ties:
            record = {METADATA_KEY: write_record(self.layouts, self.ties)}
        return {"format": "pt"} | self.metadata | record

    def digested_metadata(self) -> Callable[[Digests], dict[str, str]]:
        """Return what gives the header metadata, always with our record, from the digests."""
        metadata, record = self.header_metadata(), record_data(self.layouts, self.ties)
        return lambda digests: metadata | {METADATA_KEY: with_digests(record, digests)}


@define
class _BuildOnce:
    """Builds a quantized tensor when its first field is asked for, and lets go after the last."""

    build: "Callable[[], Layout]"
    expected: Layout
    _pending: "dict[str, torch.Tensor]" = attrs.field(factory=dict, init=False)

    def take(self, field: str) -> "torch.Tensor":
        if field not in self._pending:
            self._pending = self._built()
        return self._pending.pop(field)

    def _built(self) -> "dict[str, torch.Tensor]":
        layout = self.build()
        fields = present_fields(layout)
        if fields != present_fields(self.expected):
            raise LayoutError(
                "a builder gave other tensors than it had planned",
                found=fields,
                expected=", ".join(present_fields(self.expected)),
            )
        return {field: getattr(layout, field) for field in fields}


def deferred(expected: Layout, build: "Callable[[], Layout]") -> Layout:
    """Return a layout whose tensors are built together when the first of them is written.

    Args:
        expected: the layout that `build` will give, with specs in place of tensors.
        build: makes the layout with real tensors.
    """
    once = _BuildOnce(build, expected)

    def lazy(field: str) -> LazyTensor:
        spec: TensorSpec = getattr(expected, field)
        return LazyTensor(spec.dtype, spec.shape, lambda: once.take(field))

    lazies: dict[str, Any] = {field: lazy(field) for field in present_fields(expected)}
    return with_values(expected, lazies)


def total_bytes(shards: Mapping[str, ShardContents]) -> int:
    """Return the bytes of all tensors of all shards."""
    return sum(nbytes(t) for contents in shards.values() for t in contents.tensors().values())
