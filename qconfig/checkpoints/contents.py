"""What goes into a new checkpoint: logical tensors per shard, in the order they are made."""

from collections.abc import Callable, Iterator
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
from qconfig.codec.tensor_parts import Whole
from qconfig.codec.tensor_values import LazyTensor, TensorSpec
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
                    raise same_name(name)
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
    """Builds a quantized tensor when its first field is asked for, and lets go after the last.

    Where it is built by rows, the first field passes by, and only the others wait as a whole.
    """

    build: "Callable[[], Layout]"
    expected: Layout
    by_rows: "Callable[[], Iterator[Layout]] | None" = None
    _pending: "dict[str, torch.Tensor]" = attrs.field(factory=dict, init=False)

    def parts(self, field: str) -> "Iterator[torch.Tensor]":
        if field in self._pending or self.by_rows is None:
            yield self.take(field)
            return
        self._pending = {}
        wholes = {name: Whole(getattr(self.expected, name)) for name in self._fields}
        for layout in self.by_rows():
            self._check(layout)
            for name, whole in wholes.items():
                part = getattr(layout, name)
                if name == field and whole.passes(part):
                    yield part
                else:
                    whole.put(part)
                del part
        passed = wholes[field].is_empty
        self._pending = {n: w.tensor for n, w in wholes.items() if n != field}
        if not passed:
            yield wholes[field].tensor

    def take(self, field: str) -> "torch.Tensor":
        if field not in self._pending:
            layout = self.build()
            self._check(layout)
            self._pending = {name: getattr(layout, name) for name in self._fields}
        return self._pending.pop(field)

    @property
    def _fields(self) -> list[str]:
        return present_fields(self.expected)

    def _check(self, layout: Layout) -> None:
        fields = present_fields(layout)
        if fields != self._fields:
            raise LayoutError(
                "a builder gave other tensors than it had planned",
                found=fields,
                expected=", ".join(self._fields),
            )


def deferred(
    expected: Layout,
    build: "Callable[[], Layout]",
    by_rows: "Callable[[], Iterator[Layout]] | None" = None,
    work: int = 0,
) -> Layout:
    """Return a layout whose tensors are built together when the first of them is written.

    Args:
        expected: the layout that `build` will give, with specs in place of tensors.
        build: makes the layout with real tensors.
        by_rows: makes layouts of some rows at a time, which together are that one.
        work: bytes of memory that this takes; 0 if nobody says.
    """
    once = _BuildOnce(build, expected, by_rows)

    def lazy(field: str) -> LazyTensor:
        spec: TensorSpec = getattr(expected, field)
        parts = None if by_rows is None else lambda _: once.parts(field)
        return LazyTensor(spec.dtype, spec.shape, lambda: once.take(field), parts=parts, work=work)

    lazies: dict[str, Any] = {field: lazy(field) for field in present_fields(expected)}
    return with_values(expected, lazies)


def same_name(
    name: str, hint: str = "rename the parameter, or leave the module unquantized"
) -> CheckpointError:
    """Return the error about a name that two tensors would have in a checkpoint."""
    return CheckpointError("two tensors would be stored under one name", fqn=name, hint=hint)
