"""A role of attention heads: a score for every head, accumulated text by text, with a baseline.

role = Positional()
for weights, text in …: role.see(weights, text)       weights (layers, heads, n, n)
role.found()       the scores of all heads, the score of a baseline, and the number of cases
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from regard.analyses.tokenized import TokenizedText
from regard.core.errors import ShapeError
from regard.core.shapes import check_float

REACH = 5  # the largest offset of a fixed neighbour


@dataclass(frozen=True, eq=False)
class RoleScores:
    """The scores of all heads for one behaviour of a role, such as one offset or one relation."""

    what: str  # "−1", "nsubj ↑"
    scores: Tensor  # (layers, heads), shares of `count`
    baseline: float  # the score of chance, or of always attending to the same neighbour
    count: int  # queries counted


class Role(Protocol):
    """Something that heads may do."""

    def see(self, weights: Tensor, text: TokenizedText) -> None:
        """Count one text, with weights (layers, heads, n, n)."""
        ...

    def found(self) -> list[RoleScores]:
        """The scores so far, one entry for each behaviour."""
        ...

    def plays(self, finding: RoleScores) -> Tensor:
        """Which heads have the role: (layers, heads), bool."""
        ...


def checked(weights: Tensor, n: int | None = None) -> Tensor:
    """The weights, after checking that they are (layers, heads, n, n) and finite."""
    check_float("weights", weights)
    square = weights.dim() == 4 and weights.shape[-1] == weights.shape[-2] and weights.shape[-1] > 0
    if not square or n not in (None, weights.shape[-1]):
        wanted = "" if n is None else f" with n={n}, the tokens of the text"
        raise ShapeError(f"weights must be (layers, heads, n, n){wanted}; got {tuple(weights.shape)}.")
    if not bool(weights.isfinite().all()):
        raise ValueError("weights must be finite; got NaN or infinity.")
    return weights


def offsets(wanted: Tensor) -> Tensor:
    """For each offset from −REACH to REACH, how many of the pairs wanted (n, n) have it."""
    here, there = wanted.nonzero(as_tuple=True)
    near = (there - here).abs() <= REACH
    return torch.bincount((there - here)[near] + REACH, minlength=2 * REACH + 1).float()


def named(offset: int) -> str:
    """An offset as it is printed: −1, 0, +2."""
    return f"{offset:+d}".replace("-", "−") if offset else "0"
