"""A packed weight seen as one dimension, as FSDP2 holds its shards."""
# ruff: noqa: SLF001 (what torch offers to subclasses has underscored names)

from typing import TYPE_CHECKING, Any, Self, cast

import torch

from qconfig.tensors.dispatch import unsupported

if TYPE_CHECKING:
    from qconfig.tensors.matrix import MatrixTensor

aten = torch.ops.aten


class FlatView(torch.Tensor):
    """What `view(-1)` of a packed weight is: it can be viewed back and dequantized, and no more.

    Attributes:
        matrix: the packed weight, of which it is a view.
    """

    matrix: "MatrixTensor"

    def __new__(cls, matrix: "MatrixTensor") -> Self:
        """Return the flat view of a packed weight."""
        make: Any = torch.Tensor._make_wrapper_subclass
        self = make(cls, (matrix.numel(),), dtype=matrix.shown_dtype, device=matrix.device)
        self.matrix = matrix
        return cast("Self", self)

    def dequantize(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return the values, in the order of rows, as an ordinary tensor."""
        return self.matrix.dequantize(dtype).reshape(-1)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"FlatView({self.matrix!r})"

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run torch's own functions on this tensor."""
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the few operators there are, or refuse."""
        if func is aten.view.default:
            return args[0].matrix.view(args[1])
        if func in (aten.detach.default, aten.alias.default):
            return cls(func(args[0].matrix))
        raise unsupported(cls, func)
