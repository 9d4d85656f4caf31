"""The relation between quantized data, its block size and its scale."""

from qconfig.errors import LayoutError


def scale_shape(shape: tuple[int, ...], block_size: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a scale that keeps its dimensions: one entry per block.

    Args:
        shape: logical shape of the quantized tensor.
        block_size: elements of a block along each dimension.

    Raises:
        LayoutError: other rank, or blocks that do not tile the shape.
    """
    if len(block_size) != len(shape):
        raise LayoutError(
            "block_size has another rank than the tensor",
            pointer="/block_size",
            found=block_size,
            expected=f"{len(shape)} entries for shape {shape}",
        )
    if any(n != 0 and (b < 1 or n % b) for n, b in zip(shape, block_size, strict=True)):
        raise LayoutError(
            "block_size does not tile the tensor",
            pointer="/block_size",
            found=block_size,
            expected=f"divisors of shape {shape}",
        )
    return tuple(n // b if n else 0 for n, b in zip(shape, block_size, strict=True))


def check_scale(name: str, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Raise LayoutError unless a scale or zero point has one entry per block."""
    if found != expected:
        raise LayoutError(
            f"{name} has a wrong shape for its blocks",
            pointer=f"/{name}",
            found=found,
            expected=f"shape {expected}",
        )
