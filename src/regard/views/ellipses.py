"""Ellipses: a density over a picture as its contours.

    {t : (t − μ)ᵀC⁻¹(t − μ) = r²} = {μ + r L u : ‖u‖ = 1},     C = LLᵀ

with mean μ and covariance C in shares of the picture, (row, column) from 0 to 1; r counts deviations.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.core.errors import ShapeError
from regard.views.weight_matrices import Array

POINTS = 73  # of a contour; the last is the first


@dataclass(frozen=True, eq=False)
class Ellipse:
    """Contours of a density of mean (2,) and covariance (2, 2), `radii` deviations from the mean."""

    mean: Any
    covariance: Any
    radii: tuple[float, ...] = (1.0, 2.0)

    def __post_init__(self) -> None:
        mean, covariance = (np.asarray(one, dtype=np.float64) for one in (self.mean, self.covariance))
        if mean.shape != (2,) or covariance.shape != (2, 2):
            raise ShapeError(
                f"an ellipse has a mean (2,) and a covariance (2, 2); got {mean.shape}, {covariance.shape}."
            )
        values = np.linalg.eigvalsh(covariance) if np.isfinite(covariance).all() else np.array([-1.0])
        if not (np.isfinite(mean).all() and values.min() > 0):
            raise ValueError("the covariance of an ellipse must be positive definite, and all of it finite.")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "covariance", covariance)

    @property
    def axes(self) -> Array:
        """L (2, 2), lower triangular."""
        found: Array = np.linalg.cholesky(self.covariance)
        return found

    def contour(self, radius: float) -> Array:
        """Points (k, 2), (row, column), at so many deviations."""
        angle = np.linspace(0, 2 * np.pi, POINTS)
        found: Array = self.mean + radius * np.stack([np.cos(angle), np.sin(angle)], -1) @ self.axes.T
        return found

    def content(self) -> dict[str, Any]:
        """What the browser draws."""
        return {"mean": self.mean.tolist(), "axes": self.axes.tolist(), "radii": list(self.radii)}
