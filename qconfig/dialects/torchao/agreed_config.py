"""A model's config brought into agreement with its tensors, which show what was done.

torchao's documents do not say which modules the filter of `quantize_` let pass: a function that no
file holds. transformers leaves the output embedding alone without a word, releases up to 0.13 left
embeddings that a map names, and SmoothQuantConfig was stored without its activation scales.
"""

from collections.abc import Iterator, Mapping
from itertools import islice

from attrs import evolve

from qconfig.checkpoints.checkpoint import CONFIG_KEY
from qconfig.checkpoints.contradictions import Disagreement, disagreements, gives
from qconfig.codec.tensor_values import LazyTensor
from qconfig.configs.activation_scaling import SmoothQuantConfig
from qconfig.configs.fqn_to_config import FqnToConfig, Precedence, Rule
from qconfig.configs.granularity import PerTensor
from qconfig.configs.int8 import (
    Int8DynamicActivationInt8WeightConfig,
    Int8StaticActivationInt8WeightConfig,
)
from qconfig.errors import QconfigError
from qconfig.versioning import Config, Layout

_MOST_NAMES = 8
_STATIC = (
    f"{CONFIG_KEY}: the config does not say that activations are quantized with static scales, as "
    "the tensors do, and now says it"
)


def agreed_config(
    config: Config | None,
    notes: tuple[str, ...],
    layouts: Mapping[str, Layout],
    plain: Mapping[str, LazyTensor],
) -> tuple[Config | None, tuple[str, ...]]:
    """Return a config with a rule for each tensor of which it says otherwise, and its notes.

    A tensor that no config of the document makes keeps its contradiction: `verify_checkpoint`
    reports it.

    Args:
        config: of a model, in the current version, or None.
        notes: what was said about it.
        layouts: the quantized tensors of the model.
        plain: the others.
    """
    if config is None:
        return None, notes
    try:
        tried = [(c, disagreements(layouts, plain, c)) for c in (config, *_variants(config))]
    except QconfigError:  # said by whoever uses the config
        return config, notes
    best, found = min(tried, key=lambda pair: len(pair[1]))
    if best is not config:
        notes = (*notes, _STATIC)
    rules = _as_map(best)
    uses = dict(_uses(found, rules.configs))
    if not uses:
        return best, notes
    return _with_rules(rules, uses), (*notes, _said(uses))


def _variants(config: Config) -> Iterator[Config]:
    """Yield what a document may stand for, beside what it says."""
    if not isinstance(config, SmoothQuantConfig):
        return
    base = config.base_config
    if isinstance(base, Int8DynamicActivationInt8WeightConfig):
        pair = (PerTensor(), base.granularity[1])
        yield evolve(config, base_config=Int8StaticActivationInt8WeightConfig(granularity=pair))


def _as_map(config: Config) -> FqnToConfig:
    if isinstance(config, FqnToConfig):
        return config
    return FqnToConfig(configs={"c0": config}, default="c0", precedence=Precedence.PARAMETERS_FIRST)


def _uses(
    found: list[Disagreement], configs: Mapping[str, Config]
) -> Iterator[tuple[str, str | None]]:
    """Yield the names that need a rule, with the config that makes what they are."""
    for x in found:
        if x.found is None:
            yield x.fqn, None
            continue
        for name, config in configs.items():
            if gives(config, x.fqn, x.found):
                yield x.fqn, name
                break


def _with_rules(config: FqnToConfig, uses: Mapping[str, str | None]) -> FqnToConfig:
    first = tuple(Rule(fqn, use, optional=True) for fqn, use in uses.items())
    rules = (*first, *(rule for rule in config.rules if rule.match not in uses))
    used = {config.default, *(rule.use for rule in rules)}
    configs = {name: inner for name, inner in config.configs.items() if name in used}
    return evolve(config, configs=configs, rules=rules)


def _said(uses: Mapping[str, str | None]) -> str:
    named = (f"{n} plain" if use is None else f"{n} as {use}" for n, use in uses.items())
    more = len(uses) - _MOST_NAMES
    rest = f", and {more} more" if more > 0 else ""
    return (
        f"{CONFIG_KEY}: rules name tensors of which the config says otherwise: "
        + ", ".join(islice(named, _MOST_NAMES))
        + rest
    )
