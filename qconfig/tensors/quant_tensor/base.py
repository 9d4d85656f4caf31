"""The base of fake-quantized tensors: values that keep the metadata of their quantization.

The value is an ordinary, differentiable tensor of floats; scale, zero point and format say on
which grid it lies. Rules (`rules`) say what an operation makes of the metadata; an operation
without a rule computes with the values and gives a plain tensor.
"""
# ruff: noqa: SLF001 (what torch offers to subclasses has underscored names)

from collections.abc import Collection
from typing import Any, ClassVar, Self, cast

import torch

from qconfig.codec.dtypes import DType
from qconfig.codec.tensor_values import TensorSpec, TensorValue
from qconfig.errors import LayoutError, QuantTensorError, nearest
from qconfig.layouts.quant_shapes import grouped_shape
from qconfig.tensors.classes import add_tensor_class
from qconfig.tensors.fields import short_tensor
from qconfig.tensors.quant_tensor.autograd import tied
from qconfig.tensors.quant_tensor.construction import checked_tensors
from qconfig.tensors.quant_tensor.differences import difference
from qconfig.tensors.quant_tensor.dispatch import run_aten, run_torch
from qconfig.tensors.quant_tensor.export import recorded
from qconfig.tensors.quant_tensor.fields import (
    Context,
    InnerAttributes,
    QuantFields,
    as_flag,
    as_number,
    as_tensor,
    is_real,
)
from qconfig.tensors.quant_tensor.pickles import allow_in_weights_only, reduce_quant, stable_hash
from qconfig.tensors.quant_tensor.rules import RuleTable
from qconfig.tensors.quant_tensor.transposed import TransposedTensors
from qconfig.versioning import Layout, registry

_CPU = torch.device("cpu")


