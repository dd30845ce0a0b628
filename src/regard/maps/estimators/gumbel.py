"""Gumbel-softmax: softmax in place of argmax, so that the draw itself can be differentiated.

    p = softmax((θ + g)/T),   gⱼ ~ Gumbel(0, 1)

As T → 0 the weights become one key drawn from softmax(θ), and the variance of the gradient grows without
bound; at T > 0 the gradient is exact, but of a relaxed problem. With hard=True the forward pass has
argmax(θ + g) and only backward is relaxed (straight-through Gumbel-softmax).

Jang, Gu & Poole (2017), arXiv:1611.01144; Maddison, Mnih & Teh (2017), arXiv:1611.00712.
"""

from math import isfinite

from torch import Generator, Tensor

from regard.maps.argmax import argmax
from regard.maps.estimators.estimator import Estimator, Vertices, exponential, through
from regard.maps.softmax import softmax


class GumbelSoftmax(Estimator):
    """A relaxed draw at a temperature above 0, which may be set anew as training goes on."""

    structured = False

    def __init__(self, temperature: float = 1.0, *, hard: bool = False) -> None:
        super().__init__()
        if not (temperature > 0 and isfinite(temperature)):
            raise ValueError(f"temperature must be above 0 and finite; got {temperature}.")
        self.temperature, self.hard = temperature, hard

    def draw(self, theta: Tensor, among: Vertices, generator: Generator | None) -> Tensor:
        """Relaxed weights (..., n) of a draw for scores (..., n); with hard=True its one key."""
        noisy = theta - exponential(theta, generator).log()
        soft = softmax(noisy, self.temperature)
        return through(argmax(noisy.detach()), soft) if self.hard else soft

    def extra_repr(self) -> str:
        return f"temperature={self.temperature}" + (", hard=True" if self.hard else "")
