"""Match the rules of an `FqnToConfig` against the parameters of a model.

Precedence: the exact name of the parameter, the exact name of its module, patterns, the default. Of
several exact rules for one name, the first wins. Of several patterns the first that matches the
parameter or its module wins (precedence `declared`), or the first that matches the parameter,
else the first that matches the module (`parameters_first`, as torchao documents it). A rule for
other module classes than the target's does not apply; a rule that says null ends the search.
"""

from collections.abc import Callable, Iterable

from qconfig.builders.base import Target
from qconfig.configs.fqn_to_config import FqnToConfig, Precedence
from qconfig.errors import QconfigError, RuleError, raise_problems
from qconfig.rules.assignment import Assignment, Decision, How
from qconfig.rules.lint import check_rules
from qconfig.rules.patterns import compile_pattern, is_exact
from qconfig.rules.segment_index import SegmentIndex

MAX_NAME = 512

_NOTHING = Decision(None, How.NONE, None)
_NO_PATTERN = 1 << 60


class RuleSet:
    """Rules that are ready to be matched; patterns are compiled when a name first needs them.

    Attributes:
        config: the rules.
        exact: numbers of the rules for each exact name, ascending.
        patterns: what the other rules match, by number.

    Raises:
        RuleError: a pattern that cannot be compiled or can run away (all of them at once).
    """

    def __init__(self, config: FqnToConfig) -> None:
        raise_problems(check_rules(config))
        self.config = config
        self.exact: dict[str, list[int]] = {}
        self.patterns: dict[int, str] = {}
        for i, rule in enumerate(config.rules):
            if is_exact(rule.match):
                self.exact.setdefault(rule.match, []).append(i)
            else:
                self.patterns[i] = rule.match
        self._limits = tuple(frozenset(rule.modules) for rule in config.rules)
        self._compiled: dict[int, Callable[[str], object]] = {}

    def applies(self, number: int, target: Target) -> bool:
        """Return whether the module classes of a rule admit the target."""
        limit = self._limits[number]
        return not limit or not limit.isdisjoint(target.module_classes)

    def matches(self, number: int, name: str) -> bool:
        """Return whether a rule matches a name, whatever its module classes."""
        match = self.patterns.get(number)
        if match is None:
            return self.config.rules[number].match == name
        fullmatch = self._compiled.get(number)
        if fullmatch is None:
            fullmatch = compile_pattern(match, f"/rules/{number}/match").fullmatch
            self._compiled[number] = fullmatch
        return fullmatch(name) is not None

    def reached_by_default(self, target: Target) -> bool:
        """Return whether the default reaches a target that no rule matches."""
        classes = self.config.default_modules
        return self.config.default is not None and any(c in classes for c in target.module_classes)

    def assign(self, targets: Iterable[Target]) -> Assignment:
        """Decide about every target.

        The work grows linearly with the names: an index of the segments that patterns require
        leaves only few patterns to try on each.

        Raises:
            RuleError: names that are too long to be matched safely.
        """
        targets = tuple(targets)
        raise_problems(_too_long(targets))
        decisions = tuple(_Pass(self, targets).decide())
        hits = [0] * len(self.config.rules)
        for decision in decisions:
            if decision.rule is not None:
                hits[decision.rule] += 1
        idle = [i for i, n in enumerate(hits) if not n]
        beaten = self._matching(idle, targets)
        return Assignment(
            targets=targets,
            decisions=decisions,
            hits=tuple(hits),
            unmatched=tuple(
                i for i in idle if i not in beaten and not self.config.rules[i].optional
            ),
            shadowed=tuple(i for i in idle if i in beaten),
        )

    def index(self, numbers: Iterable[int], targets: Iterable[Target]) -> SegmentIndex:
        """Return an index of those of the rules that are patterns, for the names of targets."""
        patterns = {i: self.patterns[i] for i in numbers if i in self.patterns}
        return SegmentIndex(patterns, ["", *(target.fqn for target in targets)])

    def _matching(self, numbers: list[int], targets: tuple[Target, ...]) -> set[int]:
        """Return those of the rules that match and admit a target, whoever won it."""
        found: set[int] = set()
        if not numbers:
            return found
        index = self.index(numbers, targets)
        exact = set(numbers).difference(self.patterns)
        for target in targets:
            for name in (target.fqn, target.module):
                candidates = [i for i in self.exact.get(name, ()) if i in exact]
                candidates += index.candidates(name)
                found.update(
                    i
                    for i in candidates
                    if i not in found and self.applies(i, target) and self.matches(i, name)
                )
        return found


class _Pass:
    """One pass over targets, with what it remembers."""

    def __init__(self, rules: RuleSet, targets: tuple[Target, ...]) -> None:
        self._rules = rules
        self._targets = targets
        self._index = rules.index(rules.patterns, targets)
        self._declared = rules.config.precedence is Precedence.DECLARED
        self._modules: dict[tuple[str, tuple[str, ...]], tuple[Decision | None, int]] = {}
        self._decisions: dict[tuple[int, How], Decision] = {}
        default = rules.config.default
        self._default = Decision(None, How.DEFAULT, default)

    def decide(self) -> Iterable[Decision]:
        """Yield the decision about each target."""
        exact, modules = self._rules.exact, self._modules
        for target in self._targets:
            fqn = target.fqn
            if fqn in exact:
                number = self._first_exact(fqn, target)
                if number is not None:
                    yield self._decision(number, How.EXACT_PARAMETER)
                    continue
            key = (fqn.rpartition(".")[0], target.module_classes)
            known = modules.get(key)
            if known is None:
                known = modules[key] = self._about_module(target)
            decision, by_module = known
            yield decision or self._by_pattern(target, by_module)

    def _about_module(self, target: Target) -> tuple[Decision | None, int]:
        """Return the decision by the module's exact name, and the first pattern that matches it."""
        module = target.module
        number = self._first_exact(module, target)
        if number is not None:
            return self._decision(number, How.EXACT_MODULE), _NO_PATTERN
        return None, self._first_pattern(module, target, _NO_PATTERN)

    def _by_pattern(self, target: Target, by_module: int) -> Decision:
        stop = by_module if self._declared else _NO_PATTERN
        by_parameter = self._first_pattern(target.fqn, target, stop)
        if by_parameter != _NO_PATTERN:
            return self._decision(by_parameter, How.PARAMETER_PATTERN)
        if by_module != _NO_PATTERN:
            return self._decision(by_module, How.MODULE_PATTERN)
        return self._default if self._rules.reached_by_default(target) else _NOTHING

    def _first_exact(self, name: str, target: Target) -> int | None:
        numbers = self._rules.exact.get(name, ())
        return next((i for i in numbers if self._rules.applies(i, target)), None)

    def _first_pattern(self, name: str, target: Target, stop: int) -> int:
        """Return the first pattern up to number `stop` that matches and admits the target."""
        rules = self._rules
        for number in self._index.candidates(name):
            if number > stop:
                break
            if rules.applies(number, target) and rules.matches(number, name):
                return number
        return _NO_PATTERN

    def _decision(self, number: int, how: How) -> Decision:
        known = self._decisions.get((number, how))
        if known is None:
            config = self._rules.config.rules[number].use
            known = self._decisions[number, how] = Decision(number, how, config)
        return known


def _too_long(targets: Iterable[Target]) -> list[QconfigError]:
    return [
        RuleError(
            "name is too long to be matched",
            fqn=target.fqn[:80],
            found=len(target.fqn),
            expected=f"at most {MAX_NAME} characters",
        )
        for target in targets
        if len(target.fqn) > MAX_NAME
    ]
