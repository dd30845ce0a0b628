"""How the cost of each mechanism grows with n: FLOPs and peak bytes by counting, seconds by the clock.

A row is one mechanism and one quantity: its values at each n, and the slope of a straight line through their
logarithms, with an interval of 95 % (Student's t over the points; of two points there is none).

- FLOPs: torch's FLOP counter, forward and backward, without the four projections (counted apart).
- bytes: the largest sum of what torch has allocated at one time beyond the inputs, forward and backward, as
  its profiler reports it; "weights materialised" is the same by the plain three steps: weights of every pair
  that a mechanism compares are written out and kept for backward, as textbook code does.
- seconds: the median of a few runs, forward and backward, the projections included.
"""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from regard.attention import Attended
from regard.backends.dispatch import materialised
from regard.mechanisms import MECHANISMS, Mechanism

SIZES = (256, 512, 1024, 2048, 4096, 8192, 16384)
FITTED = (512, 8192)  # slopes are over these n
WIDTH, HEADS = 64, 4
WRITTEN = 4096  # with weights written out, n is at most this
WHAT = {
    "flops": "FLOPs, projections left out",
    "bytes": "peak bytes",
    "bytes_materialised": "peak bytes, weights materialised",
    "seconds": "seconds",
}
QUADRATIC = {"full", "synthesizer"}

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # torch's profiler talks on standard error


@dataclass(frozen=True)
class Grown:
    """One quantity of one mechanism against n."""

    mechanism: str
    quantity: str
    points: tuple[tuple[int, float], ...]
    expected: float | None  # of the slope
    within: float | None

    @property
    def fitted(self) -> tuple[float, float]:
        """The slope of log against log and half the width of its interval."""
        chosen = [(n, y) for n, y in self.points if FITTED[0] <= n <= FITTED[1]]
        return slope(chosen if len(chosen) > 1 else self.points)

    @property
    def held(self) -> bool | None:
        """Whether the slope is as expected; None if nothing is."""
        if self.expected is None or self.within is None:
            return None
        found = self.fitted[0]
        return found <= self.expected + self.within and (
            self.quantity == "bytes" or self.mechanism == "reformer" or found >= self.expected - self.within
        )

    def json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        found, half = self.fitted
        return {
            "what": f"{self.mechanism}: {WHAT[self.quantity]}",
            "mechanism": self.mechanism,
            "quantity": self.quantity,
            "slope": round(found, 4),
            "interval": [round(found - half, 4), round(found + half, 4)] if math.isfinite(half) else None,
            "expected": self.expected,
            "held": self.held,
            "n": [n for n, _ in self.points],
            "values": [y for _, y in self.points],
        }


LRA = {  # peak memory in GB at 4K tokens: Tay et al. (2020), "Long Range Arena", arXiv:2011.04006, Table 2
    "full": 9.48,
    "local": 1.37,
    "linformer": 0.99,
    "reformer": 2.28,
    "sinkhorn": 1.48,
    "synthesizer": 6.99,
    "bigbird": 2.88,
    "linear_attention": 1.03,
    "performer": 1.06,
}


def rank_with_lra(found: dict[str, float]) -> float:
    """Spearman's rank correlation of bytes by mechanism with the column of Long Range Arena."""
    from scipy.stats import spearmanr

    names = [name for name in LRA if name in found]
    return float(spearmanr([LRA[name] for name in names], [found[name] for name in names]).statistic)


