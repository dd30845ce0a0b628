"""What a role is: something that heads do, counted sentence by sentence, with a yardstick.

role = Positional()
for weights, text in …: role.see(weights, text)       weights (layers, heads, n, n)
role.found()       what each head scored, what it would have scored without looking, and over how many
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from regard.analyses.tokenized import TokenizedText
from regard.core.errors import ShapeError
from regard.core.shapes import check_float

REACH = 5  # the farthest neighbour that a fixed place is tried for


@dataclass(frozen=True, eq=False)
class Finding:
    """What the heads scored in one respect."""

    what: str  # "−1", "nsubj → its head"
    scores: Tensor  # (layers, heads), shares of `count`
    yardstick: float  # what chance, or always looking at the same neighbour, would score
    count: int  # places that looked


class Role(Protocol):
    """Something that heads do."""

    def see(self, weights: Tensor, text: TokenizedText) -> None:
        """Count one text, with weights (layers, heads, n, n)."""
        ...

    def found(self) -> list[Finding]:
        """What was counted, in every respect."""
        ...

    def plays(self, finding: Finding) -> Tensor:
        """Which heads have the role: (layers, heads), bool."""
        ...


def checked(weights: Tensor, n: int | None = None) -> Tensor:
    """Weights (layers, heads, n, n), once they are known to be that."""
    check_float("weights", weights)
    square = weights.dim() == 4 and weights.shape[-1] == weights.shape[-2] and weights.shape[-1] > 0
    if not square or n not in (None, weights.shape[-1]):
        wanted = "" if n is None else f" with n={n}, the tokens of the text"
        raise ShapeError(f"weights must be (layers, heads, n, n){wanted}; got {tuple(weights.shape)}.")
    if not bool(weights.isfinite().all()):
        raise ValueError("weights must be finite; got NaN or infinity.")
    return weights


def offsets(wanted: Tensor) -> Tensor:
    """Of the places with anything wanted in wanted (n, n), how many find it at each offset from −REACH on."""
    here, there = wanted.nonzero(as_tuple=True)
    near = (there - here).abs() <= REACH
    return torch.bincount((there - here)[near] + REACH, minlength=2 * REACH + 1).float()


def named(offset: int) -> str:
    """An offset as it is shown: −1, 0, +2."""
    return f"{offset:+d}".replace("-", "−") if offset else "0"
