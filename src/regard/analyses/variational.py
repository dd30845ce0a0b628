"""Variational code: transmit a probe with limited precision, then the labels given the probe.

    bits = KL(q ‖ p) / log 2 − E_{w∼q} Σᵢ log₂ p_w(yᵢ | xᵢ)

q is a Gaussian for each weight, trained by minimising the bits, which bits-back coding attains. The prior p
is a mixture of Gaussians of ten scales, 2⁻⁸ … 2, with one scale for all outgoing weights of a unit: a unit
that the labels do not need costs the choice of its scale, 3.3 bits at most. KL(q ‖ p) is bounded from above
by −log Σₖ ⅒ exp(−KL(q ‖ pₖ)), so the bits are never underestimated.

Voita & Titov (2020), arXiv:2003.12298, §3.1; local reparameterization: Kingma,
Salimans & Welling (2015), arXiv:1506.02557.
Departs from the paper: there the prior is the improper one of Bayesian compression (Louizos, Ullrich &
Welling 2017, arXiv:1705.08665), whose KL is approximated and known up to a constant. A proper mixture avoids
both.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.analyses.codelength import HIDDEN, Codelength, checked, standardised

SCALES = torch.tensor([2.0**k for k in range(-8, 2)])
BATCH, RATE, DRAWS = 256, 1e-2, 8
BEGIN = -3.0  # initial log standard deviation of q


class Uncertain(nn.Module):
    """A linear layer of Gaussian weights; biases are weights of a unit that is always 1."""

    def __init__(self, d: int, out: int, *, silent: bool = False):
        super().__init__()
        self.mean = nn.Parameter(
            torch.zeros(d + 1, out) if silent else torch.randn(d + 1, out) / math.sqrt(d)
        )
        self.log_std = nn.Parameter(torch.full((d + 1, out), BEGIN))

    def forward(self, x: Tensor) -> Tensor:
        """x (b, d) to (b, out), with independent noise for each row."""
        x = F.pad(x, (0, 1), value=1.0)
        variance = x.square() @ (2 * self.log_std).exp()
        sums: Tensor = x @ self.mean
        return sums + (variance + 1e-12).sqrt() * torch.randn_like(sums)

    def divergence(self) -> Tensor:
        """An upper bound of KL(q ‖ p), in nats."""
        scales = SCALES.to(self.mean).view(-1, 1, 1)  # (k, 1, 1)
        spread = (2 * self.log_std).exp() + self.mean.square()
        each = scales.log() - self.log_std + spread / (2 * scales.square()) - 0.5  # (k, d + 1, out)
        by_unit = each.sum(-1)  # (k, d + 1)
        return -(torch.logsumexp(-by_unit, 0) - math.log(len(SCALES))).sum()


def variational(
    states: Tensor, labels: Tensor, classes: int, *,
    hidden: int = HIDDEN, steps: int = 1500, seed: int = 0, listen: Callable[[float], None] | None = None,
) -> Codelength:  # fmt: skip
    """The variational code of labels (N,), given states (N, d), by a probe of `hidden` units, or linear if 0.

    listen is called with the share of the steps that were done.
    """
    states, labels = checked(states, labels, classes)
    if steps < 1:
        raise ValueError(f"steps must be at least 1; got {steps}.")
    x, n, chance = standardised(states), len(labels), torch.Generator().manual_seed(seed)
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [Uncertain(hidden or x.shape[-1], classes, silent=True)]
        if hidden:
            layers.insert(0, Uncertain(x.shape[-1], hidden))
        probe = nn.Sequential(layers[0], nn.ReLU(), layers[1]) if hidden else nn.Sequential(layers[0])
        optimiser = torch.optim.Adam(probe.parameters(), RATE)
        plan = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        for step in range(1, steps + 1):
            some = torch.randint(n, (min(BATCH, n),), generator=chance)
            cost = n * F.cross_entropy(probe(x[some]), labels[some])
            for layer in layers:
                cost = cost + layer.divergence()
            optimiser.zero_grad()
            (cost / n).backward()
            optimiser.step()
            plan.step()
            if listen is not None and step % 100 == 0:
                listen(step / steps)
        return _sent(probe, layers, x, labels, classes)


def _sent(probe: nn.Module, layers: list[Uncertain], x: Tensor, labels: Tensor, classes: int) -> Codelength:
    with torch.no_grad():
        model = sum(float(layer.divergence().double()) for layer in layers) / math.log(2)
        nats, right = 0.0, 0.0
        for _ in range(DRAWS):
            logits = probe(x)
            nats += float(F.cross_entropy(logits.double(), labels, reduction="sum")) / DRAWS
            right += float((logits.argmax(-1) == labels).float().mean()) / DRAWS
    return Codelength(model + nats / math.log(2), len(labels), classes, right, model)
