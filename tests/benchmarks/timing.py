"""Medians of several calls measured in turn, so that a busy machine slows all of them alike.

Each turn has another order, for a call finds the caches as the one before it left them.
"""

import random
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any


def side_by_side(
    calls: Mapping[str, Callable[[], Any]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the median milliseconds of each call, after one call each to warm up."""
    for call in calls.values():
        call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = random.Random(0)
    for _ in range(repeats):
        for name, call in order.sample(list(calls.items()), len(calls)):
            start = clock()
            call()
            times[name].append(clock() - start)
    return {name: statistics.median(values) * 1e3 for name, values in times.items()}


def row(*cells: object) -> None:
    """Print one line of a Markdown table; floats with three significant digits."""
    shown = [f"{c:.3g}" if isinstance(c, float) else str(c) for c in cells]
    print("| " + " | ".join(shown) + " |", flush=True)
