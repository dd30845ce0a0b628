"""From weights to links.

    argmax      for each word that looks, where it looks most
    threshold   wherever a weight is above a threshold: none, one or several for each word
    mutual      where each of the two looks most at the other; with one direction, rows and columns of it
    matching    the one-to-one links of the largest total weight above the threshold

A word that looks nowhere (its weights are all 0) has no link.
"""

from collections.abc import Callable

import numpy as np

from regard.alignment.bitext import Floats
from regard.alignment.links import Link

Method = Callable[[Floats, float], set[Link]]


def argmax(weights: Floats, threshold: float = 0.0) -> set[Link]:
    """Links (column, row) of the largest weight in each row (m, n), if above the threshold."""
    if not weights.size:
        return set()
    best = weights.argmax(-1)
    return {(int(i), j) for j, i in enumerate(best) if weights[j, i] > threshold}


def above(weights: Floats, threshold: float = 0.5) -> set[Link]:
    """Links (column, row) of all weights (m, n) above the threshold."""
    return {(int(i), int(j)) for j, i in np.argwhere(weights > threshold)}


def mutual(weights: Floats, threshold: float = 0.0) -> set[Link]:
    """Links (column, row) of weights (m, n) that are the largest of their row and of their column."""
    return argmax(weights, threshold) & {(i, j) for j, i in argmax(weights.T, threshold)}


def matching(weights: Floats, threshold: float = 0.0) -> set[Link]:
    """One-to-one links (column, row) of the largest sum of weights (m, n), those above the threshold kept."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(weights, maximize=True)
    return {(int(i), int(j)) for j, i in zip(rows, columns, strict=True) if weights[j, i] > threshold}


METHODS: dict[str, Method] = {"argmax": argmax, "threshold": above, "mutual": mutual, "matching": matching}
