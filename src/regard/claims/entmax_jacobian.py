"""C16: the Jacobian of entmax; C17: that of sparsemax depends on the support alone."""

from functools import partial

import torch
from torch import Tensor

from regard.claims.claim import Figures, at_least, at_most, claim, must_fail
from regard.claims.entmax_family import ALPHAS
from regard.maps import entmax

entry = partial(claim, group="Scores and maps", fixed="a82a066", exact=True)


def of_the_slides(p: Tensor, alpha: float) -> Tensor:
    """diag(s) − ssᵀ/‖s‖₁ with sⱼ = pⱼ^{2−α} on the support, 0 off it."""
    s = torch.where(p > 0, p.clamp(min=1e-300) ** (2 - alpha), 0)
    return torch.diag(s) - torch.outer(s, s) / s.sum()


def jacobian(theta: Tensor, alpha: float) -> Tensor:
    """By autograd."""
    found: Tensor = torch.autograd.functional.jacobian(lambda t: entmax(t, alpha=alpha), theta)
    return found


@entry(
    "C16",
    says="The Jacobian of entmax is diag(s) − ssᵀ/‖s‖₁.",
    source="004:617",
    experiment="Autograd and finite differences at α = 1, 1.25, 1.5, 2, 3.",
    control="The formula with α + ½.",
    conditions=[
        at_most(1e-6, "autograd off by"),
        at_most(1e-6, "differences off by"),
        must_fail(at_least(1e-3, "another α off by")),
    ],
)
def jacobians(seed: int) -> Figures:
    """Largest differences from the formula."""
    theta = torch.tensor([0.9, 0.5, -0.1, 0.7, -1.5], dtype=torch.float64)
    step, ours, finite, wrong = 1e-6 * torch.eye(5, dtype=torch.float64), [], [], []
    for alpha in ALPHAS:
        p = entmax(theta, alpha=alpha)
        expected = of_the_slides(p, alpha)
        differences = (entmax(theta + step, alpha=alpha) - entmax(theta - step, alpha=alpha)).mT / 2e-6
        ours.append(float((jacobian(theta, alpha) - expected).abs().max()))
        finite.append(float((differences - expected).abs().max()))
        wrong.append(float((of_the_slides(p, alpha + 0.5) - expected).abs().max()))
    return {"autograd off by": max(ours), "differences off by": max(finite), "another α off by": min(wrong)}


def scores_for(p: list[float], alpha: float) -> Tensor:
    """θ whose α-entmax is p (up to a constant); a weight of 0 gets a score far below."""
    weights = torch.tensor(p, dtype=torch.float64)
    if alpha == 1:
        return weights.clamp(min=1e-12).log()
    return torch.where(weights > 0, weights ** (alpha - 1) / (alpha - 1), -5.0)


@entry(
    "C17",
    says="The Jacobian of sparsemax depends on the support alone.",
    source="004:625-629",
    experiment="At p = (.99, .01, 0) and (.5, .5, 0): how far the two Jacobians are apart.",
    control="α = 1.5 and 1, where they differ.",
    conditions=[
        at_most(1e-12, "α = 2"),
        must_fail(at_least(0.1, "α = 1.5")),
        must_fail(at_least(0.1, "α = 1")),
    ],
)
def support_alone(seed: int) -> Figures:
    """Largest difference by α."""
    found = {}
    for alpha in (1.0, 1.5, 2.0):
        one, other = (jacobian(scores_for(p, alpha), alpha) for p in ([0.99, 0.01, 0.0], [0.5, 0.5, 0.0]))
        found[f"α = {alpha:g}"] = float((one - other).abs().max())
    return found
