"""The base class of structures with a compiled oracle."""

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import ShapeError
from regard.core.shapes import check, check_float
from regard.kernels.sparsemap.sparsemap_batch import Solved, solve
from regard.kernels.sparsemap.sparsemap_operator import best, kept, nearest
from regard.structures.structure import Solution, Structure


class BuiltIn(Structure):
    """A structure with a compiled oracle, selected by `kind`."""

    kind: ClassVar[int]

    @property
    def limit(self) -> int:
        """The one setting of its oracle, if it has any."""
        return 0

    def _scores(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Scores as float64 (*batch, m, n), m = 1 for a row, and empty transitions."""
        check_float("scores", scores)
        check("scores", scores, "... n" if self.acts_on == "row" else "... m n")
        theta = scores.double()
        theta = theta.unsqueeze(-2) if self.acts_on == "row" else theta
        return theta, theta.new_zeros(*theta.shape[:-2], 0, 0)

    def best(self, scores: Tensor) -> Tensor:
        """The vertex of the highest score, like scores (..., n) or (..., m, n)."""
        theta, nothing = self._scores(scores.detach() if isinstance(scores, Tensor) else scores)
        return best(theta, nothing, self.kind, self.limit).reshape(scores.shape).to(scores.dtype)

    def nearest(self, scores: Tensor) -> Tensor:
        """The marginals of SparseMAP, like scores (..., n) or (..., m, n); differentiable."""
        theta, nothing = self._scores(scores)
        return nearest(theta, nothing, self.kind, self.limit).reshape(scores.shape).to(scores.dtype)

    def solve(self, scores: Tensor) -> Solution:
        """The marginals, differentiable, the structures and weights whose mixture they are, and the gap."""
        theta, own = self._scores(scores)
        solved = solve(theta, own, self.kind, self.limit, theta.requires_grad or own.requires_grad)
        marginals = kept(theta, own, self.limit, solved)
        return solution(scores, marginals, solved, self.acts_on == "row")


def solution(scores: Tensor, marginals: Tensor, solved: Solved, row: bool) -> Solution:
    """A Solution from marginals (*batch, m, n) and the active sets, vertices sorted by weight."""
    faces, (*batch, m, n) = solved.faces, marginals.shape
    b, width = len(faces.size), faces.where.shape[1]
    instance = np.repeat(np.arange(b), faces.size)
    order = np.lexsort((-faces.weight, instance))
    order = order[faces.weight[order] > 0]
    instance = instance[order]
    number = np.bincount(instance, minlength=b)  # of vertices with weight
    rank = np.arange(len(order)) - np.repeat(np.cumsum(number) - number, number)
    k = int(number.max(initial=0))
    weights, structures = np.zeros((b, k)), np.zeros((b, k, m * n))
    weights[instance, rank] = faces.weight[order]
    there = np.arange(width) < faces.count[order, None]  # (vertices, width)
    v, _ = there.nonzero()
    structures[instance[v], rank[v], faces.where[order][there]] = faces.value[order][there]
    axes = (n,) if row else (m, n)
    return Solution(
        marginals.reshape(scores.shape).to(scores.dtype),
        torch.from_numpy(structures).reshape(*batch, k, *axes).to(scores),
        torch.from_numpy(weights).reshape(*batch, k).to(scores),
        solved.gap.to(scores),
    )


def check_square(name: str, scores: Tensor) -> None:
    """Require as many rows as columns."""
    if scores.dim() >= 2 and scores.shape[-1] != scores.shape[-2]:
        raise ShapeError(
            f"{name} must be (..., n, n), words by their heads, for a tree; got {tuple(scores.shape)}. "
            "A tree is over one sequence: use self-attention."
        )
