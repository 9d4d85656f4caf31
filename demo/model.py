"""The model itself, through transformers, and what is typed to fill it."""

from typing import Any

import torch

# Only `make demo` installs it.
from transformers import (  # type: ignore[import-not-found, unused-ignore]
    AutoTokenizer,
    BertConfig,
    BertModel,
)

import qconfig


def new_model() -> Any:
    """Return a BertModel with random weights, ready for a checkpoint of all-MiniLM-L6-v2."""
    model = BertModel(BertConfig.from_pretrained(".demo/minilm")).eval()
    # Checkpoints of this age hold the position numbers; today's BertModel makes them itself and
    # leaves them out. It keeps them here, so that every stored name has its place.
    model.embeddings.register_buffer("position_ids", model.embeddings.position_ids)
    return model


def load_float(model: Any) -> None:
    """Fill a model with the float weights."""
    qconfig.load_checkpoint(".demo/minilm", model=model)


def load_quantized(model: Any) -> None:
    """Fill a model with the quantized weights."""
    qconfig.load_checkpoint(".demo/minilm-int8", model=model)


def load_upgraded(model: Any) -> None:
    """Fill a model with the weights of the old checkpoint after its upgrade."""
    qconfig.load_checkpoint(".demo/minilm-upgraded", model=model)


def quantize_in_memory(model: Any) -> Any:
    """Quantize a float model where it is."""
    config = qconfig.load_config("demo/minilm.json")
    return qconfig.quantize_(model, config)


def load_tokenizer() -> Any:
    """Return the tokenizer, whose files were carried along."""
    return AutoTokenizer.from_pretrained(".demo/minilm-int8")


def weights_of(model: Any) -> dict[str, torch.Tensor]:
    """Return the parameters of a model by name."""
    return {name: parameter.data for name, parameter in model.named_parameters()}
