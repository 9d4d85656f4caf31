"""The part of an opened checkpoint that somebody wants: some names, and slices of some of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from qconfig.checkpoints.checkpoint import Checkpoint
from qconfig.checkpoints.tensor_slice import TensorSlice
from qconfig.errors import (
    MOST_PROBLEMS,
    CheckpointError,
    QconfigError,
    UsageError,
    nearest,
    raise_problems,
)
from qconfig.rules.lint import check_pattern
from qconfig.rules.patterns import compile_pattern, is_exact


def with_names(checkpoint: Checkpoint, patterns: Sequence[str] | str) -> Checkpoint:
    """Return the checkpoint with the tensors whose names one of the patterns matches.

    Where a pattern matches a further name of a tied tensor and none its own, the tensor gets that
    name.

    Args:
        checkpoint: an opened one.
        patterns: names, globs, or `re:` and a regular expression; as in rules, over whole names.

    Raises:
        RuleError: not a pattern.
        CheckpointError: a pattern matches no name; all of them at once.
    """
    patterns = [patterns] if isinstance(patterns, str) else list(patterns)
    wanted = {n for names in _matches(checkpoint, patterns).values() for n in names}
    new_name = {name: name for name in (*checkpoint.plain, *checkpoint.layouts) if name in wanted}
    ties = {}
    for alias, name in checkpoint.ties.items():
        if alias not in wanted:
            continue
        if name in new_name:
            ties[alias] = new_name[name]
        else:
            new_name[name] = alias
    return attrs.evolve(
        checkpoint,
        plain={new_name[n]: t for n, t in checkpoint.plain.items() if n in new_name},
        layouts={new_name[n]: x for n, x in checkpoint.layouts.items() if n in new_name},
        shard_of={new_name[n]: s for n, s in checkpoint.shard_of.items() if n in new_name},
        origins={new_name[n]: o for n, o in checkpoint.origins.items() if n in new_name},
        ties=ties,
    )


def slices_of(checkpoint: Checkpoint, slices: Mapping[str, TensorSlice]) -> dict[str, TensorSlice]:
    """Return the slice of each tensor that a pattern gives one, by its name or a tied one.

    Args:
        checkpoint: an opened one.
        slices: by pattern.

    Raises:
        UsageError: something else than slices.
        RuleError: not a pattern.
        CheckpointError: a pattern matches no name, or two slices are given to one name.
    """
    for pattern, piece in slices.items():
        if not isinstance(piece, TensorSlice):
            raise UsageError(
                "not a slice", pointer=f"/{pattern}", found=piece, expected="a TensorSlice"
            )
    found: dict[str, TensorSlice] = {}
    problems: list[QconfigError] = []
    for pattern, names in _matches(checkpoint, slices).items():
        for name in names:
            piece = found.setdefault(name, slices[pattern])
            if piece != slices[pattern]:
                problems.append(
                    CheckpointError(
                        "two patterns give the tensor different slices",
                        file=checkpoint.place,
                        fqn=name,
                        found=f"{piece} and {slices[pattern]}",
                        expected="one slice",
                    )
                )
    raise_problems(problems[:MOST_PROBLEMS])
    return found


def cut(checkpoint: Checkpoint, slices: Mapping[str, TensorSlice]) -> tuple[Checkpoint, set[str]]:
    """Return the checkpoint with slices of some tensors, not read yet, and the names of those.

    Args:
        checkpoint: an opened one, or a part of it.
        slices: by name; names that it does not have are passed over.

    Raises:
        CheckpointError, LayoutError, UnsupportedOperationError: tensors that cannot be cut
            exactly, or have tied names with another slice; all of them at once.
    """
    plain, layouts = dict(checkpoint.plain), dict(checkpoint.layouts)
    problems: list[QconfigError] = []
    sliced = set()
    for alias, name in checkpoint.ties.items():
        if slices.get(alias) != slices.get(name):
            problem = CheckpointError(
                f"the tensor is tied to {name}, of which another part is taken",
                fqn=alias,
                found=f"{slices.get(alias)} and {slices.get(name)}",
                expected="the same slice for both",
                hint="give it to both names, or load one of them only",
            )
            problems.append(problem.at(file=checkpoint.place))
    for name in (*plain, *layouts):
        piece = slices.get(name)
        if piece is None:
            continue
        try:
            if name in plain:
                plain[name] = piece.of(plain[name])
            else:
                layouts[name] = piece.of_layout(layouts[name])
        except QconfigError as error:
            problems += error.at(file=checkpoint.place, fqn=name).problems
        sliced.add(name)
    raise_problems(problems[:MOST_PROBLEMS])
    return attrs.evolve(checkpoint, plain=plain, layouts=layouts), sliced


def _matches(checkpoint: Checkpoint, patterns: Iterable[str]) -> dict[str, list[str]]:
    """Return the names that each pattern matches, tied ones among them."""
    names = dict.fromkeys((*checkpoint.plain, *checkpoint.layouts, *checkpoint.ties))
    found: dict[str, list[str]] = {}
    problems: list[QconfigError] = []
    for pattern in patterns:
        check_pattern(pattern)
        if is_exact(pattern):
            found[pattern] = [pattern] if pattern in names else []
        else:
            matches: Callable[[str], object] = compile_pattern(pattern)
            found[pattern] = [name for name in names if matches(name)]
        if not found[pattern] and len(problems) < MOST_PROBLEMS:
            problems.append(
                CheckpointError(
                    "the pattern matches no tensor of the checkpoint",
                    file=checkpoint.place,
                    found=pattern,
                    expected="a name, a glob or re: and an expression that matches whole names",
                    hint=nearest(pattern, names) if not problems else None,
                )
            )
    raise_problems(problems)
    return found
