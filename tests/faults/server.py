"""A process with one thread that runs what is asked for: forking it is quick and safe.

It reads a JSON object a line, and answers with one.
"""

import gc
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import torch
from attrs import asdict

from qconfig import Event
from tests.faults.attempts import World
from tests.faults.calls import Fault, Kind, tell_watchers
from tests.faults.expectations import finished_shards
from tests.faults.operations import CONFIGS, NAMES


def every_call(
    operation: str, home: str, kinds: list[str], *, jobs: int = 0, parents: str = ""
) -> dict[str, Any]:
    """Let each call of an operation fail in each way; return what is wrong."""
    world = World.make(operation, Path(home), jobs=jobs, parents=parents)
    tried, struck, wrong = 0, 0, []
    for place, call in enumerate(world.calls, 1):
        for kind in map(Kind, kinds):
            if not jobs and not call.may_fail(kind):
                continue
            fault = Fault(place, kind)
            world.clear()
            outcome = world.attempt(fault)
            tried, struck = tried + 1, struck + outcome.struck
            found = [*world.defects(fault, outcome), *world.again(world.done_at(fault))]
            wrong += [f"{place} {call}, {kind}: {text}; {outcome.words()}" for text in found]
    return {"calls": len(world.calls), "tried": tried, "struck": struck, "wrong": wrong}


def two_kills(operation: str, home: str, *, step: int) -> dict[str, Any]:
    """Stop a run at each call, and the one that goes on at some other one."""
    world = World.make(operation, Path(home))
    tried, struck, wrong = 0, 0, []
    for place in range(1, len(world.calls) + 1):
        world.clear()
        first = Fault(place, Kind.STOP_AFTER)
        outcome = world.attempt(first)
        found = [*world.defects(first, outcome)]
        kind = Kind.STOP_HALF if place % 2 else Kind.STOP_BEFORE
        second = Fault(place * step % len(world.calls) + 1, kind)
        again = world.attempt(second)
        found += [*world.defects(second, again, is_first=False)]
        found += [*world.again(world.done_at(first))]
        tried, struck = tried + 1, struck + again.struck
        wrong += [f"{first}, {second}: {text}; {again.words()}" for text in found]
    return {"tried": tried, "struck": struck, "wrong": wrong}


def calls(operation: str, home: str) -> list[dict[str, Any]]:
    """Return all calls of a run without faults."""
    return [asdict(call) for call in World.make(operation, Path(home)).calls]


def interrupted(operation: str, home: str, *, shards: int) -> str:
    """Make a world and stop a run when so many shards are finished; return the target's digest.

    The digest is that of a run that nothing disturbed.
    """
    world = World.make(operation, Path(home))
    place = next(
        place
        for place in range(1, len(world.calls))
        if finished_shards(world.calls[:place], NAMES) == set(NAMES[:shards])
    )
    world.clear()
    outcome = world.attempt(Fault(place, Kind.STOP_AFTER))
    assert outcome.killed, outcome.words()
    return world.final


def hold(operation: str, home: str) -> dict[str, Any]:
    """Begin a run in a process of its own; return when it has finished a shard and waits."""
    world = World.make(operation, Path(home))
    world.clear()
    reached, reach = os.pipe()
    wait, go = os.pipe()
    child = os.fork()
    if child == 0:
        code = 99
        os.close(go)

        def listen(event: Event, /) -> None:
            if event.kind == "shard" and os.write(reach, b"!"):
                os.read(wait, 1)  # nothing once `go` is closed

        try:
            outcome = world.run(listener=listen)
            code = 1 if outcome.error else 0
        finally:
            os._exit(code)
    os.close(reach)
    os.close(wait)
    assert os.read(reached, 1) == b"!"
    os.close(reached)
    _held[child] = go
    return {"pid": child, "final": world.final}


def let_go(pid: int) -> int:
    """Let a run that waits go on; return its exit status."""
    os.close(_held.pop(pid))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def attempt(home: str, *, config: int, place: int, kind: str) -> dict[str, Any]:
    """Quantize, where the files are already, with a fault; return what became of it."""
    world = World("quantize", Path(home), settings={"config": CONFIGS[config]})
    outcome = world.attempt(Fault(place, Kind(kind)))
    return {
        "killed": outcome.killed,
        "error": type(outcome.error).__name__ if outcome.error else None,
        "refused": outcome.is_refusal,
        "left_open": outcome.left_open,
        "words": outcome.words(),
    }


_held: dict[int, int] = {}
REQUESTS = {
    "attempt": attempt,
    "calls": calls,
    "every_call": every_call,
    "hold": hold,
    "interrupted": interrupted,
    "let_go": let_go,
    "two_kills": two_kills,
}


def serve() -> None:
    """Answer requests until there are no more."""
    torch.set_num_threads(1)
    sys.addaudithook(tell_watchers)
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = REQUESTS[request.pop("do")](**request)
        except Exception:  # noqa: BLE001 - whoever asked has to know, whatever it is
            reply = {"failed": traceback.format_exc()}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    serve()
