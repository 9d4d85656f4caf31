"""What a quant tensor is made of: inner tensors and plain data, how they are kept and given.

An outer tensor shows shape, type and device; it holds no elements of its own. A field `x` of the
layout lies in the attribute `_x`.
"""
# ruff: noqa: SLF001 (what torch offers to subclasses has underscored names)

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, cast

import torch
from torch.utils._python_dispatch import _disable_current_modes

from qconfig.errors import MetadataOnlyError
from qconfig.tensors.quant_tensor.autograd import untied
from qconfig.tensors.quant_tensor.fields import (
    Context,
    QuantFields,
    as_tensor,
    is_real,
    version_of,
)


class InnerTensors(torch.Tensor):
    """The storage of quant tensors; `QuantTensor` is what users see of it."""

    fields: ClassVar[QuantFields]
    inner_names: ClassVar[tuple[str, ...]]
    logical_shape: torch.Size

    @classmethod
    def unflat(cls, inner: Mapping[str, Any], context: Context, size: Any) -> Self:
        """Rebuild a tensor from what `flat` gives, unchecked and without a graph."""
        value = inner.get("value")
        payload = inner["scale"] if value is None else value
        strides = value.stride() if value is not None and value.shape == size else None
        shown = {"strides": strides, "dtype": context.dtype, "device": payload.device}
        make: Any = torch.Tensor._make_wrapper_subclass
        if torch.is_inference_mode_enabled() and not payload.is_inference():
            # torch wants views of an ordinary tensor to be ordinary ones there too.
            with torch.inference_mode(mode=False):
                self = make(cls, size, **shown)
        else:
            self = make(cls, size, **shown)
        state = self.__dict__
        state["_value"] = value
        state["_scale"] = inner["scale"]
        state["_zero_point"] = inner["zero_point"]
        for name in cls.fields.numbers:
            state["_" + name] = inner.get(name)
        for name, found in zip(cls.fields.attributes, context.attributes, strict=True):
            state["_" + name] = found
        state["_context"] = context
        state["_zero_version"] = version_of(inner["zero_point"])
        # torch's own `shape` of a subclass takes a detour of microseconds.
        state["logical_shape"] = size
        return cast("Self", self)

    def flat(self) -> tuple[tuple[str, ...], Context]:
        """Return the names of the inner tensors that are there, and plain, hashable data."""
        state = self.__dict__
        for name in self.fields.numbers:
            if state["_" + name] is None:
                self.raw(name)  # made, for it was known as an int only
        self._look_at_zero_point()
        names = self.inner_names if state["_value"] is not None else self.inner_names[1:]
        return names, state["_context"]

    def raw(self, name: str) -> torch.Tensor:
        """Return an inner tensor as it is stored, without a graph.

        Raises:
            MetadataOnlyError: the value, where it is left out.
        """
        found = self.__dict__["_" + name]
        if found is not None:
            return cast("torch.Tensor", found)
        if name in self.fields.numbers:
            known = self.known(name)
            scale = self.__dict__["_scale"]
            found = self.__dict__["_" + name] = as_tensor(known, scale.device, like=scale)
            return found
        raise MetadataOnlyError(
            f"{type(self).__name__} keeps metadata alone: it has no value",
            found=f"shape {tuple(self.logical_shape)}",
            hint="give it one with with_value()",
        )

    def known(self, name: str) -> int | None:
        """Return a bit width or exponent bias that is a known int, or None."""
        context: Context = self.__dict__["_context"]
        return context.numbers[self.fields.numbers.index(name)]

    def stored(self, name: str) -> torch.Tensor:
        """Return an inner tensor as it is stored, differentiable.

        Raises:
            MetadataOnlyError: the value, where it is left out.
        """
        state = self.__dict__
        found = state["_" + name]
        if found is None:
            return self.raw(name)
        if torch.is_grad_enabled():
            with torch._C.DisableTorchFunctionSubclass():
                graph = self.requires_grad
            # Who asked for gradients of the outer tensor asked for those of the value.
            if graph and name in (state["_context"].differentiable or ("value",)):
                return self.kept(name, name, lambda: untied(self, name))
        return cast("torch.Tensor", found)

    def kept(self, key: str, name: str, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Return a tensor that is made from an inner one, the same one until that one changes.

        Dynamo guards the identity of what it read from an attribute. While a graph is traced,
        nothing is kept: what one trace made means nothing to the next. Nor is anything that leads
        back to a leaf, whose gradient accumulator holds the leaf: neither would ever be freed.

        Args:
            key: what it is kept under.
            name: the inner tensor.
            make: makes the tensor.
        """
        state = self.__dict__
        version = version_of(state["_" + name]) if is_real(state["_scale"]) else None
        if version is None:
            return make()
        kept: dict[str, tuple[int, torch.Tensor]] = state.setdefault("_kept", {})
        known, found = kept.get(key, (None, None))
        if found is None or known != version:
            found = make()
            with torch._C.DisableTorchFunctionSubclass():
                leads_to_leaf = self.is_leaf and found.requires_grad
            if not leads_to_leaf:
                kept[key] = (version, found)
        return found

    def forget(self) -> None:
        """Drop what was made of inner tensors: they were changed below autograd, uncounted."""
        state = self.__dict__
        state.pop("_kept", None)
        if is_real(state["_zero_point"]):
            state["_context"] = state["_context"]._replace(symmetric=None)

    def number(self, name: str) -> Any:
        """Return a bit width or exponent bias: an int where it is known, else a tensor."""
        known = self.known(name)
        return self.stored(name) if known is None else known

    @property
    def is_symmetric(self) -> bool | None:
        """Whether the zero point is 0; None while tracing, where elements are not known."""
        self._look_at_zero_point()
        return cast("bool | None", self.__dict__["_context"].symmetric)

    def _look_at_zero_point(self) -> None:
        state = self.__dict__
        context, zero_point = state["_context"], state["_zero_point"]
        if not is_real(zero_point):
            return
        version = version_of(zero_point)
        if context.symmetric is None or version != state["_zero_version"]:
            # A tracer may be at work that must not see elements.
            with _disable_current_modes():
                symmetric = not zero_point.any().item()
            state["_context"] = context._replace(symmetric=symmetric)
            state["_zero_version"] = version

    @property
    def value(self) -> torch.Tensor:
        """The values, dequantized.

        Raises:
            MetadataOnlyError: they are left out.
        """
        return self.stored("value")

    @property
    def scale(self) -> torch.Tensor:
        """The step of the grid; broadcasts to `value`."""
        return self.stored("scale")

    @property
    def zero_point(self) -> torch.Tensor:
        """What stands for the value zero, in units of `scale`; broadcasts to `value`."""
        return self.stored("zero_point")

    @property
    def signed(self) -> bool:
        """Whether there are negative codes."""
        return cast("bool", self.__dict__["_signed"])

    @property
    def training(self) -> bool:
        """Whether it was made in training, where scales of operands may differ."""
        return cast("bool", self.__dict__["_training"])

    @property
    def inner_tensors(self) -> dict[str, torch.Tensor]:
        """The tensor fields by name, as they are stored, without a graph.

        Raises:
            MetadataOnlyError: there is no value.
        """
        return {name: self.raw(name) for name in self.fields.tensors}

    @property
    def inner_attributes(self) -> dict[str, Any]:
        """The plain fields by name."""
        return {name: self.__dict__["_" + name] for name in self.fields.attributes}

    @property
    def packed_nbytes(self) -> int:
        """Bytes of all inner tensors."""
        return sum(tensor.nbytes for tensor in self.inner_tensors.values())

    def map_tensors(
        self,
        function: Callable[[torch.Tensor], torch.Tensor],
        *,
        dtype: torch.dtype | None = None,
    ) -> Self:
        """Return the tensor with a function applied to each inner tensor, without a graph.

        Args:
            function: keeps shapes.
            dtype: converts value, scale and zero point to this type first.
        """
        names, context = self.flat()
        inner = {name: function(self.raw(name)) for name in names}
        if dtype is not None:
            inner |= {n: t.to(dtype) for n, t in inner.items() if n in self.fields.values}
            context = context._replace(dtype=dtype)
        return self.unflat(inner, context, self.logical_shape)