class QuantTensor(TransposedTensors):
    """A tensor of values on a grid, described by a layout class.

    A subclass says `layout_class = ...` and its `rules`; its constructor takes the fields of the
    layout. Every field is a property under its own name. Shape, dtype and device are those of
    `value`.

    - A tensor is in one of two states: it has its value, or it is metadata alone
      (`metadata_only`, `with_value`): then shape, dtype and metadata are there, and whatever needs
      the value raises MetadataOnlyError.
    - `detach`, `clone`, `to`, `cpu`, `cuda` keep class and metadata. `to(dtype)` converts value,
      scale and zero point; flags are Python values, bit widths keep their type.
    - Gradients reach value, scale and zero point.
    - Nothing changes a quant tensor in place but `copy_` from one that agrees in all but elements;
      `a += b` is `a = a + b`.
    """

    layout_class: ClassVar[type]
    kind: ClassVar[str]
    attribute_names: ClassVar[dict[int, InnerAttributes]]
    rules: ClassVar[RuleTable] = RuleTable()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "layout_class" not in cls.__dict__:
            return
        cls.fields = QuantFields.of(cls.layout_class)
        cls.inner_names = names = cls.fields.tensors
        cls.attribute_names = {
            len(some): InnerAttributes.of(cls.fields, some) for some in (names, names[1:])
        }
        add_tensor_class(cls.layout_class, cls)
        allow_in_weights_only(cls)

    # construction

    @classmethod
    def made(
        cls, size: tuple[int, ...] | None = None, *, symmetric: bool | None = None, **fields: Any
    ) -> Self:
        """Return a tensor of the layout's fields; they were checked, or come out of a rule.

        Args:
            size: logical shape, by default that of `value`.
            symmetric: whether the zero point is 0, if that is known.
            fields: each field of the layout; `value` may be None for metadata alone, with a
                `dtype` beside it.
        """
        if torch.compiler.is_dynamo_compiling():
            # A call of the class is an operator of Dynamo's graph; what it does is not looked into.
            if symmetric:
                fields["zero_point"] = 0
            fields.pop("dtype", None)
            return cls(**fields)
        value, scale, zero_point = fields["value"], fields["scale"], fields["zero_point"]
        device = (scale if value is None else value).device
        scale = as_tensor(scale, device)
        inner = {
            "value": value,
            "scale": scale,
            "zero_point": as_tensor(zero_point, device, like=scale),
        }
        known = []
        for name in cls.fields.numbers:
            number = as_number(fields[name], device)
            is_known = isinstance(number, int)
            known.append(number if is_known else None)
            if not is_known:
                inner[name] = number
            elif not is_real(scale):  # made now: a tracer is there now only
                inner[name] = as_tensor(number, device, like=scale)
        names: tuple[str, ...] = ()
        if torch.is_grad_enabled():
            names = tuple([n for n, t in inner.items() if t is not None and t.requires_grad])
        context = Context(
            fields["dtype"] if value is None else value.dtype,
            symmetric if isinstance(zero_point, torch.Tensor) else zero_point == 0,
            names,
            tuple(known),
            tuple([fields[name] for name in cls.fields.attributes]),
        )
        shape = torch.Size(value.shape if size is None else size)
        if names:
            return cast("Self", recorded(tied(cls, inner, context, shape, names)))
        return cast("Self", recorded(cls.unflat(inner, context, shape)))

    @classmethod
    def from_layout(cls, layout: Layout, *, check: bool = False) -> Self:
        """Return the tensor of a layout; a retired version is upgraded first.

        Args:
            layout: a checked layout; tensors that still lie in a file are loaded.
            check: whether to look at every element too, see `check_layout_values`.

        Raises:
            LayoutError: another layout than this class holds, or wrong values.
        """
        from qconfig.codec.layout_values import wrapped
        from qconfig.tensors.fields import materialized

        current: Any = layout
        if not isinstance(current, cls.layout_class):
            current = registry.convert(wrapped(layout))
        if not isinstance(current, cls.layout_class):
            raise LayoutError(
                f"{cls.__name__} cannot hold this layout",
                found=type(layout).__name__,
                expected=cls.layout_class.__name__,
            )
        fields: dict[str, Any] = materialized(current, cls.fields.tensors)
        if check:
            cls.check_layout_values(current)
        fields |= {name: getattr(current, name) for name in cls.fields.attributes}
        return cls.made(tuple(layout.shape), **fields)

    @classmethod
    def check_layout_values(cls, layout: Any) -> None:
        """Check the elements of a layout: scales are positive and finite."""
        from qconfig.tensors.quant_tensor.value_checks import check_quant_values

        check_quant_values(layout)

    @classmethod
    def simplify(cls, layout: Any) -> Any:
        """Return the layout: none computes faster."""
        return layout

    @classmethod
    def fields_read(cls, layout: Any) -> Collection[str]:
        """Return the tensor fields that become numbers or are compared: all but the value."""
        del layout
        return cls.fields.tensors[1:]

    # what it is made of

    @property
    def is_metadata_only(self) -> bool:
        """Whether the value is left out."""
        return self.__dict__["_value"] is None

    def metadata_only(self) -> Self:
        """Return the tensor without its value: shape, dtype, device and metadata stay."""
        names, context = self.flat()
        inner = {name: self.raw(name) for name in names if name != "value"}
        context = context._replace(differentiable=())
        return cast("Self", recorded(self.unflat(inner, context, self.logical_shape)))

    def with_value(self, value: torch.Tensor) -> Self:
        """Return this metadata with a value of the same shape.

        Raises:
            QuantTensorError: another shape.
        """
        if tuple(value.shape) != tuple(self.logical_shape):
            raise QuantTensorError(
                "the value has another shape than the metadata is for",
                found=tuple(value.shape),
                expected=str(tuple(self.logical_shape)),
            )
        return self.set(value=value)

    # the way back

    def set(self, **changes: Any) -> Self:
        """Return the tensor with some fields replaced; nothing is computed anew.

        Args:
            changes: fields by their names, or as Brevitas' NamedTuple called them.

        Raises:
            LayoutError: a field that there is not, or twice; or the fields do not fit together.
        """
        known = self.fields.all
        renamed: dict[str, Any] = {}
        for given_name, changed in changes.items():
            name = given_name.removesuffix("_t").removesuffix("_")
            if name in renamed:
                raise LayoutError(
                    f"{name} is given twice", found=given_name, expected="one value for a field"
                )
            renamed[name] = changed
            if name not in known:
                raise LayoutError(
                    f"{type(self).__name__} has no such field",
                    found=name,
                    expected="one of " + ", ".join(known),
                    hint=nearest(name, known),
                )
        fields: dict[str, Any] = {}
        for name in known:
            if name in renamed:
                given = renamed[name]
                fields[name] = as_flag(given) if name in self.fields.flags else given
            elif name in self.fields.numbers:
                fields[name] = self.number(name)
            elif name in self.fields.attributes or self.__dict__["_" + name] is None:
                fields[name] = self.__dict__["_" + name]
            else:
                fields[name] = self.stored(name)
        if fields["value"] is not None:
            return self.checked(**fields)
        dtype: torch.dtype = self.__dict__["_context"].dtype
        shape = tuple(self.logical_shape)
        if self.fields.grouped:
            shape = grouped_shape(shape, fields["group_size"], fields["group_dim"])
        # Metadata alone has to fit, too.
        self._laid_out(TensorSpec(DType.parse(dtype), shape), fields)
        return self.made(self.logical_shape, **fields, dtype=dtype)

    @classmethod
    def checked(cls, **fields: Any) -> Self:
        """Return a tensor of the layout's fields after checking that they fit together.

        Raises:
            LayoutError: naming the field.
        """
        fields |= checked_tensors(cls.fields, fields)
        layout = cls._laid_out(fields["value"].detach(), fields)
        return cls.made(layout.shape, **fields)

    @classmethod
    def _laid_out(cls, value: TensorValue, fields: dict[str, Any]) -> Any:
        """Return the layout of a value with the other fields; making it checks them."""
        tensors = {
            name: as_tensor(fields[name], _CPU).detach()
            for name in cls.fields.tensors
            if name != "value"
        }
        plain = {name: fields[name] for name in cls.fields.attributes}
        return cls.layout_class(value=value, **tensors, **plain)

    def to_layout(self) -> Any:
        """Return the layout record of this tensor, checked; it shares the inner tensors.

        Raises:
            MetadataOnlyError: there is no value.
        """
        return self.layout_class(**self.inner_tensors, **self.inner_attributes)

    def difference(self, other: Any) -> tuple[str, str] | None:
        """Return what another tensor is and what this one is, in words, or None.

        Compared are class, bit widths, flags and groups; not shapes and elements.
        """
        return difference(self, other)

    # protocols of torch

    def __tensor_flatten__(self) -> tuple[list[str], Context]:
        """Return the attributes that are inner tensors, and plain, hashable data."""
        names, context = self.flat()
        return self.attribute_names[len(names)], context

    @classmethod
    def __tensor_unflatten__(
        cls, inner: dict[str, Any], context: Context, size: Any, stride: Any
    ) -> Self:
        """Rebuild a tensor from what `__tensor_flatten__` named, unchecked."""
        tensors = {name.removeprefix("_"): tensor for name, tensor in inner.items()}
        return cls.unflat(tensors, context, torch.Size(size))

    def _stable_hash_for_caching(self) -> str:
        return stable_hash(self)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a function of torch: by its rule, on the tensor itself, or on the values."""
        return run_torch(cls.rules, func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an aten operator below autograd: copies keep the class, others take the values."""
        return run_aten(func, args, kwargs or {})

    def requires_grad_(self, mode: bool = True) -> Self:  # noqa: FBT001, FBT002
        """Have gradients of the value recorded from here on, or not."""
        context = self.__dict__["_context"]
        if not context.differentiable and mode:
            self.__dict__["_context"] = context._replace(differentiable=("value",))
        with torch._C.DisableTorchFunctionSubclass():
            super().requires_grad_(mode)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        known = memo.get(id(self))
        if known is None:
            with torch._C.DisableTorchFunctionSubclass():
                leaf, graph = self.is_leaf, self.requires_grad
            if not leaf:
                raise RuntimeError(
                    "only tensors that the user made can be copied deeply: this one has a graph"
                )
            known = self.map_tensors(torch.clone)
            if graph:
                known.requires_grad_()
            if self.__dict__.get("_is_param"):
                known.__dict__["_is_param"] = True
            memo[id(self)] = known
        return cast("Self", known)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return reduce_quant(self)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        """Return class, shape and fields in one line, without elements."""
        state = self.__dict__
        shown: dict[str, Any] = {"value": "absent" if self.is_metadata_only else None}
        for name in self.fields.tensors:
            inner = self.known(name) if name in self.fields.numbers else None
            inner = state["_" + name] if inner is None else inner
            if inner is not None:
                shown[name] = short_tensor(inner) if isinstance(inner, torch.Tensor) else inner
        shown["shape"] = list(self.logical_shape)
        shown |= self.inner_attributes
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in shown.items())})"

    def __iadd__(self, other: Any) -> Any:  # type: ignore[misc]
        return self + other

    def __isub__(self, other: Any) -> Any:  # type: ignore[misc]
        return self - other

    def __imul__(self, other: Any) -> Any:  # type: ignore[misc]
        return self * other

    def __itruediv__(self, other: Any) -> Any:  # type: ignore[misc]
        return self / other

    def __ipow__(self, other: Any) -> Any:  # type: ignore[misc]
        return self**other

    def __ifloordiv__(self, other: Any) -> Any:  # type: ignore[misc]
        return self // other

    def __imod__(self, other: Any) -> Any:  # type: ignore[misc]
        return self % other

    def __imatmul__(self, other: Any) -> Any:  # type: ignore[misc]
        return self @ other
