"""Oracle: a custom structure, given by a Python function that returns its best vertex.

    def knapsack(scores):            # (n,) or (m, n), a float64 tensor on the CPU
        ...
        return vertex                # the same shape; or (vertex, b) if the vertex has a score of its own

    regard.maps.SparseMap(regard.structures.Oracle(knapsack))

The function maximises scoresᵀa + b over its vertices a, and is called repeatedly, at scores minus the current
marginals. It must not use coordinates of score −inf. It is called once per instance and step, in a Python
loop.

Detectable mistakes raise an error that names the function: a wrong shape or NaN; a masked coordinate, or one
that is neither 0 nor 1 (unless `binary=False`); a vertex with a lower score than one returned before, at the
scores of this call or of the first; a point that is a mixture of vertices returned before. Not detectable: a
better vertex that the function never returns. The marginals are then optimal for the vertices that it did
return.

With `binary=False` the Jacobian is that of the vertices in use, which is exact unless scores are tied.
"""

from collections.abc import Callable
from itertools import count
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from regard.kernels.common.pool import load_kernels
from regard.kernels.sparsemap.sparsemap_batch import OWN, OWNERS, Solved, report
from regard.structures.built_in import BuiltIn

Answer = Tensor | tuple[Tensor, float]
_handles = count()


class Oracle(BuiltIn):
    """The structure of a function that finds the best vertex for scores (n,), or (m, n) for a matrix."""

    kind = OWN
    neighbours = True  # unknown, so assume it

    def __init__(
        self,
        function: Callable[[Tensor], Answer],
        acts_on: Literal["row", "matrix"] = "row",
        *,
        binary: bool = True,
    ):
        if not callable(function):
            raise TypeError(f"function must be callable; got {type(function).__name__}.")
        if acts_on not in ("row", "matrix"):
            raise ValueError(f'acts_on must be "row" or "matrix"; got {acts_on!r}.')
        self.function, self.acts_on, self.binary = function, acts_on, binary
        self._handle = -1

    @property
    def limit(self) -> int:
        """The handle by which the operators find this oracle."""
        if OWNERS.get(self._handle) is not self:  # new, or a copy
            self._handle = next(_handles)
            OWNERS[self._handle] = self
        return self._handle

    def solve_all(self, scores: Tensor, complete: bool) -> Solved:
        """SparseMAP of float64 scores (*batch, m, n), one instance at a time."""
        kernels = load_kernels("regard.kernels.sparsemap.sparsemap_jacobian")
        *batch, m, n = scores.shape
        theta = scores.detach().cpu().contiguous().numpy().reshape(int(np.prod(batch)), m * n)
        b = len(theta)
        marginals, gap, status = np.zeros((b, m * n)), np.zeros(b), np.zeros(b, np.int64)
        faces, used = kernels.nothing(b, m * n), np.zeros(2, np.int64)
        for r in range(b if n else 0):
            asked = _Asked(self, (n,) if self.acts_on == "row" else (m, n), theta[r])
            if asked.flawed:
                marginals[r] = gap[r] = np.nan
            elif asked.visible.any():
                active, face, gap[r], status[r], mu = asked.drive(complete and self.binary)
                marginals[r], faces.size[r] = mu, face
                faces = kernels.keep(faces, used, active, face)
        report(OWN, status, gap, tuple(batch))
        faces = kernels.trimmed(faces, used)
        shaped = torch.from_numpy(marginals).reshape(scores.shape)
        return Solved(OWN, shaped, torch.from_numpy(gap).reshape(batch), faces, self)

    def best_all(self, scores: Tensor) -> Tensor:
        """The function's answers to float64 scores (*batch, m, n)."""
        *batch, m, n = scores.shape
        theta = scores.detach().cpu().contiguous().numpy().reshape(int(np.prod(batch)), m * n)
        vertex = np.zeros_like(theta)
        for r in range(len(theta) if n else 0):
            asked = _Asked(self, (n,) if self.acts_on == "row" else (m, n), theta[r])
            if asked.flawed:
                vertex[r] = np.nan
            elif asked.visible.any():
                vertex[r] = asked(theta[r])[0]
        return torch.from_numpy(vertex).reshape(scores.shape)


