"""FqnToConfig: torchao's ordered mapping (1), then named configs and a list of rules (2).

torchao documents the precedence of its mapping: exact parameter name, exact module name, regular
expression on parameter names, regular expression on module names, `_default`. Version 1 means
exactly that; where torchao's code departs from it, `docs/write-a-config.md` says so.
"""

import re

from attrs import frozen

from qconfig.configs.fqn_to_config import FqnToConfig, Precedence, Rule
from qconfig.errors import FieldError, MigrationError, QconfigError, raise_problems
from qconfig.rules.patterns import glob_to_regex, is_exact
from qconfig.versioning import Config, attribute, migration, register_config

_DEFAULT = "_default"


@register_config("FqnToConfig", 1)
@frozen
class FqnToConfigV1(Config):
    """torchao's mapping from names and patterns to configs; null leaves a name alone."""

    fqn_to_config: dict[str, Config | None] = attribute(
        "Exact names, re: patterns and _default, in order.", factory=dict
    )

    def __attrs_post_init__(self) -> None:
        """Check for nesting. Raises FieldError."""
        nested = (FqnToConfig, FqnToConfigV1)
        problems: list[QconfigError] = [
            FieldError("FqnToConfig cannot contain another", pointer=f"/fqn_to_config/{name}")
            for name, config in self.fqn_to_config.items()
            if isinstance(config, nested)
        ]
        raise_problems(problems)


@migration()
def mapping_to_rules(old: FqnToConfigV1) -> FqnToConfig:
    """Name each distinct config once and list the mapping as rules, in its order."""
    names: dict[int, str] = {}
    configs: dict[str, Config] = {}

    def use(config: Config | None) -> str | None:
        if config is None:
            return None
        known = names.get(id(config))
        if known is None:
            known = next((n for n, c in configs.items() if c == config), None)
        if known is None:
            known = f"c{len(configs)}"
            configs[known] = config
        names[id(config)] = known
        return known

    mapping = old.fqn_to_config
    rules = tuple(Rule(_literal(k), use(c)) for k, c in mapping.items() if k != _DEFAULT)
    return FqnToConfig(
        default=use(mapping.get(_DEFAULT)),
        configs=configs,
        rules=rules,
        precedence=Precedence.PARAMETERS_FIRST,
    )


def _literal(key: str) -> str:
    """Keep a key that is no pattern in version 1 from becoming a glob in version 2."""
    return key if key.startswith("re:") or is_exact(key) else "re:" + re.escape(key)


@migration()
def rules_to_mapping(new: FqnToConfig) -> FqnToConfigV1:
    """Write rules as torchao's mapping; refuse what it cannot say."""
    problems = _inexpressible(new)
    raise_problems(problems)
    mapping: dict[str, Config | None] = {}
    for rule in new.rules:
        key = rule.match if is_exact(rule.match) or rule.match.startswith("re:") else (
            "re:" + glob_to_regex(rule.match)
        )
        mapping.setdefault(key, None if rule.use is None else new.configs[rule.use])
    if new.default is not None:
        mapping[_DEFAULT] = new.configs[new.default]
    return FqnToConfigV1(mapping)


def _inexpressible(new: FqnToConfig) -> list[QconfigError]:
    problems: list[QconfigError] = [
        _cannot(f"/rules/{i}/modules", "a filter on module classes")
        for i, rule in enumerate(new.rules)
        if rule.modules
    ]
    patterns = sum(not is_exact(rule.match) for rule in new.rules)
    if new.precedence is Precedence.DECLARED and patterns > 1:
        problems.append(_cannot("/precedence", "several patterns in declared order"))
    if new.default is not None and new.default_modules != ("Linear",):
        problems.append(_cannot("/default_modules", "a default for other modules than Linear"))
    if new.fused:
        problems.append(_cannot("/fused", "fused groups"))
    return problems


def _cannot(pointer: str, what: str) -> MigrationError:
    return MigrationError(
        f"torchao's mapping has no {what}",
        pointer=pointer,
        hint="keep FqnToConfig version 2, or say it with exact names",
    )
