"""The output embedding, which transformers leaves alone without a word in config.json."""

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from qconfig.checkpoints.checkpoint import CONFIG_KEY
from qconfig.codec.tensor_values import LazyTensor
from qconfig.configs.fqn_to_config import FqnToConfig, Precedence, Rule
from qconfig.dialects.torchao.skipped import HEAD
from qconfig.engine.targets import inferred_class
from qconfig.versioning import Config

_WEIGHT = ".weight"


def with_plain_heads(
    config: Config | None,
    notes: tuple[str, ...],
    config_json: Mapping[str, Any] | None,
    plain: Mapping[str, LazyTensor],
) -> tuple[Config | None, tuple[str, ...]]:
    """Return a config with rules for the output embeddings that are plain, and its notes.

    Without `modules_to_not_convert` and `include_input_output_embeddings`, transformers quantizes
    all linears but the output embedding and the last module. They lie outside the stacks of
    layers, whose modules have numbers in their names.

    Args:
        config: of a model, or None.
        notes: what was said about it.
        config_json: where it stands.
        plain: the tensors of the model that are not quantized.
    """
    settings = (config_json or {}).get(CONFIG_KEY)
    if config is None or not isinstance(settings, Mapping) or "quant_type" not in settings:
        return config, notes
    said = ("modules_to_not_convert", "include_input_output_embeddings")
    heads = [name for name, tensor in plain.items() if _is_head(name, tensor)]
    if any(settings.get(key) for key in said) or not heads:
        return config, notes
    named = {rule.match for rule in config.rules} if isinstance(config, FqnToConfig) else set()
    modules = [name.removesuffix(_WEIGHT) for name in heads if name not in named]
    modules = [module for module in modules if module not in named]
    if not modules:
        return config, notes
    rules = tuple(Rule(module, None, optional=True) for module in modules)
    said_of = f"{CONFIG_KEY}: transformers leaves the output embedding alone, and so do rules: "
    rest = tuple(note for note in notes if not note.endswith(HEAD))
    return _with_rules(config, rules), (*rest, said_of + ", ".join(modules))


def _is_head(name: str, tensor: LazyTensor) -> bool:
    if not name.endswith(_WEIGHT) or any(part.isdigit() for part in name.split(".")):
        return False
    rank = len(tensor.shape)
    return rank == 2 and tensor.dtype.is_float and "Linear" in inferred_class(name, rank)


def _with_rules(config: Config, rules: tuple[Rule, ...]) -> Config:
    if isinstance(config, FqnToConfig):
        return evolve(config, rules=(*rules, *config.rules))
    return FqnToConfig(
        configs={"c0": config},
        rules=rules,
        default="c0",
        precedence=Precedence.PARAMETERS_FIRST,
    )
