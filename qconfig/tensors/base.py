"""One base for packed tensors: everything but arithmetic follows from the layout class."""
# ruff: noqa: SLF001 (what torch offers to subclasses has underscored names)

from collections.abc import Callable, Collection
from typing import Any, ClassVar, NoReturn, Self, cast

import torch

from qconfig.codec.dtypes import DType
from qconfig.codec.layout_values import wrapped
from qconfig.errors import LayoutError, UnsupportedOperationError
from qconfig.tensors.classes import add_tensor_class
from qconfig.tensors.common_ops import COMMON
from qconfig.tensors.dispatch import OperatorTable, run_aten, unsupported
from qconfig.tensors.fields import (
    PackedFields,
    has_elements,
    logical_strides,
    mapped,
    materialized,
    summary,
)
from qconfig.tensors.serialization import allow_in_weights_only, reduce_packed, stable_hash
from qconfig.tensors.value_checks import check_finite
from qconfig.versioning import Layout, registry


class PackedTensor(torch.Tensor):
    """A tensor whose elements are packed integers with scales, described by a layout class.

    A subclass says `layout_class = ...`, implements `dequantize` and registers operators in
    `operators`; an operator that is in no table raises UnsupportedOperationError. Construction
    takes the layout's fields by its own names and order, and checks them through the layout class.
    Each field is an attribute of the tensor; `dtype` is that of the tensor itself.

    - `to(dtype)`, `half()` and `module.to(dtype)` change the type that the tensor shows and
      dequantizes to. Payload and scales keep their bits and their own types.
    - `copy_` takes a packed tensor that agrees in every field, shape and type, and nothing else.
    - A payload has no gradient: `requires_grad` stays False, also when `nn.Parameter` or
      `load_state_dict(assign=True)` asks for True. Gradients reach activations.
    - Views share inner tensors; pickles hold no more than the elements of the view.
    """

    layout_class: ClassVar[type]
    operators: ClassVar[OperatorTable] = COMMON
    fields: ClassVar[PackedFields]
    shown_dtype: torch.dtype
    logical_shape: torch.Size

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "layout_class" not in cls.__dict__:
            return
        cls.operators = OperatorTable(cls.operators)
        cls.fields = PackedFields.of(cls.layout_class)
        add_tensor_class(cls.layout_class, cls)
        allow_in_weights_only(cls)

    # construction

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Check the fields of the layout and their elements, and wrap them.

        `from_fields` does the same without a look at the elements.

        Raises:
            LayoutError: naming the field that is wrong.
        """
        return cls.from_layout(cls.layout_class(*args, **kwargs), check=True)

    @classmethod
    def from_fields(cls, *args: Any, **kwargs: Any) -> Self:
        """Check types and shapes of the layout's fields, and wrap them: for what was just computed.

        Raises:
            LayoutError: naming the field that is wrong.
        """
        return cls.from_layout(cls.layout_class(*args, **kwargs))

    @classmethod
    def from_layout(cls, layout: Layout, *, check: bool = False) -> Self:
        """Wrap the tensors of a layout; a retired version is upgraded first.

        Args:
            layout: a checked layout; tensors that still lie in a file are loaded.
            check: whether to look at every element too, see `check_values`; of meta and fake
                tensors there are none.

        Raises:
            LayoutError: another layout than this class holds, or wrong values.
        """
        is_current = type(layout) is cls.layout_class
        current = layout if is_current else registry.convert(wrapped(layout))
        if type(current) is not cls.layout_class:
            raise LayoutError(
                f"{cls.__name__} cannot hold this layout",
                found=type(layout).__name__,
                expected=cls.layout_class.__name__,
            )
        value = cast("Any", current)
        tensors = materialized(value, cls.fields.tensors)
        if check and all(map(has_elements, tensors.values())):
            cls.check_layout_values(value)
        attributes = {name: getattr(value, name) for name in cls.fields.attributes}
        return cls._wrap(tensors, attributes, value.dtype.to_torch(), value.shape)

    @classmethod
    def _wrap(
        cls,
        tensors: dict[str, torch.Tensor | None],
        attributes: dict[str, Any],
        dtype: torch.dtype,
        size: Any,
        stride: Any = None,
    ) -> Self:
        # Trusted: the fields were checked before, or are fake tensors of a tracer.
        payload = cast("torch.Tensor", next(iter(tensors.values())))
        if stride is None:
            same = payload.shape == size
            stride = payload.stride() if same else logical_strides(payload, size)
        make: Any = torch.Tensor._make_wrapper_subclass
        if torch.is_inference_mode_enabled() and not payload.is_inference():
            # torch wants views of an ordinary tensor to be ordinary ones there too.
            with torch.inference_mode(mode=False):
                self = make(cls, size, strides=stride, dtype=dtype, device=payload.device)
        else:
            self = make(cls, size, strides=stride, dtype=dtype, device=payload.device)
        state = self.__dict__
        state.update(tensors)
        state.update(attributes)
        state["shown_dtype"] = dtype
        # torch's own `shape` of a subclass takes a detour of microseconds.
        state["logical_shape"] = size
        return cast("Self", self)

    @classmethod
    def check_layout_values(cls, layout: Any) -> None:
        """Check the elements of a layout; a subclass knows more than that floats are finite."""
        check_finite(layout, cls.fields.tensors)

    @classmethod
    def simplify(cls, layout: Any) -> Any:
        """Return a layout of equal values that computes faster; loading calls it."""
        return layout

    @classmethod
    def fields_read(cls, layout: Any) -> Collection[str]:
        """Return the tensor fields that `simplify` looks into: loading reads and maps the rest.

        Args:
            layout: of lazy tensors.
        """
        del layout
        return ()

    # the way back

    def to_layout(self) -> Any:
        """Return the layout record of this tensor, checked; it shares the inner tensors.

        `torch.Tensor.layout` is torch's own attribute (`torch.strided`) and stays so.
        """
        fields = {**self.inner_tensors, **self.inner_attributes}
        return self.layout_class(**fields, dtype=DType.parse(self.shown_dtype))

    @property
    def inner_tensors(self) -> dict[str, torch.Tensor | None]:
        """The tensor fields by name, absent ones as None."""
        state = self.__dict__
        return {name: state[name] for name in self.fields.tensors}

    @property
    def inner_attributes(self) -> dict[str, Any]:
        """The plain fields by name, without `dtype`."""
        state = self.__dict__
        return {name: state[name] for name in self.fields.attributes}

    @property
    def packed_nbytes(self) -> int:
        """Bytes of all inner tensors; torch's own `nbytes` counts the elements it shows."""
        return sum(t.nbytes for t in self.inner_tensors.values() if t is not None)

    def with_fields(self, **changes: Any) -> Self:
        """Return the tensor with some fields replaced; types and shapes are checked.

        Raises:
            LayoutError: naming the field that is wrong.
        """
        fields = {**self.inner_tensors, **self.inner_attributes, "dtype": self.shown_dtype}
        return self.from_fields(**(fields | changes))

    def map_tensors(
        self,
        function: Callable[[torch.Tensor], torch.Tensor],
        *,
        dtype: torch.dtype | None = None,
    ) -> Self:
        """Return the tensor with a function that keeps dtypes and shapes applied to each field."""
        tensors = mapped(self.inner_tensors, function)
        return self._wrap(tensors, self.inner_attributes, dtype or self.shown_dtype, self.shape)

    def dequantize(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return the values as an ordinary tensor of `dtype`, by default the one shown."""
        raise UnsupportedOperationError(f"{type(self).__name__} does not implement dequantize")

    # protocols of torch

    def __tensor_flatten__(self) -> tuple[list[str], tuple[Any, ...]]:
        """Return the names of the present inner tensors and plain, hashable data."""
        state = self.__dict__
        names = [name for name in self.fields.tensors if state[name] is not None]
        return names, (self.shown_dtype, *(state[name] for name in self.fields.attributes))

    @classmethod
    def __tensor_unflatten__(
        cls, inner: dict[str, Any], context: tuple[Any, ...], size: Any, stride: Any
    ) -> Self:
        """Rebuild a tensor from what `__tensor_flatten__` named, unchecked."""
        tensors = {name: inner.get(name) for name in cls.fields.tensors}
        attributes = dict(zip(cls.fields.attributes, context[1:], strict=True))
        return cls._wrap(tensors, attributes, context[0], size, stride)

    def _stable_hash_for_caching(self) -> str:
        return stable_hash(self)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a function of torch: ours where there is one, else torch's own on this tensor."""
        implementation = cls.operators.torch.get(func)
        if implementation is not None:
            return implementation(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an aten operator from the table, or refuse it."""
        return run_aten(cls, cls.operators, func, args, kwargs or {})

    def requires_grad_(self, mode: bool = True) -> Self:  # noqa: FBT001, FBT002
        """Return self: a packed payload has no gradient, whatever `mode` says."""
        return self

    def share_memory_(self) -> NoReturn:
        """Refuse: the outer tensor has no storage that another process could map."""
        raise unsupported(type(self), "share_memory_", "share its inner tensors instead")

    def __dlpack__(self, **options: Any) -> NoReturn:
        """Refuse: the capsule would point to nothing."""
        raise unsupported(type(self), "__dlpack__", "export its inner tensors instead")

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        known = memo.get(id(self))
        if known is None:
            known = self.map_tensors(torch.clone)
            _keep_parameter(self, known)
            memo[id(self)] = known
        return cast("Self", known)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return reduce_packed(self)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        """Return class, dtype, shape and fields in one line, without elements."""
        parts = summary(self.inner_tensors, self.inner_attributes, self.shown_dtype)
        return f"{type(self).__name__}({', '.join(parts)})"


def _keep_parameter(old: PackedTensor, new: PackedTensor) -> None:
    if old.__dict__.get("_is_param"):
        new.__dict__["_is_param"] = True
