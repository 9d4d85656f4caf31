"""`FqnToConfig`: which module or parameter gets which config."""

from enum import StrEnum

from attrs import frozen

from qconfig.errors import FieldError, QconfigError, nearest, raise_problems, shown
from qconfig.limits import DEFAULT_LIMITS
from qconfig.versioning import Config, attribute, register_config, register_value

# A hint compares a name with all others; beyond this many it would cost more than it tells.
_MOST_HINTS = 20


class Precedence(StrEnum):
    """Which of several matching patterns wins; exact names always come before patterns."""

    DECLARED = "declared"
    PARAMETERS_FIRST = "parameters_first"


@register_value("Rule", tagged=False)
@frozen
class Rule:
    """One line of an `FqnToConfig`: names that match get a config, or are skipped."""

    match: str = attribute(
        "An exact name, a glob whose * stays within one segment (** crosses them), or re: and a "
        "regular expression that must match the whole name. Modules and parameters have names.",
        max_length=DEFAULT_LIMITS.pattern_characters,
        limit="pattern_characters",
    )
    use: str | None = attribute("Name of an entry of configs, or null to leave the match alone.")
    modules: tuple[str, ...] = attribute(
        "Names of module classes to which the rule is limited; empty means any.",
        default=(),
    )
    optional: bool = attribute("Whether the rule may match nothing.", default=False)


@register_config("FqnToConfig", 2)
@frozen
class FqnToConfig(Config):
    """Per-layer configs: exact names first, then patterns in order; the first match wins."""

    configs: dict[str, Config] = attribute(
        "Configs by a short name of your choice.", factory=dict, limit="rules"
    )
    rules: tuple[Rule, ...] = attribute("Rules in order.", factory=tuple, limit="rules")
    default: str | None = attribute(
        "Name of the config for what no rule matches, or null for none.", default=None
    )
    default_modules: tuple[str, ...] = attribute(
        "Module classes that the default reaches.", default=("Linear",)
    )
    precedence: Precedence = attribute(
        "Order of patterns: as declared, or torchao's, where patterns that match a parameter's "
        "name go before patterns that match a module's name.",
        default=Precedence.DECLARED,
    )
    fused: tuple[tuple[str, ...], ...] = attribute(
        "Groups of sibling modules, such as q_proj, k_proj and v_proj, that must share a config.",
        factory=tuple,
    )

    def __attrs_post_init__(self) -> None:
        """Check the names that rules and default use.

        Raises:
            FieldError: an unknown config name, or a nested FqnToConfig.
        """
        problems: list[QconfigError] = [
            FieldError("FqnToConfig cannot contain another", pointer=f"/configs/{name}")
            for name, config in self.configs.items()
            if isinstance(config, FqnToConfig)
        ]
        uses = [(f"/rules/{i}/use", rule.use) for i, rule in enumerate(self.rules)]
        expected = f"one of {shown(sorted(self.configs))} or null"
        for pointer, use in [*uses, ("/default", self.default)]:
            if use is not None and use not in self.configs:
                hint = nearest(use, self.configs) if len(problems) < _MOST_HINTS else None
                problems.append(
                    FieldError(
                        "no config of that name",
                        pointer=pointer,
                        found=use,
                        expected=expected,
                        hint=hint,
                    )
                )
        raise_problems(problems)
