"""C84: with more tokens than a head is wide, weights are not unique; C85: effective attention is another.

T = E W_V W_O is (n, d), of rank min(n, d_v): what moves a row of A inside the null space of [T, 1]ᵀ changes
neither the output nor the sum of the row. Brunner et al. (2020), arXiv:1908.04211, §3.
"""

from functools import partial

import torch
from torch import Tensor

from regard.claims.claim import Figures, at_least, at_most, between, claim, must_fail
from regard.explanations.effective_attention import effective
from regard.explanations.null_space import freedom, other_weights

D, D_V = 32, 16
entry = partial(claim, group="Classifiers and explanations", fixed="e1da394", exact=True)


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Normal numbers in double precision."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def transformed(n: int) -> Tensor:
    """T = E W_V W_O of n random words: (n, d), of rank min(n, d_v)."""
    return normal(n, D) @ normal(D, D_V, seed=1) @ normal(D_V, D, seed=2)


def random_weights(n: int) -> Tensor:
    """Weights (n, n) of random scores."""
    return normal(n, n, seed=3).softmax(-1)


@entry(
    "C84",
    says="With more tokens than a head is wide, weights are not unique.",
    source="004:1820",
    experiment="Random T = E W_V W_O, d_v = 16: dimensions of the null space at n = 8 to 64, and "
    "other weights with the same output.",
    control="n ≤ d_v + 1, where there are none.",
    conditions=[
        must_fail(at_most(0, "n = 8")),
        must_fail(at_most(0, "n = 17")),
        *between(7, 7, "n = 24"),
        *between(47, 47, "n = 64"),
        at_most(1e-10, "output changes by"),
        at_least(0.01, "weights change by"),
        at_least(0, "smallest weight"),
    ],
    remark="n − d_v − 1 dimensions.",
)
def freedoms(seed: int) -> Figures:
    """Dimensions by n; weights moved at n = 64."""
    found = {f"n = {n}": float(freedom(transformed(n))) for n in (8, 16, 17, 24, 64)}
    T, A = transformed(64), random_weights(64)
    B = other_weights(A, T, seed=seed)
    return found | {
        "output changes by": float((A @ T - B @ T).abs().max()),
        "weights change by": float((A - B).abs().sum(-1).mean()),
        "smallest weight": float(B.min()),
    }


@entry(
    "C85",
    says="Effective attention differs from the weights.",
    source="004:1820",
    experiment="A^⊥T = AT; correlation with A, n = 8 to 128.",
    control="n ≤ d_v, where it is A.",
    conditions=[
        at_most(1e-10, "A^⊥T differs from AT by"),
        must_fail(at_least(1 - 1e-9, "correlation, n = 16")),
        at_most(-1e-9, "correlation, n = 64 − correlation, n = 32"),
        at_most(0.5, "correlation, n = 128"),
    ],
)
def effectively(seed: int) -> Figures:
    """Correlations by n, and how far A^⊥T is from AT."""
    found, apart = {}, []
    for n in (8, 16, 32, 64, 128):
        T, A = transformed(n), random_weights(n)
        E = effective(A, T)
        apart.append(float((E @ T - A @ T).abs().max()))
        found[f"correlation, n = {n}"] = float(torch.corrcoef(torch.stack([A.flatten(), E.flatten()]))[0, 1])
    return found | {"A^⊥T differs from AT by": max(apart)}
