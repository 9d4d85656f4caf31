"""The SHA-256 of shards that the directory of a checkpoint says in `SHA256SUMS`."""

import os

from qconfig.checkpoints.checkpoint import Checkpoint
from qconfig.codec.sha256_sums import SUMS_FILE, read_sums
from qconfig.errors import CheckpointError, QconfigError


def stated_sums(
    checkpoint: Checkpoint, *, follow_symlinks: bool = False
) -> tuple[dict[str, str], list[QconfigError]]:
    """Return the sum of each shard, and a problem for each that has none; nothing without a list.

    What the list says of other files is left alone: none of them is opened.

    Args:
        checkpoint: an open one.
        follow_symlinks: also read a list that is a link to a file elsewhere.
    """
    file = checkpoint.directory / SUMS_FILE
    if not checkpoint.is_directory or not os.path.lexists(file):
        return {}, []
    try:
        stated = read_sums(checkpoint.directory, follow_symlinks=follow_symlinks)
    except QconfigError as error:
        return {}, list(error.problems)
    problems: list[QconfigError] = [
        CheckpointError(
            "the list has no sum of a shard",
            file=file,
            expected=f"a line for {name}",
            hint="the list is of other files; remove it, or write it again with sha256sum",
        )
        for name in checkpoint.shards
        if name not in stated
    ]
    return {name: stated[name] for name in checkpoint.shards if name in stated}, problems
