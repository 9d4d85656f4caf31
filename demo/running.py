"""The step that loads models and runs them; it needs transformers."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from demo.measures import unequal
from demo.screen import Screen
from demo.sentences import SENTENCES, Agreement, agreement, embed

if TYPE_CHECKING:
    import torch

LEAST_COSINE = 0.98


def can_run(screen: Screen) -> bool:
    """Return whether transformers is there, and say so if it is not."""
    if find_spec("transformers") is not None:
        return True
    screen.say("transformers is not installed: models are neither built nor run here.")
    screen.say("`make demo` installs it; by hand: pip install -e '.[cli,demo]'")
    return False


def run_models(screen: Screen) -> "torch.Tensor | None":
    """Load the float and the quantized model, compare codes and sentence embeddings.

    Returns:
        The embeddings of the quantized model; None without transformers.
    """
    if not can_run(screen):
        return None
    from demo import model as recipes

    original = screen.python(recipes.new_model)
    screen.python(recipes.load_float, original)
    quantized = recipes.new_model()
    screen.say("\nThe same for a second model, with the quantized checkpoint:")
    screen.python(recipes.load_quantized, quantized)
    tokenizer = screen.python(recipes.load_tokenizer)
    before, after = embed(original, tokenizer), embed(quantized, tokenizer)
    show_agreement(screen, agreement(before, after))
    screen.say("\nThe float model quantized in memory, without files:")
    screen.python(recipes.quantize_in_memory, original)
    weights = recipes.weights_of(quantized)
    different = unequal(recipes.weights_of(original), weights)
    count = sum(hasattr(t, "qdata") for t in weights.values())
    screen.check(
        f"codes and scales of {count} weights are bit for bit those of the checkpoint",
        holds=count > 0 and not different,
    )
    return after


def run_upgraded(screen: Screen, expected: "torch.Tensor | None") -> None:
    """Run the upgraded checkpoint; its embeddings have to be those of the quantized one."""
    if expected is None:
        return
    from demo import model as recipes

    upgraded = recipes.new_model()
    screen.python(recipes.load_upgraded, upgraded)
    found = embed(upgraded, recipes.load_tokenizer())
    largest = float((found - expected).abs().max())
    screen.check(
        f"the upgraded model gives the same embeddings; largest difference {largest:.1e}",
        holds=largest < 1e-6,
    )


def show_agreement(screen: Screen, found: Agreement) -> None:
    """Print cosine similarities and neighbours, and check them."""
    rows = [[text, f"{c:.6f}"] for text, c in zip(SENTENCES, found.cosines, strict=True)]
    screen.table("Float against int8", ["sentence", "cosine similarity"], rows)
    mean, least = sum(found.cosines) / len(found.cosines), min(found.cosines)
    total = len(SENTENCES)
    screen.say(f"  mean {mean:.6f}, least {least:.6f}\n")
    screen.check(f"every cosine similarity is at least {LEAST_COSINE}", holds=least >= LEAST_COSINE)
    screen.check(
        f"the nearest neighbour is the same for {found.nearest} of {total} sentences",
        holds=found.nearest == total,
    )
    screen.say(f"      the three nearest, in their order, for {found.three_nearest} of {total}")
