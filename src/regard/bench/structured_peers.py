"""What the structured maps are measured against, each giving what ours gives on the same scores.

torch-struct: Rush (2020), "Torch-Struct", arXiv:2002.00876. OSQP: Stellato et al. (2020), "OSQP: an operator
splitting solver for quadratic programs", arXiv:1711.08013. lp-sparsemap: Niculae & Martins (2020),
"LP-SparseMAP", arXiv:2001.04437. condat-tv: Condat's own C code (2013).
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

K, T, STRENGTH = 2, 1.0, 0.1  # the settings of ours that are measured: k, transitions and λ, as by default
TOLERANCE = 1e-6  # of the QP solver, absolute and relative


def softmax(scores: Tensor) -> Tensor:
    """torch's, along the last axis."""
    return torch.softmax(scores, -1)


def torch_struct_chain(scores: Tensor) -> Tensor:
    """The marginals (b, n) of a binary chain over scores (b, n), by torch-struct."""
    on = torch.stack([torch.zeros_like(scores), scores], -1)  # (b, n, 2)
    edges = on[:, 1:, :, None] + T * torch.eye(2, dtype=scores.dtype)  # (b, n − 1, 2, 2): [to, from]
    edges = torch.cat([edges[:, :1] + on[:, :1, None, :], edges[:, 1:]], 1)
    marginals = _linear_chain()(edges).marginals
    return torch.cat([marginals[:, :1].sum(-2), marginals.sum(-1)], 1)[..., 1]


@cache
def _linear_chain() -> Any:
    from torch_struct import LinearChainCRF

    return type("Quiet", (LinearChainCRF,), {"arg_constraints": {}})  # else torch warns of the package


def osqp_budget(n: int) -> Callable[[Tensor], Tensor]:
    """The budget as a QP in n variables: ½‖μ‖² − θᵀμ, 0 ≤ μ ≤ 1, Σ μ ≤ k."""
    from scipy import sparse

    A = sparse.vstack([sparse.eye(n), np.ones((1, n))], format="csc")
    low, high = np.append(np.zeros(n), -np.inf), np.append(np.ones(n), K)
    return _by_osqp(sparse.eye(n, format="csc"), A, low, high, lambda theta: -theta, n)


def osqp_chain(n: int) -> Callable[[Tensor], Tensor]:
    """The binary chain as a QP: μ, and for neighbours ν, the chance that both are chosen.

    ½‖μ‖² − θᵀμ − t Σᵢ (1 − μᵢ − μᵢ₊₁ + 2νᵢ) with 0 ≤ νᵢ ≤ μᵢ, νᵢ ≤ μᵢ₊₁, μᵢ + μᵢ₊₁ − νᵢ ≤ 1.
    """
    from scipy import sparse

    edges, each = n - 1, sparse.eye(n, format="csr")
    both, this, next = sparse.eye(edges), each[:-1], each[1:]
    A = sparse.bmat([[this, -both], [next, -both], [-this - next, both], [None, both]], format="csc")
    low = np.repeat([0.0, 0.0, -1.0, 0.0], edges)
    P = sparse.diags(np.repeat([1.0, 0.0], [n, edges]), format="csc")

    def linear(theta: Any) -> Any:
        pull = np.zeros(n)
        pull[:-1] += T
        pull[1:] += T
        return np.append(pull - theta, np.full(edges, -2 * T))

    return _by_osqp(P, A, low, np.full(len(low), np.inf), linear, n)


def _by_osqp(
    P: Any, A: Any, low: Any, high: Any, linear: Callable[[Any], Any], n: int
) -> Callable[[Tensor], Tensor]:
    """A solver that is set up, for scores (b, n): row by row, only the linear term changes."""
    import osqp

    solver = osqp.OSQP()
    settings = dict(eps_abs=TOLERANCE, eps_rel=TOLERANCE, max_iter=100_000, verbose=False)
    solver.setup(P=P, q=np.zeros(A.shape[1]), A=A, l=low, u=high, **settings)

    def solve(scores: Tensor) -> Tensor:
        weights = []
        for theta in scores.double().numpy():
            solver.update(q=linear(theta))
            weights.append(solver.solve(raise_error=True).x[:n])
        return torch.from_numpy(np.stack(weights))

    return solve


def lpsmap_budget(scores: Tensor) -> Tensor:
    """The budget by lp-sparsemap, one factor graph for each row of scores (b, n)."""
    from lpsmap import Budget, TorchFactorGraph

    weights = []
    for theta in scores:
        graph = TorchFactorGraph()
        chosen = graph.variable_from(theta)
        graph.add(Budget(chosen, K))
        graph.solve()
        weights.append(chosen.value)
    return torch.stack(weights)


def our_prox(rows: Any) -> Any:
    """The total variation prox of every row (rows, n), float64, by our kernel."""
    answer = np.empty_like(rows)
    _kernel()(rows, answer, STRENGTH)
    return answer


def condat_prox(rows: Any) -> Any:
    """The same by condat-tv."""
    from condat_tv import tv_denoise_matrix

    return tv_denoise_matrix(rows, STRENGTH)


@cache
def _kernel() -> Any:
    from regard.kernels.common.compiled import compiled
    from regard.kernels.row_maps.total_variation import bends, heights

    def prox(rows: Any, answer: Any, strength: float) -> None:
        n = rows.shape[1]
        height, corners = np.empty(n + 1), np.empty((4, n + 1))
        ends, side = np.empty((2, n + 1), np.int64)
        for r in range(len(rows)):
            count = bends(rows[r], n, strength, ends, side, corners)
            heights(rows[r], strength, count, ends, side, height)
            begin = 0
            for s in range(count):
                answer[r, begin : ends[s]] = height[s]
                begin = ends[s]

    return compiled(prox)
