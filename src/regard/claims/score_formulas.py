"""C11–C13: concatenation is addition, what √d is for, and that the maximum is a linear program."""

import math
from functools import partial

import numpy as np
import torch
from scipy.optimize import linprog

from regard.claims.claim import Figures, at_least, at_most, between, claim, must_fail
from regard.claims.weights_not_unique import normal
from regard.maps import argmax, softmax
from regard.scores import Additive, Concat, Dot, ScaledDot

entry = partial(claim, group="Scores and maps", fixed="a82a066", exact=True)


@entry(
    "C11",
    says="A score from concatenated query and key is the additive score.",
    source="001:239; 004:259",
    experiment="vᵀtanh(W[q; k]) with W = [W₂ W₁], and vᵀtanh(W₁k + W₂q): largest difference.",
    control="The halves of W the other way round.",
    conditions=[at_most(1e-12, "difference"), must_fail(at_least(0.01, "difference, halves exchanged"))],
)
def concat_is_additive(seed: int) -> Figures:
    """Differences of the two scores."""
    additive, concat = Additive(4, 4, 5).double(), Concat(4, 4, 5).double()
    query, keys, found = normal(2, 6, 4), normal(2, 7, 4, seed=1), {}
    for name, halves in (
        ("difference", (additive.W2, additive.W1)),
        ("difference, halves exchanged", (additive.W1, additive.W2)),
    ):
        with torch.no_grad():
            concat.v.weight.copy_(additive.v.weight)
            concat.W.weight.copy_(torch.cat([half.weight for half in halves], 1))
            found[name] = float((concat(query, keys) - additive(query, keys)).abs().max())
    return found


@entry(
    "C12",
    says="Scaling by √d keeps softmax from saturating.",
    source="004:982-1000",
    experiment="q, k ~ N(0, I), 64 keys, d = 4, 64, 1,024: standard deviation of qᵀk, entropy and "
    "slope of softmax.",
    control="Without the scale.",
    conditions=[
        *between(0.98, 1.02, "standard deviation by √d, d = 1024"),
        at_most(0.1, "dot, entropy by log n, d = 1024"),
        *between(0.95, 1.05, "scaled, entropy by log n, d = 1024 / scaled, entropy by log n, d = 4"),
        must_fail(at_most(0.5, "dot, slope, d = 1024 / dot, slope, d = 4")),
        at_least(0.9, "scaled, slope, d = 1024 / scaled, slope, d = 4"),
    ],
)
def saturation(seed: int) -> Figures:
    """Entropy and Jacobian norm of softmax, by score and d."""
    n, found = 64, {}
    for d in (4, 64, 1024):
        query, keys = normal(400, 1, d), normal(400, n, d, seed=1)
        found[f"standard deviation by √d, d = {d}"] = Dot()(query, keys).std().item() / math.sqrt(d)
        for name, score in (("dot", Dot()), ("scaled", ScaledDot())):
            p = softmax(score(query, keys)).squeeze(1)  # (400, n)
            entropy = -torch.special.xlogy(p, p).sum(-1).mean().item()
            jacobian = torch.diag_embed(p) - p[:, :, None] * p[:, None]
            found[f"{name}, entropy by log n, d = {d}"] = entropy / math.log(n)
            found[f"{name}, slope, d = {d}"] = jacobian.norm(dim=(1, 2)).mean().item()
    return found


@entry(
    "C13",
    says="The maximum is max pᵀθ over the simplex.",
    source="004:466",
    experiment="20 rows of 6 scores: a linear program, argmax, and 1,000 points inside the simplex.",
    control="Points inside the simplex stay below.",
    conditions=[
        at_most(1e-12, "linear program off by"),
        at_most(0, "argmax off by"),
        must_fail(at_least(1e-6, "points inside are below by")),
    ],
)
def linear_program(seed: int) -> Figures:
    """How far three ways are from the maximum."""
    off, ours, below = [], [], []
    for theta in normal(20, 6):
        solved = linprog(-theta.numpy(), A_eq=np.ones((1, 6)), b_eq=[1], bounds=(0, None))
        off.append(abs(-solved.fun - theta.max().item()))
        ours.append(abs((argmax(theta) @ theta - theta.max()).item()))
        below.append((theta.max() - (softmax(normal(1000, 6, seed=1)) @ theta).max()).item())
    return {
        "linear program off by": max(off),
        "argmax off by": max(ours),
        "points inside are below by": min(below),
    }
