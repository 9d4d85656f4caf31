"""Sentence embeddings: a few sentences, the model's recipe, and how two sets of them agree."""

from typing import Any

import torch
from attrs import frozen

# Four subjects, three sentences each.
SENTENCES = (
    "The bread rises for two hours before it goes into the oven.",
    "Knead the dough until it no longer sticks to your hands.",
    "How long should a loaf of sourdough bake?",
    "The spacecraft entered an orbit around Jupiter last night.",
    "Astronomers found water on a planet outside our solar system.",
    "A telescope in Chile photographed the distant galaxy.",
    "The central bank left interest rates unchanged.",
    "Inflation slowed for the third month in a row.",
    "Shares fell after the company warned about its profit.",
    "The goalkeeper saved a penalty in the last minute.",
    "Our team lost the final after extra time.",
    "She ran the marathon in under three hours.",
)


@frozen
class Agreement:
    """How the embeddings of two models agree.

    Args:
        cosines: cosine similarity of each sentence with itself, float64.
        nearest: of how many sentences the nearest neighbour is the same.
        three_nearest: of how many the three nearest neighbours are the same, in the same order.
    """

    cosines: tuple[float, ...]
    nearest: int
    three_nearest: int


def embed(model: Any, tokenizer: Any) -> torch.Tensor:
    """Return the embeddings of `SENTENCES`, (sentences, 384), float64, of length one.

    The recipe of the model's card: mean of the last hidden states over the tokens that are no
    padding, then scaled to length one.
    """
    batch = tokenizer(list(SENTENCES), padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        hidden = model(**batch).last_hidden_state.double()
    mask = batch["attention_mask"].unsqueeze(-1).double()
    mean = (hidden * mask).sum(1) / mask.sum(1)
    return torch.nn.functional.normalize(mean, dim=1)


def agreement(first: torch.Tensor, second: torch.Tensor) -> Agreement:
    """Return how two sets of embeddings of the same sentences agree."""
    a, b = _neighbours(first), _neighbours(second)
    return Agreement(
        tuple((first * second).sum(1).tolist()),
        int((a[:, 0] == b[:, 0]).sum()),
        int((a[:, :3] == b[:, :3]).all(1).sum()),
    )


def _neighbours(embeddings: torch.Tensor) -> torch.Tensor:
    """Return for each sentence the others, nearest first."""
    similarity = embeddings @ embeddings.T
    similarity.fill_diagonal_(-torch.inf)
    return similarity.argsort(dim=1, descending=True)[:, :-1]
