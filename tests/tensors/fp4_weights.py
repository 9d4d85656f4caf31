"""Weights that a quantizer of blocks may stumble over."""

from collections.abc import Iterator

import torch

SHAPES = ((1, 32), (33, 96))


def weights(dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield weights by name: ordinary, of any size, with zeros, on the ties of fp4, of any bits."""
    generator = torch.Generator().manual_seed(0)
    for rows, columns in SHAPES:
        shape = (rows, columns)
        plain = torch.randn(shape, generator=generator)

        def exponents(low: int, high: int, shape: tuple[int, int] = shape) -> torch.Tensor:
            return torch.exp2(torch.randint(low, high, shape, generator=generator).float())

        zeros = plain.clone()
        zeros[:, :32] = 0
        zeros[0] = -0.0
        bits = torch.randint(-(2**31), 2**31 - 1, shape, generator=generator, dtype=torch.int32)
        found = {
            "normal": plain,
            "any_size": plain * exponents(-140, 120),
            "huge": plain.sign() * exponents(110, 127),
            "with_zeros": zeros,
            "ties": torch.randint(-28, 28, shape, generator=generator) / 4,
            "any_bits": bits.view(torch.float32).nan_to_num(1.0, 1.0, 1.0),
        }
        for name, values in found.items():
            yield f"{name}-{rows}x{columns}", values.to(dtype).nan_to_num(1.0, 1.0, 1.0)