def slope(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Of log y against log n, by least squares; and half of an interval of 95 %."""
    x = [math.log(n) for n, _ in points]
    y = [math.log(max(value, 1e-12)) for _, value in points]
    k, mean_x, mean_y = len(points), sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - mean_x) ** 2 for a in x)
    found = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread
    if k < 3:
        return found, math.inf
    from scipy.stats import t

    rest = sum((b - mean_y - found * (a - mean_x)) ** 2 for a, b in zip(x, y, strict=True))
    return found, float(t.ppf(0.975, k - 2)) * math.sqrt(rest / (k - 2) / spread)


def made(name: str, n: int, width: int = WIDTH, heads: int = HEADS) -> Mechanism:
    """A mechanism for n tokens, with its default settings but room for n positions."""
    torch.manual_seed(0)
    settings = {"longest": max(n, 16)} if "longest" in MECHANISMS[name].settings else {}
    return MECHANISMS[name].make(width, heads, **settings)


def forward_backward(module: Mechanism, x: Tensor) -> None:
    """One call and its gradient."""
    seen: Attended = module(x)
    seen.context.sum().backward()


def flops(name: str, n: int) -> int:
    """Forward and backward, without the projections of queries, keys, values and contexts."""
    module, x = made(name, n), torch.randn(1, n, WIDTH, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        forward_backward(module, x)
    every = int(counter.get_total_flops())
    layers = {id(layer): layer for layer in (module.W_q, module.W_k, module.W_v, module.W_o)}
    calls = len(layers) if name != "reformer" else 4  # there W_k is W_q, called twice
    return every - calls * 3 * 2 * n * WIDTH * WIDTH


def peak_bytes(run: Callable[[], None]) -> int:
    """The largest sum of what torch allocates at one time while this runs."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        run()
    events: Any = found.profiler.kineto_results.events()
    now = most = 0
    for event in sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def bytes_of(name: str, n: int, written: bool = False) -> int:
    """Peak bytes of forward and backward beyond inputs and parameters."""
    module, x = made(name, n), torch.randn(1, n, WIDTH, requires_grad=True)
    forward_backward(made(name, 128), torch.randn(1, 128, WIDTH))  # compiles
    if not written:
        return peak_bytes(lambda: forward_backward(module, x))
    if name == "local":  # the same window in blocks: plain steps of a mask would write all pairs
        module = MECHANISMS["longformer"].make(WIDTH, HEADS, tokens=0, window=module.core.window)
    with materialised():
        return peak_bytes(lambda: forward_backward(module, x))


def seconds_of(name: str, n: int, rounds: int = 3) -> float:
    """The median time of forward and backward."""
    module, x = made(name, n), torch.randn(1, n, WIDTH, requires_grad=True)
    forward_backward(*((module, x) if rounds > 1 else (made(name, 512), torch.randn(1, 512, WIDTH))))
    times = []
    for _ in range(rounds):
        start = perf_counter()
        forward_backward(module, x)
        times.append(perf_counter() - start)
    return median(times)


def expected(name: str, quantity: str) -> tuple[float | None, float | None]:
    """The slope that must be found, and how near."""
    if quantity == "flops":
        if name in ("strided", "fixed"):
            return 1.5, 0.1
        return (1.0, 0.3) if name == "reformer" else (MECHANISMS[name].slope, 0.05)
    if quantity == "bytes":
        return 1.0, 0.05
    if quantity == "bytes_materialised" and name in QUADRATIC:
        return 2.0, 0.2
    return None, None


def measured(
    names: Sequence[str], sizes: Sequence[int], quantities: Sequence[str], tell: Callable[[str], None]
) -> Iterator[Grown]:
    """Every quantity of every mechanism; `tell` hears what is measured next."""
    for name in names:
        for quantity in quantities:
            points = []
            for n in sizes:
                if quantity == "bytes_materialised" and n > WRITTEN:
                    continue
                tell(f"{name}: {WHAT[quantity]}, n = {n:,}")
                points.append((n, float(_value(name, quantity, n))))
            yield Grown(name, quantity, tuple(points), *expected(name, quantity))


def _value(name: str, quantity: str, n: int) -> float:
    if quantity == "flops":
        return flops(name, n)
    if quantity == "seconds":
        return seconds_of(name, n, 3 if n <= 4096 else 1)
    return bytes_of(name, n, written=quantity == "bytes_materialised")
