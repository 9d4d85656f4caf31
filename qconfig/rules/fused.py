"""Fused groups: sibling modules that an engine merges into one must share a config."""

from collections.abc import Sequence

from qconfig.errors import PlanError


def split_groups(
    groups: Sequence[Sequence[str]], names: Sequence[str], configs: Sequence[str | None]
) -> list[PlanError]:
    """Return a problem for each fused group whose members get different configs.

    Members are siblings: one parent, last segments that a group lists, and the same parameter. A
    model need not have all of them.

    Args:
        groups: last segments of module names, such as `("q_proj", "k_proj", "v_proj")`.
        names: names of parameters.
        configs: the config of each, None for a parameter that is left alone.
    """
    group_of = {member: i for i, group in enumerate(groups) for member in group}
    leaders: dict[tuple[str, int, str], tuple[str, str | None]] = {}
    problems: list[PlanError] = []
    for name, config in zip(names, configs, strict=True):
        module, _, parameter = name.rpartition(".")
        parent, _, last = module.rpartition(".")
        number = group_of.get(last)
        if number is None:
            continue
        leader, expected = leaders.setdefault((parent, number, parameter), (name, config))
        if config != expected:
            problems.append(
                PlanError(
                    f"fused with {leader}, but they get different configs",
                    fqn=name,
                    pointer=f"/fused/{number}",
                    found=config,
                    expected=f"{expected!r}, as {leader}",
                    hint="let one rule match the whole group",
                )
            )
    return problems
