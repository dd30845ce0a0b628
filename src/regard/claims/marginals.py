"""C40: marginals of a chain are never 0, its SparseMAP's often; C41: SparseMAP of any structure."""

from functools import partial
from itertools import permutations, product

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from regard.claims.claim import Figures, at_least, at_most, claim, must_fail
from regard.claims.weights_not_unique import normal
from regard.maps import chain, sparsemap_chain
from regard.structures import Budget, Chain, Matching

entry = partial(claim, group="Hard and structured attention", fixed="aa447e2", exact=True)


def by_enumeration(scores: Tensor, stay: float) -> Tensor:
    """Marginals of a binary chain over all 2ⁿ states, `stay` being the score of two equal neighbours."""
    states = torch.tensor(list(product((0.0, 1.0), repeat=len(scores))), dtype=scores.dtype)
    equal = (states[:, 1:] == states[:, :-1]).to(scores.dtype).sum(-1)
    return (states @ scores + stay * equal).softmax(0) @ states


@entry(
    "C40",
    says="Marginals of a chain come from forward-backward, and are never 0.",
    source="004:782-799",
    experiment="Binary chains of 8, all 2⁸ states; 50 rows of 10 keys: shares of weights that are exactly 0.",
    control="SparseMAP of the same chain, where 30 % and more are.",
    conditions=[
        at_most(1e-9, "forward-backward off by"),
        at_most(0, "chain, share of zeros"),
        must_fail(at_least(0.3, "SparseMAP, share of zeros")),
    ],
)
def never_zero(seed: int) -> Figures:
    """Difference from enumeration, and zeros."""
    off = [float((chain(row, 0.7) - by_enumeration(row, 0.7)).abs().max()) for row in normal(5, 8)]
    scores = torch.randn(50, 10, generator=torch.Generator().manual_seed(0)).double()
    return {
        "forward-backward off by": max(off),
        "chain, share of zeros": float((chain(scores) == 0).double().mean()),
        "SparseMAP, share of zeros": float((sparsemap_chain(scores) == 0).double().mean()),
    }


def nearest(points: NDArray[np.float64], theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """The point of the hull of `points` (k, d) nearest to θ (d,), by a general solver over their weights."""
    k = len(points)
    found = minimize(
        lambda w: 0.5 * float(((w @ points - theta) ** 2).sum()),
        np.full(k, 1 / k),
        jac=lambda w: points @ (w @ points - theta),
        method="SLSQP",
        bounds=[(0, 1)] * k,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-15, "maxiter": 2000},
    )
    return np.asarray(found.x @ points)


@entry(
    "C41",
    says="SparseMAP works for any structure with a MAP oracle.",
    source="004:820-822",
    experiment="A budget of 2 in 6, matchings of 3 with 3, chains of 4 without transitions: the "
    "nearest point of the hull of all structures, by a general solver; how many structures have "
    "weight.",
    control="The best structure alone is another point.",
    conditions=[
        at_most(1e-6, "off by"),
        at_most(1, "structures by dimensions + 1, at most"),
        must_fail(at_least(0.1, "best structure off by")),
    ],
)
def any_structure(seed: int) -> Figures:
    """Differences over three structures and four rows of scores each."""
    budgets = np.array([a for a in product((0.0, 1.0), repeat=6) if sum(a) <= 2])
    matchings = np.array([np.eye(3)[list(order)].ravel() for order in permutations(range(3))])
    chains = np.array([np.eye(2)[list(path)].ravel() for path in product(range(2), repeat=4)])
    off, alone, used = [], [], []
    for structure, points, shape in (
        (Budget(2), budgets, (6,)),
        (Matching(), matchings, (3, 3)),
        (Chain(torch.zeros(2, 2, dtype=torch.float64), states=2), chains, (4, 2)),
    ):
        for row in range(4):
            theta = normal(*shape, seed=10 * seed + row)
            solution = structure.solve(theta)
            want = nearest(points, theta.numpy().ravel())
            off.append(float(np.abs(solution.marginals.numpy().ravel() - want).max()))
            best = points[(points @ theta.numpy().ravel()).argmax()]
            alone.append(float(np.abs(best - want).max()))
            used.append(float((solution.weights > 0).sum()) / (theta.numel() + 1))
    return {
        "off by": max(off),
        "structures by dimensions + 1, at most": max(used),
        "best structure off by": max(alone),
    }
