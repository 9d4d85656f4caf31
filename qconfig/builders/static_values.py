"""What values static scales of int8 activations and outputs may have."""

from typing import TYPE_CHECKING

from qconfig.errors import BuildError

if TYPE_CHECKING:
    import torch


def check_fits_float32(scale: "torch.Tensor", name: str) -> None:
    """Check that float32, in which scales are used, holds a scale as a normal number.

    Args:
        scale: floating point.
        name: the config's field.

    Raises:
        BuildError: naming the field and the first value that is smaller or larger.
    """
    import torch

    limits, wide = torch.finfo(torch.float32), scale.detach().double()
    bad = ~((wide >= limits.tiny) & (wide <= limits.max))
    if bool(bad.any()):
        raise BuildError(
            f"{name} does not fit float32",
            pointer=f"/{name}",
            found=wide[bad][0].item(),
            expected=f"numbers from {limits.tiny} to {limits.max}",
        )
