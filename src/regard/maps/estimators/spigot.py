"""SPIGOT: the step the loss asks for, cut off where it would leave the polytope.

    s = best(θ),      ∂L/∂θ := nearest(s) − nearest(s − η ∂L/∂s)

A gradient step from s, projected back (for one key of n: by sparsemax onto the simplex), so that the weights
it asks for could be reached. Nothing is drawn. It is biased, and not linear in ∂L/∂s: η sets where it is cut.
The paper has s for nearest(s), which it is, but for structures with a score of their own (the transitions of
a chain): there too a loss that asks for nothing must change nothing.

Peng, Thomson & Smith (2018), "Backpropagating through Structured Argmax using a SPIGOT", arXiv:1805.04658;
Mihaylova, Niculae & Martins (2020), arXiv:2010.02357 (one lecture has "Nicolae" and "2026").
"""

from collections.abc import Callable
from math import isfinite
from typing import Any

import torch
from torch import Generator, Tensor
from torch.autograd import Function

from regard.maps.estimators.estimator import Estimator, Vertices


class Spigot(Estimator):
    """The projected gradient step of size η = step, for any structure."""

    def __init__(self, step: float = 1.0) -> None:
        super().__init__()
        if not (step > 0 and isfinite(step)):
            raise ValueError(f"step must be above 0 and finite; got {step}.")
        self.step = step

    def draw(self, theta: Tensor, among: Vertices, generator: Generator | None) -> Tensor:
        """The best vertex for scores (..., n), with SPIGOT's gradient: (..., n)."""
        apply: Callable[..., Tensor] = _Projected.apply
        return apply(theta, among.best(theta).detach(), among.nearest, self.step)

    def extra_repr(self) -> str:
        return f"step={self.step}"


class _Projected(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(theta: Tensor, best: Tensor, nearest: Callable[[Tensor], Tensor], step: float) -> Tensor:
        return best.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        theta, best, ctx.nearest, ctx.step = inputs
        ctx.save_for_backward(theta == -torch.inf, best)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        hidden, best = ctx.saved_tensors
        here, wanted = (torch.where(hidden, -torch.inf, x) for x in (best, best - ctx.step * gradient))
        return ctx.nearest(here) - ctx.nearest(wanted), None, None, None
