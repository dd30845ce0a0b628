"""Adversary: are there very different weights with which the model predicts the same?

    for each text    max_α̃ JSD(α̃, α)    such that    TVD(ŷ(α̃), ŷ) ≤ ε

    value = share of texts with weights of JSD > ½ that keep the prediction
    baseline = 1, that of a model that does not use its weights

The search is gradient descent on −JSD + λ max(0, TVD − ε); of all weights on the way that keep the prediction
the most different ones are taken. Besides, weights are drawn: shuffles and single tokens; where predictions
have no gradient in the weights, these alone. The JSD is the mean over queries, at most ln 2.

Jain & Wallace (2019), arXiv:1902.10186, §4.2.2, with ε = 0.05 for classes. (One lecture's slide maximises
f_α̃(x), which is not the objective.)
"""

import math

import torch
from torch import Tensor

from regard.audits.finding import Finding
from regard.audits.measures import bootstrap, jsd, tvd
from regard.audits.register import register
from regard.audits.tests.shuffled_weights import shuffled
from regard.tasks.case import Case, CaseBatch

FAR = 0.5  # weights with a JSD above it are very different


@register("hard to manipulate", better="lower")
def adversary(
    case: Case, *, epsilon: float = 0.05, steps: int = 300, draws: int = 100, seed: int = 0
) -> Finding:
    """Search for other weights with the same prediction."""
    case.require_intervention()
    longer = case.longer
    generator = torch.Generator().manual_seed(seed)

    def most_different(batch: CaseBatch) -> Tensor:
        best = drawn(batch, epsilon, draws, generator)
        if case.differentiable:
            best = torch.maximum(best, optimised(batch, epsilon, steps, generator))
        return best

    found = case.each(most_different)[longer]
    far = (found > FAR).double()
    return Finding(
        float(far.mean()),
        1.0,
        bootstrap(far, seed=seed),
        len(longer),
        f"share of texts where weights of JSD > {FAR} keep the prediction (TVD ≤ {epsilon}); "
        "baseline: of a model that ignores its weights",
        details={
            "mean JSD": float(found.mean()),
            "largest possible": math.log(2),
            "search": "gradient" if case.differentiable else "drawn",
            "JSD": found.tolist(),
        },
    )


def optimised(batch: CaseBatch, epsilon: float, steps: int, generator: torch.Generator) -> Tensor:
    """The largest JSD (b,) of weights that keep the prediction, by gradient descent."""
    real, mass = batch.real.unsqueeze(-2), batch.weights.sum(-1, keepdim=True)
    base = batch.weights / mass.clamp(min=1e-300)
    # Start far from the weights: the tokens in the opposite order, and some noise.
    order = torch.where(real, base, 2.0).argsort(-1).argsort(-1)  # 0 for the least weight
    start = -order.double() / batch.lengths.view(-1, 1, 1) * 4
    theta = (start + torch.randn(base.shape, generator=generator)).requires_grad_()
    optimiser = torch.optim.Adam([theta], lr=0.1)
    best = torch.zeros(len(base), dtype=torch.float64)
    for _ in range(steps):
        weights = theta.masked_fill(~real, -torch.inf).softmax(-1)
        far = jsd(weights, base).mean(-1)
        moved = tvd(batch.intervene(weights * mass), batch.probabilities)
        best = torch.where((moved <= epsilon) & (far > best), far.detach(), best)
        loss = (-far + 10 * (moved - epsilon).clamp(min=0)).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return best


def drawn(batch: CaseBatch, epsilon: float, draws: int, generator: torch.Generator) -> Tensor:
    """The largest JSD (b,) of weights that keep the prediction, among those drawn."""
    mass = batch.weights.sum(-1, keepdim=True)
    base = batch.weights / mass.clamp(min=1e-300)
    best = torch.zeros(len(base), dtype=torch.float64)
    with torch.no_grad():
        for number in range(draws):
            order = shuffled(batch.real, generator)
            if number % 2:  # all weight on one token
                other = torch.zeros_like(base).scatter(
                    -1, order[:, :1, None].expand(-1, base.shape[1], 1), 1.0
                )
            else:
                other = base.gather(-1, order.unsqueeze(-2).expand_as(base))
            far, moved = jsd(other, base).mean(-1), tvd(batch.intervene(other * mass), batch.probabilities)
            best = torch.where((moved <= epsilon) & (far > best), far, best)
    return best
