"""What a rule that matches nothing may have meant."""

from collections.abc import Sequence

from qconfig.builders.base import ModuleTarget, Target
from qconfig.configs.fqn_to_config import Rule
from qconfig.errors import nearest
from qconfig.rules.patterns import expression, is_exact
from qconfig.rules.regex_tree import compile_regex, parse
from qconfig.rules.requirements import requirements

# How many names a pattern is searched in, and how many a name is compared with.
_SAMPLE = 300


class NameHints:
    """Names of a model, to compare rules with.

    Args:
        targets: its parameters.
        modules: its modules that have none.
        inferred: whether it is a file, whose names alone say classes.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        modules: Sequence[ModuleTarget] = (),
        *,
        inferred: bool = False,
    ) -> None:
        self._inferred = inferred
        self._bare = {module.fqn for module in modules}
        self._classes = {c for target in targets for c in target.module_classes}
        self._names = list(dict.fromkeys(n for t in targets for n in (t.module, t.fqn) if n))
        self._segments = {segment for name in self._names for segment in name.split(".")}

    def hint(self, rule: Rule) -> str | None:
        """Return what to look at in a rule that matches nothing, or None."""
        if rule.modules and not self._classes.intersection(rule.modules):
            close = nearest(rule.modules[0], self._classes)
            if self._inferred:
                return (
                    f"files say no classes of modules, and no name is like that of a "
                    f"{' or '.join(rule.modules)}: name the layers, or mark the rule optional"
                )
            return _joined(f"no module has class {' or '.join(rule.modules)}", close)
        if is_exact(rule.match):
            return self._like_name(rule.match)
        return self._like_pattern(rule.match)

    def _like_name(self, name: str) -> str | None:
        if name in self._bare:
            return "the module has no parameters, and the config serves none of that kind"
        inside = next((n for n in self._names if n.startswith(f"{name}.")), None)
        if inside is not None:
            return f"it names a module without parameters of its own; in it is {inside!r}"
        segments = set(name.split("."))
        scores = [len(segments.intersection(other.split("."))) for other in self._names]
        best = max(scores, default=0)
        close = [n for n, score in zip(self._names, scores, strict=True) if score == best]
        return nearest(name, close[:_SAMPLE])

    def _like_pattern(self, match: str) -> str | None:
        for requirement in requirements(parse(expression(match))):
            for piece in requirement[0] if len(requirement) == 1 else ():
                if piece.text and not any(map(piece.fits, self._segments)):
                    close = nearest(piece.text, self._segments)
                    return _joined(f"no name has {piece.text!r} there", close)
        search = compile_regex(expression(match)).search
        part = next((name for name in self._names[:_SAMPLE] if search(name)), None)
        return part and f"it matches a part of {part!r}; rules match whole names"


def _joined(what: str, close: str | None) -> str:
    return f"{what}; {close}" if close else what
