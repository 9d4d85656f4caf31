"""FqnToConfig: torchao's ordered mapping (1), then named configs and a list of rules (2).

torchao documents the precedence of its mapping: exact parameter name, exact module name, regular
expression on parameter names, regular expression on module names, `_default`. Version 1 means
exactly that; where torchao's code departs from it, `docs/write-a-config.md` says so.
"""

import re

from attrs import frozen

from qconfig.configs.fqn_to_config import FqnToConfig, Precedence, Rule
from qconfig.errors import FieldError, MigrationError, QconfigError, json_pointer, raise_problems
from qconfig.limits import current_limits
from qconfig.rules.patterns import glob_to_regex, is_exact
from qconfig.versioning import Config, attribute, migration, register_config

_DEFAULT = "_default"


@register_config("FqnToConfig", 1)
@frozen
class FqnToConfigV1(Config):
    """torchao's mapping from names and patterns to configs; null leaves a name alone."""

    fqn_to_config: dict[str, Config | None] = attribute(
        "Exact names, re: patterns and _default, in order.", factory=dict, limit="rules"
    )

    def __attrs_post_init__(self) -> None:
        """Check for nesting and for keys that version 2 has no room for. Raises FieldError."""
        problems: list[QconfigError] = []
        limits = current_limits()
        for name, config in self.fqn_to_config.items():
            pointer = json_pointer("fqn_to_config", name)
            if isinstance(config, FqnToConfig | FqnToConfigV1):
                problems.append(FieldError("FqnToConfig cannot contain another", pointer=pointer))
            if len(_literal(name)) > limits.pattern_characters:
                problems.append(
                    FieldError(
                        "name or pattern is too long",
                        pointer=pointer,
                        found=name,
                        expected=f"characters: {limits.describe('pattern_characters')}",
                    )
                )
        raise_problems(problems)


@migration()
def mapping_to_rules(old: FqnToConfigV1) -> FqnToConfig:
    """Name each distinct config once and list the mapping as rules, in its order."""
    names: dict[Config | int, str] = {}
    configs: dict[str, Config] = {}

    def use(config: Config | None) -> str | None:
        if config is None:
            return None
        # A config with a tensor in it has no hash: it is the same only as itself.
        key = config if _is_hashable(config) else id(config)
        if key not in names:
            names[key] = f"c{len(configs)}"
            configs[names[key]] = config
        return names[key]

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


def _is_hashable(config: Config) -> bool:
    try:
        hash(config)
    except TypeError:
        return False
    return True


@migration(drops="the names of configs, and which rules may match nothing")
def rules_to_mapping(new: FqnToConfig) -> FqnToConfigV1:
    """Write rules as torchao's mapping; refuse what it cannot say."""
    problems = _inexpressible(new)
    raise_problems(problems)
    mapping: dict[str, Config | None] = {}
    for rule in new.rules:
        is_glob = not is_exact(rule.match) and not rule.match.startswith("re:")
        key = "re:" + glob_to_regex(rule.match) if is_glob else rule.match
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
    problems += [
        _cannot(f"/rules/{i}/match", "a name of its own for _default")
        for i, rule in enumerate(new.rules)
        if rule.match == _DEFAULT
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
