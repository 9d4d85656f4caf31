"""`qconfig doctor`: what interrupted runs left, listed and removed."""

from pathlib import Path

import click

from qconfig.checkpoints.leftovers import Leftover, find_leftovers, remove_leftover
from qconfig.cli.output import Output, counted, human_bytes
from qconfig.cli.verb import PATH, verb
from qconfig.codec.run_lock import duration
from qconfig.errors import QconfigError, raise_problems

_WORDS = {
    "placed": "its target is complete",
    "useless": "nothing in it is finished",
}


@verb(
    "doctor",
    "List or remove what interrupted runs left.",
    example="qconfig doctor models/ --remove",
)
@click.argument("places", type=PATH, nargs=-1)
@click.option("--remove", is_flag=True, help="Remove all that no run works on.")
def command(*, places: tuple[Path, ...], remove: bool, output: Output) -> int:
    """List what runs that were killed left beside their targets, and what they would need.

    PLACES are directories in which checkpoints were written, or names of checkpoints; none is the
    current directory. Exit code 1 if something is left in the end.
    """
    places = places or (Path(),)
    found = list({x.path: x for place in places for x in find_leftovers(place)}.values())
    idle = [leftover for leftover in found if leftover.holder is None]
    removed: list[Leftover] = []
    problems: list[QconfigError] = []
    for leftover in idle if remove else []:
        try:
            remove_leftover(leftover)
        except QconfigError as error:
            problems += error.problems
            continue
        removed.append(leftover)
        if not output.as_json:
            output.line(f"removed {leftover.path}")
    raise_problems(problems)
    left = [leftover for leftover in found if leftover not in removed]
    if output.as_json:
        output.result(
            {
                "left": [leftover.to_dict() for leftover in left],
                "removed": [leftover.to_dict() for leftover in removed],
            }
        )
        return 1 if left else 0
    for leftover in left:
        output.line(f"{leftover.path}")
        output.line(f"  {_described(leftover)}")
        if leftover.state == "resumable":
            output.line(f"  to go on, {leftover.job or 'write'} {leftover.target} as before")
    for place in places:
        if not place.exists() and not find_leftovers(place):
            output.note(f"note: there is no {place}")
    if not found:
        output.line("nothing is left of other runs")
    elif len(idle) > len(removed):
        output.note("note: to remove what no run works on: --remove")
    return 1 if left else 0


def _described(leftover: Leftover) -> str:
    holder = leftover.holder
    if holder is not None:
        return f"being written by process {holder.pid} on {holder.host}, for {duration(holder.age)}"
    if leftover.problem is not None:
        return f"its journal cannot be read: {leftover.problem}"
    if leftover.state != "resumable":
        return _WORDS[leftover.state]
    done = counted(len(leftover.finished), "finished shard")
    if leftover.shards is None or leftover.total is None:
        return f"{done}, {human_bytes(leftover.size)}"
    return (
        f"{done} of {leftover.shards}, {human_bytes(leftover.size)} of "
        f"{human_bytes(leftover.total)}, of {leftover.source or 'a source that is not known'}"
    )
