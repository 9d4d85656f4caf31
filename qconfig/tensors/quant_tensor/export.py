"""torch.export with quant tensors as inputs or parameters.

Export of pre-dispatch graphs records attributes of such classes as operators, for every tensor of
the class, so that those that are made inside have to be recorded as well. torch offers this for
constructors of subclasses (`torch._export.wrappers`); ours are made by rules, too.
"""
# ruff: noqa: SLF001 (what torch offers to subclasses has underscored names)

from typing import Any

import torch
from attrs import frozen

_PLAIN: Any = torch.Tensor.__getattribute__


def recorded(tensor: Any) -> Any:
    """Return a tensor that was just made, recorded in the graph where one needs it."""
    if type(tensor).__getattribute__ is _PLAIN or not torch.compiler.is_exporting():
        return tensor
    from torch._export.wrappers import _emit_flat_apply_call
    from torch._ops import _get_dispatch_mode_pre_dispatch

    mode = _get_dispatch_mode_pre_dispatch(torch._C._TorchDispatchModeKey.PROXY)  # type: ignore[no-untyped-call]
    if mode is None:
        return tensor
    fields = {name: tensor.number(name) for name in tensor.fields.numbers}
    fields |= {n: tensor.__dict__["_" + n] for n in tensor.fields.tensors if n not in fields}
    cls = type(tensor)
    plain = {name: tensor.__dict__["_" + name] for name in tensor.fields.attributes}
    _emit_flat_apply_call(
        tracer=mode.tracer,
        spec_name=cls.__name__.lower(),
        const_target_for_apply=_Make(cls, tuple(plain.items())),
        graphable_args=((), fields),
        track_value=tensor,
        call_spec_cache_key=cls.__name__.lower(),
    )
    return tensor


@frozen
class _Make:
    """Makes a tensor of inner tensors; a graph takes no None as an argument."""

    cls: type
    plain: tuple[tuple[str, Any], ...]

    def __call__(self, **tensors: Any) -> Any:
        return self.cls(**tensors, **dict(self.plain))


def is_access(func: Any) -> bool:
    """Return whether a function is the operator by which exported graphs read an attribute."""
    return getattr(func, "_overloadname", None) == "default" and (
        func.name() == "export::access_subclass_inner_tensor"
    )
