"""NF4 codes and their scales, as torchao's `to_nf4` makes them.

A block's scale is its largest magnitude; a code names the value of the table nearest to the element
over its scale, the lower one of a tie. Scales are kept less their mean, in int8: a group's divisor
is `128 / max|scale - mean|`. All is computed in the weight's type. Elements of a block of zeros
have the code of 0; torchao gives them that of -1, times what is left of a scale of 0. Source of the
table: QLoRA, arXiv 2305.14314, appendix E, to four digits as torchao has it.
"""

import torch

from qconfig.tensors.slab_size import slab_elements
from qconfig.tensors.unquantizable import not_finite

TABLE = (
    -1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0,
    0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1.0,
)  # fmt: skip
"""What the codes 0 to 15 mean."""

Quantized = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def quantize_nf4(weight: torch.Tensor, block_size: int, scaler_block_size: int) -> Quantized:
    """Return codes, scales, divisors, the mean of the scales and the table.

    Args:
        weight: (N, K), floating point; it is left as it is.
        block_size: elements that share a scale, a divisor of N * K.
        scaler_block_size: scales that share a divisor, a divisor of their number.

    Returns:
        As `NF4TensorLayout` has them.

    Raises:
        BuildError: the weight holds NaN or infinity.
    """
    weight = weight.detach()
    table = torch.tensor(TABLE, dtype=weight.dtype, device=weight.device)
    blocks = weight.reshape(-1, block_size)
    step = 2 * max(1, slab_elements(weight, 16 * weight.itemsize) // (2 * block_size))
    largest = torch.empty(blocks.shape[0], dtype=weight.dtype, device=weight.device)
    for start in range(0, blocks.shape[0], step):
        largest[start : start + step] = blocks[start : start + step].abs().amax(1)
    if not bool(largest.isfinite().all()):
        raise not_finite(weight, weight.dtype)
    mean = largest.mean()
    groups = (largest - mean).view(-1, scaler_block_size)
    factor = 256 / (2 * groups.abs().amax(1, keepdim=True))
    scalers = (groups * factor).round().clamp(-128, 127).nan_to_num().to(torch.int8)
    data = torch.empty(weight.numel() // 2, dtype=torch.uint8, device=weight.device)
    for start in range(0, blocks.shape[0], step):
        rows = slice(start, start + step)
        scaled = (blocks[rows] / largest[rows].unsqueeze(1)).nan_to_num_()
        codes = (scaled.unsqueeze(2) - table).abs().min(2).indices.to(torch.uint8).view(-1, 2)
        first = start * block_size // 2
        torch.bitwise_or(codes[:, 0] << 4, codes[:, 1], out=data[first : first + len(codes)])
    return data, scalers.flatten(), factor.flatten(), mean, table
