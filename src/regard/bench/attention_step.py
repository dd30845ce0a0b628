"""One step of decoding with a cache: one query against many keys, with and without heads that share them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.attention import attend
from regard.bench.timed_case import Claim, Measured, TimedCase
from regard.bench.timing import QUICK, Effort, medians
from regard.bench.workloads import HEADS, WIDTH, mean_support

CACHED = [4096, 16384]
CACHED_BOUNDS: dict[str, dict[int, tuple[float, float]]] = {  # limit, aim
    "softmax": {4096: (1.2, 1.0), 16384: (1.1, 1.0)},
    "entmax15": {4096: (0.5, 0.3), 16384: (0.35, 0.2)},
}
UNSHARED = [512, 4096, 16384]


def steps(sizes: list[int] | None) -> Iterator[TimedCase]:
    """One query with 64 keys; 9 heads with 3 heads of keys, and with 9, in a cache of n."""
    claim = Claim("one decoding step, inference mode, 1 query, 64 keys, 8 heads", "attend with softmax", 3.0)
    what = "attend with entmax15, one decoding step"
    yield TimedCase("decoding", claim, what, _decode, "forward", HEADS, 64, "normal")
    for shared, numbers in ((3, CACHED), (9, UNSHARED)):
        for n in sizes or numbers:
            for map, bounds in CACHED_BOUNDS.items():
                says = f"cached step, {map}, 1 query, 9 heads, {shared} key/value heads, n = {n:,}"
                limits = bounds.get(n, ()) if shared == 3 else ()
                other = "the fastest of three spellings of SDPA" if shared == 3 else "SDPA"
                yield TimedCase(
                    "decoding",
                    Claim(says, f"{other}, softmax", *limits),
                    f"attend with {map}, {n:,} keys, {shared} key/value heads",
                    partial(_cached_step, map, n, shared),
                    "forward",
                    9,
                    n,
                    "normal",
                )


def _cached_step(map: str, n: int, shared: int, effort: Effort) -> Measured:
    """One query of 9 heads, 9 / shared to each head of keys, against the fastest spelling of SDPA.

    Repeated keys empty every cache, so the fastest is found first; then the two take turns.
    """
    noise = torch.Generator().manual_seed(0)
    query = torch.randn(1, 9, 1, WIDTH, generator=noise)
    keys, values = (torch.randn(1, shared, n, WIDTH, generator=noise) for _ in range(2))
    times = 9 // shared
    grouped = query.view(1, shared, times, 1, WIDTH), keys.unsqueeze(2), values.unsqueeze(2)
    spellings: list[Callable[[], Any]] = [lambda: sdpa(query, keys, values, enable_gqa=times > 1)]
    if times > 1:
        spellings += [
            lambda: sdpa(query.view(1, shared, times, WIDTH), keys, values),
            lambda: sdpa(query, keys.repeat_interleave(times, 1), values.repeat_interleave(times, 1)),
        ]
    with torch.inference_mode():
        found = medians(spellings, replace(QUICK, clock=effort.clock)) if times > 1 else [0.0]
        fastest = spellings[found.index(min(found))]
        seconds, other = medians([lambda: attend(*grouped, map=map), fastest], effort)
    return Measured(seconds, other, support=None if map == "softmax" else mean_support(map, *grouped))


def _decode(effort: Effort) -> Measured:
    noise = torch.Generator().manual_seed(0)
    query = torch.randn(1, HEADS, 1, WIDTH, generator=noise)
    keys, values = (torch.randn(1, HEADS, 64, WIDTH, generator=noise) for _ in range(2))

    def step(map: str) -> None:
        with torch.inference_mode():
            attend(query, keys, values, map=map)

    seconds, other = medians([partial(step, "entmax15"), partial(step, "softmax")], effort)
    return Measured(seconds, other, support=mean_support("entmax15", query, keys, values))
