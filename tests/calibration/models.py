"""Small models with activations of known shape, and what direct computation says of them."""

import torch
from torch import nn


class Branches(nn.Module):
    """Two linears in a row, one that is used twice, and one that only a flag reaches."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.up = nn.Linear(24, 40, dtype=dtype)
        self.twice = nn.Linear(40, 40, dtype=dtype)
        self.down = nn.Linear(40, 8, dtype=dtype)
        self.rare = nn.Linear(24, 8, dtype=dtype)
        self.norm = nn.LayerNorm(24, dtype=dtype)
        self.drop = nn.Dropout(0.5)

    def forward(self, x, *, rare=False):
        """Return (..., 8)."""
        hidden = self.twice(self.twice(self.up(self.drop(self.norm(x)))))
        out = self.down(hidden)
        return out + self.rare(x) if rare else out


def one_linear(features=24, out=8, dtype=torch.float32, seed=0):
    """Return a model of one linear, named "0"."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(features, out, dtype=dtype))


def batches(count=4, rows=50, features=24, dtype=torch.float32, seed=1):
    """Return batches whose channels have very different ranges, and no symmetric ones."""
    generator = torch.Generator().manual_seed(seed)
    spread = torch.linspace(0.01, 3, features) ** 2
    found = []
    for i in range(count):
        x = torch.randn(rows + i, features, generator=generator) * spread + 0.3 * spread
        found.append(x.to(dtype))
    return found
