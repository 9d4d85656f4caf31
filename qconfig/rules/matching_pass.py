"""One pass over the parameters of a model: who wins each of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from qconfig.builders.base import ModuleTarget, Target
from qconfig.configs.fqn_to_config import FqnToConfig, Precedence
from qconfig.rules.assignment import Decision, How
from qconfig.rules.segment_index import Key, SegmentIndex

# A pattern that a name may match: the rule's number, fullmatch, and module classes if limited.
Candidate = tuple[int, Callable[[str], object], frozenset[str]]

_NOTHING = Decision(None, How.NONE, None)
_NO_PATTERN = 1 << 60


def admits(limit: frozenset[str], target: Target | ModuleTarget) -> bool:
    """Return whether a rule for some module classes, or for any if there are none, applies."""
    return not limit or not limit.isdisjoint(target.module_classes)


class MatchingPass:
    """Decides about targets one after the other; parameters of one module best come together."""

    def __init__(
        self,
        config: FqnToConfig,
        exact: Mapping[str, Sequence[int]],
        limits: Sequence[frozenset[str]],
        index: SegmentIndex[Candidate],
        written_out: Mapping[str, Sequence[int]],
    ) -> None:
        self._config = config
        self._exact = exact
        self._limits = limits
        self._index = index
        self._written_out = written_out
        self._declared = config.precedence is Precedence.DECLARED
        self._decisions: dict[tuple[int, How], Decision] = {}
        self._default = Decision(None, How.DEFAULT, config.default)

    def decide(self, targets: Iterable[Target]) -> Iterable[Decision]:
        """Yield the decision about each target."""
        exact = self._exact
        known: tuple[str, tuple[str, ...]] | None = None
        by_name: Decision | None = None
        key: Key = ()
        by_module = _NO_PATTERN
        for target in targets:
            fqn = target.fqn
            module, _, parameter = fqn.rpartition(".")
            if fqn in exact:
                number = self._first_exact(fqn, target)
                if number is not None:
                    yield self._decision(number, How.EXACT_PARAMETER)
                    continue
            if known is None or known[0] != module or known[1] != target.module_classes:
                known = (module, target.module_classes)
                number = self._first_exact(module, target) if module in exact else None
                if number is not None:
                    by_name = self._decision(number, How.EXACT_MODULE)
                else:
                    by_name = None
                    key = self._index.key(module)
                    by_module = self._first_pattern(key, module, target, _NO_PATTERN)
            yield by_name or self._by_pattern(target, parameter, key, by_module)

    def decide_modules(self, targets: Iterable[ModuleTarget]) -> Iterable[Decision]:
        """Yield the decision about each module without parameters."""
        for target in targets:
            won = next(iter(self.naming(target)), None)
            if won is not None:
                yield self._decision(*won)
            else:
                yield self._default if self.default_names(target) else _NOTHING

    def naming(self, target: ModuleTarget) -> Iterable[tuple[int, How]]:
        """Yield the rules that may decide about a module without parameters, the winner first.

        Rules are written for weights, so a pattern that happens to match such a module too does
        not mean it: its name has to be given, or its class. What a rule leaves alone, it leaves
        alone however it is named.
        """
        fqn = target.fqn
        for number in self._exact.get(fqn, ()):
            if admits(self._limits[number], target):
                yield number, How.EXACT_MODULE
        candidates = self._index.candidates(self._index.key(fqn))
        matching = [number for number, fullmatch, _ in candidates if fullmatch(fqn)]
        for number in sorted([*matching, *self._written_out.get(fqn, ())]):
            limit = self._limits[number]
            means = bool(limit) or self._config.rules[number].use is None
            if means and admits(limit, target):
                yield number, How.MODULE_PATTERN

    def default_names(self, target: Target | ModuleTarget) -> bool:
        """Return whether there is a default for the class of a target."""
        config = self._config
        return config.default is not None and any(
            name in config.default_modules for name in target.module_classes
        )

    def _by_pattern(self, target: Target, parameter: str, key: Key, by_module: int) -> Decision:
        stop = by_module if self._declared else _NO_PATTERN
        key = self._index.extended(key, parameter)
        by_parameter = self._first_pattern(key, target.fqn, target, stop)
        if by_parameter != _NO_PATTERN:
            return self._decision(by_parameter, How.PARAMETER_PATTERN)
        if by_module != _NO_PATTERN:
            return self._decision(by_module, How.MODULE_PATTERN)
        return self._default if self.default_names(target) else _NOTHING

    def _first_pattern(self, key: Key, name: str, target: Target, stop: int) -> int:
        """Return the first pattern up to number `stop` that matches and admits the target."""
        written_out = _NO_PATTERN
        for number in self._written_out.get(name, ()):
            if number <= stop and admits(self._limits[number], target):
                written_out = stop = number
                break
        found = _first(self._index.candidates(key), name, target, stop)
        return min(found, written_out)

    def _first_exact(self, name: str, target: Target) -> int | None:
        numbers = self._exact.get(name, ())
        return next((i for i in numbers if admits(self._limits[i], target)), None)

    def _decision(self, number: int, how: How) -> Decision:
        known = self._decisions.get((number, how))
        if known is None:
            config = self._config.rules[number].use
            known = self._decisions[number, how] = Decision(number, how, config)
        return known


def _first(candidates: Iterable[Candidate], name: str, target: Target, stop: int) -> int:
    """Return the first pattern up to number `stop` that matches and admits the target."""
    for number, fullmatch, limit in candidates:
        if number > stop:
            break
        if fullmatch(name) and admits(limit, target):
            return number
    return _NO_PATTERN
