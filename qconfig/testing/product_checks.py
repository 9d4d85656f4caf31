"""Checks of matrix products other than `linear`, and of embeddings."""

from typing import Any

import torch
from torch.nn.functional import embedding, linear

from qconfig.testing.subject import (
    Subject,
    equal_packed,
    has_no_views,
    require,
    require_close,
    require_linear,
)


def matrix_products(subject: Subject) -> None:
    """`mm`, `matmul`, `@` and `addmm` with the transposed weight give what `linear` gives."""
    tensor, bias = subject.build(), torch.ones(subject.shape[0], dtype=subject.dtype.to_torch())
    x, batch = subject.activation(5), subject.activation(2, 3)
    if has_no_views(tensor, lambda t: x @ t.t()):
        return
    with torch.no_grad():
        require_linear(torch.mm(x, tensor.t()), tensor, x, "mm")
        require_linear(torch.matmul(batch, tensor.t()), tensor, batch, "matmul")
        require_linear(x[0] @ tensor.transpose(0, 1), tensor, x[0], "@ of a vector")
        require_linear(torch.addmm(bias, x, tensor.t()), tensor, x, "addmm", bias)


def expert_products(subject: Subject) -> None:
    """Where stacked weights are served, `bmm` and single experts give what each weight gives."""
    rows, columns = subject.shape
    if not subject.serves((3, rows, columns), subject.module_class):
        return
    weights = torch.stack([subject.weight(seed) for seed in range(3)])
    experts: Any = subject.quantized(weights)
    require(tuple(experts.shape) == tuple(weights.shape), f"shape {tuple(experts.shape)}")
    x = subject.activation(3, 4)
    with torch.no_grad():
        product = torch.bmm(x, experts.transpose(1, 2))
        for i in range(3):
            expert = experts[i]
            require_linear(product[i], expert, x[i], f"bmm, expert {i}")
            require_linear(linear(x[i], expert), expert, x[i], f"expert {i}")


def embedding_rows(subject: Subject) -> None:
    """Where embeddings are served, rows are those of the dequantized weight, and it stays so."""
    if not subject.serves(subject.shape, "Embedding"):
        return
    tensor, before = subject.build(), subject.build()
    values = tensor.dequantize()
    for indices in (torch.tensor([[0, 5], [1, 1]]), torch.tensor(3), torch.tensor([]).long()):
        found = embedding(indices, tensor, padding_idx=0)
        require(torch.equal(found, values[indices]), f"indices of shape {tuple(indices.shape)}")
    indices, longest = torch.tensor([0, 1]), float(values.float().norm(dim=1).mean())
    shortened = embedding(indices, values.clone(), max_norm=longest)
    require_close(embedding(indices, tensor, max_norm=longest), shortened, "max_norm")
    require(equal_packed(tensor, before), "a lookup changes the weight")


CHECKS = (matrix_products, expert_products, embedding_rows)
