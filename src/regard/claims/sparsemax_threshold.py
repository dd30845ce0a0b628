"""C15: sparsemax is a threshold, found by sorting or by selection."""

import random
from functools import cmp_to_key

import numpy as np
from numpy.typing import NDArray

from regard.claims.claim import Figures, at_least, at_most, claim, must_fail
from regard.claims.toy_pairs import exponent
from regard.claims.weights_not_unique import normal
from regard.maps import sparsemax


def by_sorting(theta: list[float]) -> tuple[float, int]:
    """τ of sparsemax, and how many comparisons the sort made."""
    comparisons = 0

    def compare(a: float, b: float) -> int:
        nonlocal comparisons
        comparisons += 1
        return -1 if a > b else 1

    total, tau = 0.0, 0.0
    for k, value in enumerate(sorted(theta, key=cmp_to_key(compare)), 1):
        total += value
        if k * value > total - 1:
            tau = (total - 1) / k
    return tau, comparisons


def by_selection(theta: NDArray[np.float64]) -> tuple[float, int]:
    """τ of sparsemax by pivots, as in quickselect, and how many numbers were compared with one.

    Duchi et al. (2008), "Efficient Projections onto the ℓ₁-Ball", Figure 2.
    """
    draw, left, total, size, comparisons = random.Random(0), theta, 0.0, 0, 0
    while len(left):
        pivot = left[draw.randrange(len(left))]
        comparisons += len(left)
        above, below = left[left >= pivot], left[left < pivot]
        if total + above.sum() - (size + len(above)) * pivot < 1:  # the pivot is in the support
            total, size, left = total + float(above.sum()), size + len(above), below
        else:
            left = above[above > pivot]
    return (total - 1) / size, comparisons


@claim(
    "C15",
    group="Scores and maps",
    fixed="a82a066",
    exact=True,
    says="Sparsemax is a threshold, found by sorting in O(n log n) or by selection in O(n).",
    source="004:572-575",
    experiment="[θ − τ]₊ with both τ, n = 256 to 8,192; exponents of the number of comparisons, "
    "counted, not timed.",
    control="A sort makes more than linearly many.",
    conditions=[
        at_most(1e-9, "sorting off by"),
        at_most(1e-9, "selection off by"),
        at_most(1.15, "selection, exponent"),
        at_most(1.25, "sorting, exponent"),
        must_fail(at_least(1.05, "sorting, exponent")),
    ],
)
def thresholds(seed: int) -> Figures:
    """Differences from sparsemax, and exponents."""
    sizes, sorting, selecting = [2**k for k in range(8, 14)], [], []
    off: dict[str, list[float]] = {"sorting": [], "selection": []}
    for n in sizes:
        theta = normal(n, seed=n)
        tau, comparisons = by_sorting(theta.tolist())
        several = [by_selection(row.numpy()) for row in normal(20, n, seed=n)]
        sorting.append(float(comparisons))
        selecting.append(float(np.mean([count for _, count in several])))
        for name, found in (("sorting", tau), ("selection", by_selection(theta.numpy())[0])):
            off[name].append(float((sparsemax(theta) - (theta - found).clamp(min=0)).abs().max()))
    return {
        "sorting off by": max(off["sorting"]),
        "selection off by": max(off["selection"]),
        "sorting, exponent": exponent(sizes, sorting),
        "selection, exponent": exponent(sizes, selecting),
    }
