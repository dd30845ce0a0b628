"""Straight-through: draw a key, and in backward act as if the weights had been the scores.

    s ~ softmax(θ),      ∂L/∂θ := ∂L/∂s

Biased and cheap. With `through`, the gradient goes through that map of the scores instead of the identity:
∂L/∂θ := J(θ)ᵀ ∂L/∂s. With draw=False the forward pass takes the best key and nothing is random.

Bengio, Léonard & Courville (2013), arXiv:1308.3432 (drawn, identity). Mihaylova, Niculae & Martins (2020),
arXiv:2010.02357, compare identity and softmax, without a draw.
"""

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from regard.maps.estimators.estimator import Estimator, Vertices, sampled, through


class StraightThrough(Estimator):
    """The gradient of the identity, or of another map of the scores, for any structure."""

    def __init__(self, through: Callable[[Tensor], Tensor] | None = None, *, draw: bool = True) -> None:
        super().__init__()
        if through is not None and not callable(through):
            raise TypeError(f"through must be a map or None; got {type(through).__name__}.")
        self.through, self.drawn = through, draw

    def draw(self, theta: Tensor, among: Vertices, generator: Generator | None) -> Tensor:
        """A vertex for scores (..., n), with the gradient of `through`: (..., n)."""
        hard = sampled(theta, among, generator) if self.drawn else among.best(theta).detach()
        soft = torch.where(theta == -torch.inf, 0, theta) if self.through is None else self.through(theta)
        return through(hard, soft)

    def extra_repr(self) -> str:
        through = "" if self.through is None else f"through={getattr(self.through, '__name__', self.through)}"
        return ", ".join(filter(None, (through, "" if self.drawn else "draw=False")))