class _Asked:
    """The oracle for one instance, and the vertices it has returned."""

    def __init__(self, oracle: Oracle, shape: tuple[int, ...], theta: Any):
        self.oracle, self.shape, self.theta = oracle, shape, theta
        self.name = getattr(oracle.function, "__name__", type(oracle.function).__name__)
        self.visible = theta > -np.inf
        self.flawed = bool(np.isnan(theta).any() or (theta == np.inf).any())

    def __call__(self, scores: Any) -> tuple[Any, float]:
        """The vertex (d,) for scores (d,) and its own score, checked by itself."""
        answer = self.oracle.function(torch.from_numpy(scores.reshape(self.shape).copy()))
        vertex, extra = answer if isinstance(answer, tuple) else (answer, 0.0)
        if not isinstance(vertex, Tensor) or tuple(vertex.shape) != self.shape:
            came = tuple(vertex.shape) if isinstance(vertex, Tensor) else type(vertex).__name__
            raise ValueError(f"oracle {self.name} must return a tensor of shape {self.shape}; got {came}.")
        a, extra = vertex.detach().cpu().double().numpy().reshape(-1), float(extra)
        if not (np.isfinite(a).all() and np.isfinite(extra)):
            raise ValueError(f"oracle {self.name} must return a finite vertex; got {a.tolist()}, {extra}.")
        if self.oracle.binary and not ((a == 0) | (a == 1)).all():
            raise ValueError(
                f"oracle {self.name} must return a vertex of 0s and 1s; got {a.tolist()}. "
                "For other vertices use Oracle(..., binary=False)."
            )
        if (a[~self.visible] != 0).any():
            raise ValueError(
                f"oracle {self.name} must not use masked coordinates (−inf); it used position "
                f"{int((a * ~self.visible).nonzero()[0][0])}, of scores {self.shape} laid out flat."
            )
        return a, extra

    def put(self, active: Any, place: int, scores: Any) -> tuple[Any, float]:
        """Call the oracle at scores (d,), and store the vertex in the slot of that place."""
        a, extra = self(scores)
        s, where = active.slot[place], a.nonzero()[0]
        active.count[s], active.extra[s] = len(where), extra
        active.where[s, : len(where)], active.value[s, : len(where)] = where, a[where]
        return a, extra

    def score(self, a: Any, extra: float, scores: Any) -> float:
        return float(a[self.visible] @ scores[self.visible]) + extra

    def drive(self, complete: bool) -> tuple[Any, int, float, int, Any]:
        """As `sparsemap_rows.drive`: the active set, vertices of the face, gap, how it ended, marginals."""
        steps, kernels = (
            load_kernels("regard.kernels.sparsemap.active_set"),
            load_kernels("regard.kernels.sparsemap.sparsemap_rows"),
        )
        theta = self.theta
        mu, residual, dense = np.zeros((3, len(theta)))
        active = steps.empty(kernels.FEW, len(theta))
        claim = self.score(*self.put(active, 0, theta), theta)
        steps.attach(active, 0, dense)
        active.weight[0] = 1
        size, end, gap, level, rounding = 1, kernels.UNFINISHED, 0.0, 0.0, 0.0
        least, stale = np.inf, 0
        for _ in range(kernels.rounds(len(theta))):
            size, level, rounding = steps.settle(active, size, theta, mu, residual)
            active = steps.roomy(active, size)
            a, extra = self.put(active, size, residual)
            gain = self.score(a, extra, residual)
            slack = 1e-9 + 1e3 * rounding
            if gain < level - slack or self.score(a, extra, theta) > claim + slack:
                raise ValueError(
                    f"oracle {self.name} must return the vertex of the highest score; "
                    "it has returned one before that scores higher."
                )
            if not self.oracle.binary:
                self.refuse_mixture(active, size, a)
            gap = max(gain - level, 0.0)
            stale = 0 if gap < least else stale + 1
            least = min(least, gap)
            done = gap <= rounding or kernels.stuck(gap, rounding, stale)
            grown = 0 if done else steps.admit(active, size, dense, rounding)
            if grown == 0:
                end = kernels.DONE
                break
            size = grown
        size = kernels.prune(active, size)
        active, face = (
            self.completed(active, size, mu, residual, level, rounding) if complete else (active, size)
        )
        return active, face, gap, end, mu

    def refuse_mixture(self, active: Any, size: int, a: Any) -> None:
        """Raise if a (d,) is a mixture of vertices in the active set."""
        vertices = np.zeros((len(a) + 1, size))
        for i, s in enumerate(active.slot[:size]):
            vertices[active.where[s, : active.count[s]], i] = active.value[s, : active.count[s]]
        vertices[-1] = 1
        target = np.append(a, 1)
        shares = np.linalg.lstsq(vertices, target)[0]
        near = np.abs(vertices @ shares - target).max() < 1e-9 * (1 + np.abs(target).max())
        if near and shares.min() > -1e-9 and shares.max() < 1 - 1e-6:
            raise ValueError(
                f"oracle {self.name} must return a vertex; got {a.tolist()}, a mixture of {size} it has "
                "returned before. At ties it must pick one of the best."
            )

    def completed(
        self, active: Any, face: int, mu: Any, residual: Any, level: float, rounding: float
    ) -> tuple[Any, int]:
        """The active set with the other vertices of its face, of weight 0, and their number."""
        steps, kernels = (
            load_kernels("regard.kernels.sparsemap.active_set"),
            load_kernels("regard.kernels.sparsemap.sparsemap_rows"),
        )
        direction, dense = np.zeros((2, len(mu)))
        looked, way = 0, 1.0
        while looked < 2:
            distance = kernels.tilt(active, face, mu, residual, face, direction)
            active = steps.roomy(active, face)
            self.put(active, face, residual + way * distance * direction)
            s = active.slot[face]
            found = kernels.within(active, s, mu, residual, level, rounding, dense)
            if found and steps.attach(active, face, dense):
                active.weight[face] = 0
                face, looked = face + 1, 0
            else:
                looked, way = looked + 1, -way
        return active, face
