"""Tied parameters: one tensor under several names, which can have one config only."""

from collections.abc import Mapping, Sequence

from qconfig.errors import PlanError


def split_ties(
    groups: Sequence[Sequence[str]], configs: Mapping[str, str | None]
) -> list[PlanError]:
    """Return a problem for each name that gets another config than a name it is tied to.

    Args:
        groups: names of one tensor each; names that `configs` lacks are passed over.
        configs: the config of each name, None for a parameter that is left alone.
    """
    problems: list[PlanError] = []
    for group in groups:
        known = [name for name in group if name in configs]
        for name in known[1:]:
            leader = known[0]
            if configs[name] != configs[leader]:
                problems.append(
                    PlanError(
                        f"tied to {leader}, but they get different configs",
                        fqn=name,
                        found=configs[name],
                        expected=f"{configs[leader]!r}, as {leader}",
                        hint="add a rule for both names, or skip both",
                    )
                )
    return problems
