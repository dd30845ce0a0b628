"""What audits measure with: distances of distributions, rank correlation, bootstrap, orders of words.

    TVD(p, q) = ½ Σ |p_c − q_c|        JSD(p, q) = ½ KL(p ‖ ½(p + q)) + ½ KL(q ‖ ½(p + q)) ≤ ln 2

    τ_b = Σ_{i<j} sign(x_i − x_j) sign(y_i − y_j) / √(pairs that differ in x · pairs that differ in y)

Kendall's τ_b is undefined, NaN, where all x or all y are the same: such texts are left out and counted.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import torch
from torch import Tensor

from regard.tasks.case import Case, NotApplicable

PAIRS = 1 << 24  # signs held at once
DRAWS = 1000  # of a bootstrap
Statistic = Callable[[Tensor], Tensor]  # (draws, N) to (draws,)
mean: Statistic = partial(torch.mean, dim=-1)


def median(values: Tensor, dim: int = -1) -> Tensor:
    """The median along an axis; of an even number the mean of the middle two (torch takes the lower)."""
    ordered, n = values.sort(dim).values, values.shape[dim]
    return 0.5 * (ordered.select(dim, (n - 1) // 2) + ordered.select(dim, n // 2))


def tvd(p: Tensor, q: Tensor) -> Tensor:
    """Total variation distance of distributions (..., c): (...), from 0 to 1."""
    return 0.5 * (p - q).abs().sum(-1)


def jsd(p: Tensor, q: Tensor) -> Tensor:
    """Jensen–Shannon divergence of distributions (..., n), in nats: (...), from 0 to ln 2."""
    middle = 0.5 * (p + q)
    return 0.5 * (kl(p, middle) + kl(q, middle))


def kl(p: Tensor, q: Tensor) -> Tensor:
    """KL(p ‖ q) = Σ p log(p/q) of distributions (..., n): (...)."""
    safe, below = torch.where(p > 0, p, 1), torch.where(p > 0, q, 1)  # 0 log 0 = 0, and no gradient there
    return (torch.where(p > 0, p, 0) * (safe.log() - below.log())).sum(-1)


def kendall(x: Tensor, y: Tensor, lengths: Tensor) -> Tensor:
    """τ_b of the first `lengths` (b,) numbers of each row of x and y, (b, n): (b,), NaN where undefined."""
    b, n = x.shape
    there = torch.arange(n, device=x.device) < lengths.unsqueeze(-1)
    found = []
    for some in torch.arange(b, device=x.device).split(max(1, PAIRS // max(1, n * n))):
        both = there[some].unsqueeze(-1) & there[some].unsqueeze(-2)
        rows = x[some].double(), y[some].double()
        a, c = (torch.where(both, (z.unsqueeze(-1) - z.unsqueeze(-2)).sign(), 0) for z in rows)
        ties = a.square().sum((-2, -1)) * c.square().sum((-2, -1))
        found.append((a * c).sum((-2, -1)) / ties.sqrt())  # 0/0 is NaN
    return torch.cat(found) if found else x.new_zeros(0)


def bootstrap(values: Tensor, statistic: Statistic = mean, *, seed: int = 0) -> tuple[float, float]:
    """The 95 % interval of a statistic of values (N,)."""
    values = values.double().cpu()
    generator = torch.Generator().manual_seed(seed)
    found = []
    for some in torch.arange(DRAWS).split(max(1, PAIRS // max(1, len(values)))):
        drawn = values[torch.randint(len(values), (len(some), len(values)), generator=generator)]
        found.append(statistic(drawn))
    low, high = torch.cat(found).quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return low, high


def shuffled(real: Tensor, generator: torch.Generator) -> Tensor:
    """A random order of the tokens of each text (b, n), padding at the end."""
    chance = torch.rand(real.shape, generator=generator)
    return torch.where(real, chance, 2.0).argsort(-1)


def rankings(case: Case, generator: torch.Generator) -> dict[str, Sequence[Tensor]]:
    """Scores of the tokens of each text, (n,): by attention, at random and, if there is one, by gradient."""
    chance = [torch.rand(int(n), generator=generator) for n in case.lengths]
    found: dict[str, Sequence[Tensor]] = {"attention": case.shown, "random": chance}
    with suppress(NotApplicable):
        found["gradient"] = case.gradient
    return found
