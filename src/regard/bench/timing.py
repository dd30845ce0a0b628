"""Timing: candidates in turn (a, b, a, b, …), medians, after a warm-up.

Taking turns spreads whatever else the machine does over all of them alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

SHORTEST = (
    1e-2  # seconds: shorter candidates are called several times per turn, each with its own data at hand
)


@dataclass(frozen=True)
class Effort:
    """How long to measure: as many rounds as fit into the seconds, at least `least`, at most `most`.

    `clock` is what counts seconds: the one on the wall, or `time.process_time`, which a busy machine disturbs
    less, and which adds up the threads.
    """

    seconds: float = 2.5
    least: int = 5
    most: int = 60
    clock: Callable[[], float] = perf_counter


QUICK = Effort(seconds=0.5, least=3, most=20)


def medians(candidates: Sequence[Callable[[], Any]], effort: Effort) -> list[float]:
    """The median seconds of one call of each candidate."""
    for candidate in candidates:
        candidate()  # Numba compiles, caches fill
    times = [_calls(candidate, 1, effort.clock) for candidate in candidates]
    calls = [max(1, round(SHORTEST / max(t, 1e-7))) for t in times]
    once = sum(t * k for t, k in zip(times, calls, strict=True))
    rounds = min(max(int(effort.seconds / max(once, 1e-9)), effort.least), effort.most)
    samples: list[list[float]] = [[] for _ in candidates]
    for _ in range(rounds):
        for sample, candidate, k in zip(samples, candidates, calls, strict=True):
            sample.append(_calls(candidate, k, effort.clock))
    return [median(sample) for sample in samples]


def _calls(candidate: Callable[[], Any], calls: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(calls):
        candidate()
    return (clock() - start) / calls
