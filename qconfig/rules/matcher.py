"""Match the rules of an `FqnToConfig` against the parameters of a model.

Precedence: the exact name of the parameter, the exact name of its module, patterns, the default. Of
several exact rules for one name, the first wins. Of several patterns the first that matches the
parameter or its module wins (precedence `declared`), or the first that matches the parameter,
else the first that matches the module (`parameters_first`, as torchao documents it). A rule for
other module classes than the target's does not apply; a rule that says null ends the search.

A module without parameters is decided about by the rules that give its name or its class; a rule
that says null needs neither.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable

from qconfig.builders.base import ModuleTarget, Target
from qconfig.configs.fqn_to_config import FqnToConfig
from qconfig.errors import QconfigError, RuleError, raise_problems
from qconfig.limits import current_limits
from qconfig.rules.assignment import Assignment
from qconfig.rules.lint import check_rules
from qconfig.rules.matching_pass import Candidate, MatchingPass, admits
from qconfig.rules.patterns import compile_pattern, expression, is_exact
from qconfig.rules.plain_expressions import plain_texts
from qconfig.rules.segment_index import SegmentIndex, count_segments
from qconfig.versioning import Config


class RuleSet:
    """Rules that are ready to be matched; patterns are compiled when a name first needs them.

    Raises:
        RuleError: a pattern that cannot be compiled or can run away (all of them at once).
    """

    def __init__(self, config: FqnToConfig) -> None:
        raise_problems(check_rules(config))
        self.config = config
        self._exact: dict[str, list[int]] = {}
        self._patterns: dict[int, str] = {}
        # Patterns that match few names, by name: a look in a table, where a match takes longer.
        self._written_out: dict[str, list[int]] = {}
        for i, rule in enumerate(config.rules):
            if is_exact(rule.match):
                self._exact.setdefault(rule.match, []).append(i)
            else:
                self._patterns[i] = rule.match
                for name in plain_texts(expression(rule.match)) or ():
                    self._written_out.setdefault(name, []).append(i)
        self._is_written_out = {i for numbers in self._written_out.values() for i in numbers}
        self._limits = tuple(frozenset(rule.modules) for rule in config.rules)
        self._compiled: dict[int, Callable[[str], object]] = {}

    def applies(self, number: int, target: Target) -> bool:
        """Return whether the module classes of a rule admit the target."""
        return admits(self._limits[number], target)

    def matches(self, number: int, name: str) -> bool:
        """Return whether a rule matches a name, whatever its module classes."""
        if number in self._patterns:
            return self._fullmatch(number)(name) is not None
        return self.config.rules[number].match == name

    def named_modules(
        self, modules: Iterable[ModuleTarget], configs: Container[str]
    ) -> tuple[ModuleTarget, ...]:
        """Return the modules without parameters that a rule, or the default, gives a config of.

        Args:
            modules: all there are.
            configs: names of the configs that can serve such modules.
        """
        modules = tuple(modules)
        one_pass = self._pass(count_segments(target.fqn for target in modules))
        rules, default = self.config.rules, self.config.default
        return tuple(
            target
            for target in modules
            if any(_gives(rules[number].use, configs) for number, _ in one_pass.naming(target))
            or (_gives(default, configs) and one_pass.default_names(target))
        )

    def assign(self, targets: Iterable[Target], modules: Iterable[ModuleTarget] = ()) -> Assignment:
        """Decide about every target, and about modules without parameters.

        The work grows linearly with the names: an index of the segments that patterns require
        leaves only few patterns to try on each.

        Raises:
            RuleError: names that are too long to be matched safely.
        """
        targets, modules = tuple(targets), tuple(modules)
        raise_problems([*_too_long(targets), *_too_long(modules)])
        counts = count_segments([*(t.fqn for t in targets), *(m.fqn for m in modules)])
        one_pass = self._pass(counts)
        decisions = tuple(one_pass.decide(targets))
        module_decisions = tuple(one_pass.decide_modules(modules))
        hits = [0] * len(self.config.rules)
        for decision in (*decisions, *module_decisions):
            if decision.rule is not None:
                hits[decision.rule] += 1
        idle = [i for i, count in enumerate(hits) if not count]
        beaten = self._matching(idle, counts, targets) if idle else set()
        beaten |= {number for target in modules for number, _ in one_pass.naming(target)}
        rules = self.config.rules
        return Assignment(
            targets=targets,
            decisions=decisions,
            hits=tuple(hits),
            unmatched=tuple(i for i in idle if i not in beaten and not rules[i].optional),
            shadowed=tuple(i for i in idle if i in beaten),
            modules=modules,
            module_decisions=module_decisions,
        )

    def _pass(self, counts: Counter[str]) -> MatchingPass:
        index = self._index(self._patterns, counts)
        return MatchingPass(self.config, self._exact, self._limits, index, self._written_out)

    def _index(self, numbers: Iterable[int], counts: Counter[str]) -> SegmentIndex[Candidate]:
        known = self._is_written_out
        patterns = {i: self._patterns[i] for i in numbers if i in self._patterns and i not in known}
        return SegmentIndex(patterns, counts, self._candidate)

    def _candidate(self, number: int) -> Candidate:
        return number, self._fullmatch(number), self._limits[number]

    def _fullmatch(self, number: int) -> Callable[[str], object]:
        fullmatch = self._compiled.get(number)
        if fullmatch is None:
            fullmatch = self._compiled[number] = compile_pattern(self._patterns[number])
        return fullmatch

    def _matching(
        self, numbers: Iterable[int], counts: Counter[str], targets: Iterable[Target]
    ) -> set[int]:
        """Return those of the rules that match and admit a target, whoever won it."""
        found: set[int] = set()
        index = self._index(numbers, counts)
        for target in targets:
            module, _, parameter = target.fqn.rpartition(".")
            key = index.key(module)
            for name, own in ((target.fqn, index.extended(key, parameter)), (module, key)):
                named = (*self._exact.get(name, ()), *self._written_out.get(name, ()))
                found.update(i for i in named if self.applies(i, target))
                for number, fullmatch, limit in index.candidates(own):
                    if number not in found and admits(limit, target) and fullmatch(name):
                        found.add(number)
        return found


def rules_of(config: Config) -> FqnToConfig:
    """Return the rules of a config: itself if it has some, else one config for every Linear."""
    if isinstance(config, FqnToConfig):
        return config
    return FqnToConfig(configs={"default": config}, default="default")


def _gives(use: str | None, configs: Container[str]) -> bool:
    return use is not None and use in configs


def _too_long(targets: Iterable[Target | ModuleTarget]) -> list[QconfigError]:
    limits = current_limits()
    return [
        RuleError(
            "name is too long to be matched",
            fqn=target.fqn[:80],
            found=len(target.fqn),
            expected=f"characters: {limits.describe('matched_characters')}",
        )
        for target in targets
        if len(target.fqn) > limits.matched_characters
    ]
