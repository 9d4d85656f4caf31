"""Words and names that parameters and modules share in a plan."""

from collections.abc import Container, Sequence

from qconfig.rules.assignment import Decision, How


def reached(decision: Decision) -> str:
    """Return by what a target got its config, in words."""
    if decision.rule is None:
        return "the default reaches it"
    return f"rule {decision.rule} gives its {decision.how.value.replace('_', ' ')}"


def unreached(decision: Decision) -> str:
    """Return why a target got no config, in words."""
    return "no rule applies" if decision.how is How.NONE else "the rule says skip"


def leaders(groups: Sequence[Sequence[str]], known: Container[str]) -> dict[str, str]:
    """Return for each further name of one thing the name that stands for it."""
    found: dict[str, str] = {}
    for group in groups:
        present = [name for name in group if name in known]
        found.update((name, present[0]) for name in present[1:])
    return found
