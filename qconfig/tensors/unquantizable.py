"""Errors of weights, scales and zero points that no codes can be made of."""

import torch

from qconfig.errors import BuildError

_AT_ONCE = 1 << 20


def is_finite(values: torch.Tensor) -> bool:
    """Return whether no element is NaN or infinite, with little memory beside them."""
    flat = values.reshape(-1)
    starts = range(0, flat.numel(), _AT_ONCE)
    return all(bool(flat[start : start + _AT_ONCE].isfinite().all()) for start in starts)


def not_finite(weight: torch.Tensor, scale_dtype: torch.dtype = torch.float32) -> BuildError:
    """Return the error of a weight that has no finite scale.

    Args:
        weight: what was to be quantized; count and first index of NaN and infinity are named.
        scale_dtype: the type in which scales were found or are stored.
    """
    bad = ~weight.isfinite()
    if not bool(bad.any()):
        return BuildError(
            f"the weight is too large for scales in {str(scale_dtype).removeprefix('torch.')}",
            found=float(weight.abs().max()),
            expected=f"scales up to {torch.finfo(scale_dtype).max}",
            hint="give the scales a type with a wider range, if the config has a choice",
        )
    first = tuple(bad.nonzero()[0].tolist())
    return BuildError(
        f"the weight holds {int(bad.sum())} values that are NaN or infinite, "
        f"the first at {list(first)}",
        found=weight[first].item(),
        expected="finite values",
        hint="quantize the weights of a sound checkpoint, or skip this parameter",
    )


def refuse_blocks(bad: torch.Tensor, values: torch.Tensor, name: str, expected: str) -> None:
    """Raise BuildError with count, first index and first value where `bad` is true.

    Args:
        bad: bool, one entry a block.
        values: given scales or zero points, of the same shape.
        name: "scale" or "zero_point".
        expected: what they have to be.
    """
    if bool(bad.any()):
        first = tuple(bad.nonzero()[0].tolist())
        raise BuildError(
            f"{name} is wrong in {int(bad.sum())} of {bad.numel()} blocks, "
            f"the first at {list(first)}",
            pointer=f"/{name}",
            found=values[first].item(),
            expected=expected,
        )
