"""C14, C18 and C19: softmax, sparsemax and entmax as one family, dense and sparse."""

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from regard.claims.claim import Figures, at_least, at_most, between, claim, must_fail
from regard.claims.weights_not_unique import normal
from regard.maps import argmax, entmax, softmax, sparsemax

ALPHAS = [1.0, 1.25, 1.5, 2.0, 3.0]
entry = partial(claim, group="Scores and maps", fixed="a82a066", exact=True)


def regularizer(p: Tensor, alpha: float) -> Tensor:
    """Ω(p) = Σ p log p at α = 1, else Σ pᵅ / α(α − 1)."""
    return torch.special.xlogy(p, p).sum(-1) if alpha == 1 else (p**alpha).sum(-1) / (alpha * (alpha - 1))


def solved(theta: Tensor, alpha: float) -> Tensor:
    """argmax pᵀθ − Ω(p) over the simplex, as a general solver finds it."""

    def loss(q: NDArray[np.float64]) -> float:
        p = torch.from_numpy(q)
        return float(regularizer(p, alpha) - p @ theta)

    def slopes(q: NDArray[np.float64]) -> NDArray[np.float64]:
        p = torch.from_numpy(q)
        of_regularizer = p.log() + 1 if alpha == 1 else p ** (alpha - 1) / (alpha - 1)
        return np.asarray((of_regularizer - theta).numpy())

    found = minimize(
        loss,
        np.full(len(theta), 1 / len(theta)),
        jac=slopes,
        method="SLSQP",
        bounds=[(1e-12, 1)] * len(theta),
        constraints={"type": "eq", "fun": lambda q: q.sum() - 1},
        options={"ftol": 1e-16, "maxiter": 1000},
    )
    return torch.from_numpy(found.x)


@entry(
    "C14",
    says="Softmax, sparsemax and entmax are the argmax of pᵀθ − Ω(p).",
    source="004:525-562",
    experiment="Five rows for each of five α: a general solver. α → 1 is softmax, α = 2 sparsemax, α "
    "→ ∞ argmax.",
    control="Another α is another map.",
    conditions=[
        at_most(1e-6, "solver off by"),
        at_most(1e-4, "α = 1 + 10⁻⁵ off softmax by"),
        at_most(1e-12, "α = 2 off sparsemax by"),
        at_most(0, "α = 10 off argmax by"),
        must_fail(at_least(0.05, "α = 1.5 off softmax by")),
    ],
)
def regularised(seed: int) -> Figures:
    """Largest differences."""
    off = [
        float((entmax(theta, alpha=alpha) - solved(theta, alpha)).abs().max())
        for alpha in ALPHAS
        for theta in normal(5, 5, seed=2)
    ]
    theta, apart = normal(50, 8), torch.tensor([0.3, -1.0, 0.8, 0.5, 0.0], dtype=torch.float64)

    def differ(alpha: float, other: Tensor, x: Tensor = theta) -> float:
        return float((entmax(x, alpha=alpha) - other).abs().max())

    return {
        "solver off by": max(off),
        "α = 1 + 10⁻⁵ off softmax by": differ(1 + 1e-5, softmax(theta)),
        "α = 2 off sparsemax by": differ(2.0, sparsemax(theta)),
        "α = 10 off argmax by": differ(10.0, argmax(apart), apart),
        "α = 1.5 off softmax by": differ(1.5, softmax(theta)),
    }


@entry(
    "C18",
    says="Softmax is dense, entmax sparse for α > 1.",
    source="004:451-461",
    experiment="1,000 rows of 32 scores of spread 3: share of rows with a weight of exactly 0.",
    control="Flat scores keep every key, α = 1.25.",
    conditions=[
        at_most(0, "softmax"),
        *(at_least(0.99, f"α = {alpha:g}") for alpha in ALPHAS[1:]),
        must_fail(at_most(0, "α = 1.25, flat scores")),
    ],
    only_if="scores are spread enough",
)
def zeros(seed: int) -> Figures:
    """Shares of rows."""
    theta = 3 * normal(1000, 32)

    def share(p: Tensor) -> float:
        return float((p == 0).any(-1).double().mean())

    found = {"softmax": share(softmax(theta))}
    found |= {f"α = {alpha:g}": share(entmax(theta, alpha=alpha)) for alpha in ALPHAS[1:]}
    return found | {"α = 1.25, flat scores": share(entmax(theta / 100, alpha=1.25))}


@entry(
    "C19",
    says="In two dimensions entmax([t, 0]) ends at t = ±1/(α − 1).",
    source="004:501-523",
    experiment="At and before the end, α = 1.25, 1.5, 2, 3: what is left of the lower weight.",
    control="Softmax never drops one.",
    conditions=[
        at_most(1e-9, "lower weight at the end, at most"),
        at_least(1e-9, "lower weight before it, at least"),
        *between(0.65, 0.65 + 1e-9, "sparsemax at t = 0.3"),
        must_fail(at_least(1e-14, "softmax at t = 30")),
    ],
)
def two_scores(seed: int) -> Figures:
    """The lower weight."""

    def first(t: float, alpha: float) -> float:
        return float(entmax(torch.tensor([t, 0.0], dtype=torch.float64), alpha=alpha)[0])

    ends = {alpha: 1 / (alpha - 1) for alpha in ALPHAS[1:]}
    return {
        "lower weight at the end, at most": max(1 - first(end, alpha) for alpha, end in ends.items()),
        "lower weight before it, at least": min(1 - first(0.99 * end, alpha) for alpha, end in ends.items()),
        "sparsemax at t = 0.3": round(first(0.3, 2.0), 12),
        "softmax at t = 30": float(softmax(torch.tensor([30.0, 0.0], dtype=torch.float64))[1]),
    }
