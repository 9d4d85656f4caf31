"""The relation between quantized data, its block size and its scale."""

from qconfig.codec.tensor_values import TensorValue
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


def check_qparams(
    shape: tuple[int, ...],
    block_size: tuple[int, ...],
    scale: TensorValue,
    zero_point: TensorValue | None,
) -> None:
    """Check that scales and zero points keep their dimensions and have one entry per block.

    Args:
        shape: logical shape of the quantized tensor.
        block_size: elements of a block along each dimension.
        scale: the scales.
        zero_point: the zero points, or None where there are none.

    Raises:
        LayoutError: naming the field; or blocks that do not tile the shape.
    """
    blocks = scale_shape(shape, block_size)
    check_scale("scale", tuple(scale.shape), blocks)
    if zero_point is not None:
        check_scale("zero_point", tuple(zero_point.shape), blocks)
