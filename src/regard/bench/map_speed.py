"""The row maps against torch.softmax and the `entmax` package, forward and backward."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product

import torch
from torch import Tensor

from regard.bench.memory import peak
from regard.bench.timed_case import SCALES, Claim, Measured, TimedCase, without_peers
from regard.bench.timing import Effort, medians
from regard.bench.workloads import map_inputs, map_there_and_back
from regard.maps import MAPS

SIZES = [(4096, 64), (4096, 512), (1024, 4096)]  # rows, n
FEWER = {"sizes": SIZES[:2]}
MODE = "forward + backward"
SORTED = ["sparsemax", "entmax15"]
ALPHAS = [1.5, 1.3]
FLAT = {"sparsemax": 3.0, "entmax15": 4.0}  # limits
LEARNED = {1.5: 8.0, 1.3: 14.0}
GROUPS = ["rows", "learned", "fusedmax", "memory", "peers"]
SOFTMAX = "torch.softmax"

Sizes = Sequence[tuple[int, int]]
Map = Callable[..., Tensor]


def cases(only: Sequence[str] | None = None, sizes: Sizes = SIZES) -> list[TimedCase]:
    """The cases of these groups (default: all), on rows of these sizes (rows, n)."""
    makers = {"rows": _rows, "learned": _learned, "fusedmax": _fusedmax, "memory": _memory, "peers": _peers}
    return [case for group in only or GROUPS for case in makers[group](sizes)]


def missing(only: Sequence[str]) -> list[str]:
    """What could be measured against in these groups and is not installed, as a sentence each."""
    if "peers" not in only or not without_peers():
        return []
    return ["the entmax package is not here, so nothing is measured against it: pip install 'regard[peers]'"]


def _rows(sizes: Sizes) -> Iterator[TimedCase]:
    for name, (rows, n), scale in product(SORTED, sizes, SCALES):
        run = partial(_race, MAPS[name].function, [_softmax], rows, n, scale, None)
        yield TimedCase("rows", _row_claim(name, n, scale), name, run, MODE, rows, n, scale)


def _row_claim(name: str, n: int, scale: str) -> Claim:
    if scale == "flat" and n < 512:
        return Claim(f"{name}, flat rows of 64", SOFTMAX)
    if scale == "flat":
        return Claim(f"{name}, flat rows of 512 and 4,096", SOFTMAX, FLAT[name], 2.0)
    if n < 512:
        return Claim("sparsemax and entmax15, rows of 64, normal and peaked", SOFTMAX, 2.7, 1.5)
    return Claim("sparsemax and entmax15, rows of 512 and 4,096, normal and peaked", SOFTMAX, 1.3, 1.0)


def _learned(sizes: Sizes) -> Iterator[TimedCase]:
    for alpha, (rows, n), scale in product(ALPHAS, sizes, SCALES):
        run = partial(_race, MAPS["entmax"].function, [_softmax], rows, n, scale, alpha)
        what, claim = f"entmax, learned α = {alpha}", _learned_claim(alpha, n, scale)
        yield TimedCase("learned", claim, what, run, MODE, rows, n, scale)


def _learned_claim(alpha: float, n: int, scale: str) -> Claim:
    if n < 512:
        return Claim("entmax with learned α, rows of 64", SOFTMAX)
    if scale == "flat":
        return Claim("entmax with learned α, flat rows of 512 and 4,096", SOFTMAX, 12.0, 3.0)
    says = f"entmax with learned α = {alpha}, rows of 512 and 4,096, normal and peaked"
    return Claim(says, SOFTMAX, LEARNED[alpha], 3.0)


def _fusedmax(sizes: Sizes) -> Iterator[TimedCase]:
    claim = Claim("fusedmax, rows of 512", SOFTMAX)
    for (rows, n), scale in product(sizes[1:2], SCALES):
        run = partial(_race, MAPS["fusedmax"].function, [_softmax], rows, n, scale, None)
        yield TimedCase("fusedmax", claim, "fusedmax", run, MODE, rows, n, scale)


def _memory(sizes: Sizes) -> Iterator[TimedCase]:
    for name, (rows, n) in product(SORTED, sizes):
        claim = Claim(f"{name}, peak extra memory, rows of 64 to 4,096", SOFTMAX)
        run = partial(_peaks, name, rows, n)
        yield TimedCase("memory", claim, f"{name}, peak memory", run, MODE, rows, n, "normal")


def _peaks(name: str, rows: int, n: int, effort: Effort) -> Measured:
    (mebibytes, seconds), (others, other) = peak(name, n, rows), peak("softmax", n, rows)
    return Measured(seconds, other, mebibytes=mebibytes, against_mebibytes=others)


def _peers(sizes: Sizes) -> Iterator[TimedCase]:
    if without_peers():
        return
    import entmax

    for name, (rows, n), scale in product(SORTED, sizes, SCALES):
        theirs = [partial(getattr(entmax, name), dim=-1, k=k) for k in (None, 100)]
        against, bounds = "entmax package, better of default and top-k", (1 / 6, 1 / 10)
        claim = _peer_claim("sparsemax and entmax15", against, scale, *bounds)
        run = partial(_race, MAPS[name].function, theirs, rows, n, scale, None)
        yield TimedCase("peers", claim, name, run, MODE, rows, n, scale)
    for alpha, (rows, n), scale in product(ALPHAS, sizes, SCALES):
        bisect = partial(entmax.entmax_bisect, dim=-1)
        claim = _peer_claim("entmax with learned α", "entmax package, bisection", scale, 1 / 25)
        run = partial(_race, MAPS["entmax"].function, [bisect], rows, n, scale, alpha)
        yield TimedCase("peers", claim, f"entmax, learned α = {alpha}", run, MODE, rows, n, scale)


def _peer_claim(what: str, against: str, scale: str, limit: float, aim: float | None = None) -> Claim:
    if scale == "flat":
        return Claim(f"{what}, flat rows of 64 to 4,096", against)
    return Claim(f"{what}, rows of 64 to 4,096, normal and peaked", against, limit, aim)


def _softmax(scores: Tensor, alpha: Tensor | None = None) -> Tensor:
    return torch.softmax(scores, -1)


def _race(
    ours: Map, theirs: Sequence[Map], rows: int, n: int, scale: str, alpha: float | None, effort: Effort
) -> Measured:
    """Ours against the fastest of theirs, forward + backward on scores (rows, n)."""
    scores, gradient = map_inputs(rows, n, scale)
    learned = {} if alpha is None else {"alpha": torch.tensor(alpha, requires_grad=True)}
    runners = [partial(map, **learned) for map in (ours, *theirs)]
    seconds, *others = medians(
        [partial(map_there_and_back, run, scores, gradient) for run in runners], effort
    )
    support = (runners[0](scores.detach()) > 0).sum(-1).double().mean()
    return Measured(seconds, min(others), float(support))
