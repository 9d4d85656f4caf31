"""torch.export with quant tensors as inputs or parameters.

Export of pre-dispatch graphs records attributes of such classes as operators, for every tensor of
the class, so that those that are made inside have to be recorded as well. torch offers this for
constructors of subclasses (`torch._export.wrappers`); ours are made by rules, too.
"""
# ruff: noqa: SLF001 (what torch offers to subclasses has underscored names)

from contextvars import ContextVar
from typing import Any

import torch
from attrs import frozen

_at_work: ContextVar[bool] = ContextVar("recording", default=False)


def recorded(tensor: Any) -> Any:
    """Return a tensor that was just made, recorded in the graph where one needs it."""
    if not torch.compiler.is_exporting() or _at_work.get():
        return tensor
    from torch._export.wrappers import _emit_flat_apply_call
    from torch._ops import _get_dispatch_mode_pre_dispatch

    mode = _get_dispatch_mode_pre_dispatch(torch._C._TorchDispatchModeKey.PROXY)  # type: ignore[no-untyped-call]
    if mode is None:
        return tensor
    fields = {name: tensor.number(name) for name in tensor.fields.numbers}
    fields |= {n: tensor.__dict__["_" + n] for n in tensor.flat()[0] if n not in fields}
    cls = type(tensor)
    plain = {name: tensor.__dict__["_" + name] for name in tensor.fields.attributes}
    if tensor.is_metadata_only:
        plain |= {"value": None, "dtype": tensor.dtype, "size": tuple(tensor.logical_shape)}
    # Recording copies the tensor, which must not be recorded in turn.
    token = _at_work.set(True)
    try:
        _emit_flat_apply_call(
            tracer=mode.tracer,
            spec_name=cls.__name__.lower(),
            const_target_for_apply=_Make(cls, tuple(plain.items())),
            graphable_args=((), fields),
            track_value=tensor,
            call_spec_cache_key=cls.__name__.lower(),
        )
    finally:
        _at_work.reset(token)
    return tensor


def is_recording() -> bool:
    """Return whether a graph is exported, and copies of tensors belong into it."""
    return torch.compiler.is_exporting() and not _at_work.get()


@frozen
class _Make:
    """Makes a tensor of inner tensors; a graph takes no None as an argument."""

    cls: type
    plain: tuple[tuple[str, Any], ...]

    def __call__(self, **tensors: Any) -> Any:
        made: Any = self.cls
        return made.made(**tensors, **dict(self.plain))


def is_access(func: Any) -> bool:
    """Return whether a function is the operator by which exported graphs read an attribute."""
    return getattr(func, "_overloadname", None) == "default" and (
        func.name() == "export::access_subclass_inner_tensor"
    )
