"""Settings of transformers around a config that say which modules it reaches, as rules."""

import re
from typing import Any

from attrs import evolve, frozen

from qconfig.configs.fqn_to_config import FqnToConfig, Precedence, Rule
from qconfig.dialects.torchao.notes import Note
from qconfig.rules.regex_tree import compile_regex
from qconfig.versioning import Config

_PLAIN = re.compile(r"[\w.\-]+")


@frozen
class Reach:
    """Which modules a config does not reach, and what it reaches besides Linear.

    Args:
        skipped: entries of modules_to_not_convert.
        with_embeddings: include_input_output_embeddings.
    """

    skipped: tuple[str, ...] = ()
    with_embeddings: bool = False


def skip_pattern(entry: str) -> str:
    """Return the rule of an entry of modules_to_not_convert.

    A name stands for modules whose name ends with it and for what is in them. That is common to
    `should_convert_module` of transformers 5 and to what transformers and diffusers did before.
    Anything else is a regular expression for the beginning of a name.

    Raises:
        RuleError: not a regular expression that can be used.
    """
    if _PLAIN.fullmatch(entry):
        return rf"re:.*{re.escape(entry.rstrip('.'))}(\..*)?"
    compile_regex(entry)
    return f"re:({entry}).*"


def with_reach(config: Config, reach: Reach) -> Config:
    """Return a config that leaves the skipped modules alone, whatever its own rules say."""
    if not reach.skipped and not reach.with_embeddings:
        return config
    skips = tuple(Rule(skip_pattern(entry), None, optional=True) for entry in reach.skipped)
    if isinstance(config, FqnToConfig):
        patterns = [compile_regex(rule.match[3:]) for rule in skips]
        kept = tuple(
            evolve(rule, use=None) if any(p.fullmatch(rule.match) for p in patterns) else rule
            for rule in config.rules
        )
        return evolve(config, rules=(*skips, *kept))
    modules = ("Linear", "Embedding") if reach.with_embeddings else ("Linear",)
    return FqnToConfig(
        configs={"c0": config},
        rules=skips,
        default="c0",
        default_modules=modules,
        precedence=Precedence.PARAMETERS_FIRST,
    )


def reach_notes(wrapper: Any, pointer: str) -> tuple[Note, ...]:
    """Return what to tell of transformers' settings; most of them stand in the rules."""
    notes = []
    if wrapper.get("modules_to_not_convert"):
        notes.append(Note(f"{pointer}/modules_to_not_convert", _SKIPS))
    if wrapper.get("include_input_output_embeddings"):
        notes.append(Note(f"{pointer}/include_input_output_embeddings", _EMBEDDINGS))
    elif "include_input_output_embeddings" in wrapper:
        notes.append(
            Note(f"{pointer}/include_input_output_embeddings", _HEAD, without_tensors=True)
        )
    if wrapper.get("untie_embedding_weights"):
        notes.append(Note(f"{pointer}/untie_embedding_weights", _UNTIED))
    return tuple(notes)


_SKIPS = (
    "rules leave alone the modules whose names end so, and what is in them; transformers 5 also "
    "skips names that begin so"
)
_EMBEDDINGS = (
    "every Embedding is reached where the config is not a map; transformers means those of input "
    "and output"
)
_HEAD = "transformers leaves the output embedding alone, which has no name here: say so in a rule"
_UNTIED = "whether weights are tied is said by the checkpoint, and not carried"
