"""Sinkhorn: rows and columns normalised in turn, so that queries share the keys out evenly.

    π(θ) = diag(e^f) exp(θ/γ) diag(e^g),      row sums 1,   column sums m/n

In turn fᵢ = −log Σⱼ exp(θᵢⱼ/γ + gⱼ) and gⱼ = log(m/n) − log Σᵢ exp(θᵢⱼ/γ + fᵢ), from g = 0, in log space.
After so many rounds as asked for (a fixed number: nothing is measured on the way) f comes once more, so that
the rows sum to 1 exactly and the columns to m/n as nearly as the rounds allow. The rounds needed grow as
scores are peaked or γ is small. In the limit the weights are the P of highest ⟨P, θ⟩/γ − Σ P log P with these
sums, and for m = n and γ → 0 the best matching. Derivatives are those of the rounds, exactly.

Rows and columns of nothing are left out of m and n. If no matrix with the visible cells has these sums (two
queries of three see one key alone), rows still sum to 1 and columns stay uneven, however many the rounds;
visible cells that are 0 in every such matrix fade slowly.

Sinkhorn & Knopp (1967), "Concerning Nonnegative Matrices and Doubly Stochastic Matrices"; Cuturi (2013),
"Sinkhorn Distances", arXiv:1306.0895; in networks Mena et al. (2018), "Learning Latent Permutations with
Gumbel-Sinkhorn Networks", arXiv:1802.08665.
"""

from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

from regard.core.shapes import check, check_float, widened
from regard.kernels.common.operator import is_plain
from regard.kernels.common.pool import load_kernels, over_rows
from regard.maps.softmax import tempered
from regard.maps.table import register


def _flaw(scores: Tensor) -> Tensor:
    """0, or NaN where a matrix of scores (..., m, n) has a NaN or +inf: (..., 1, 1)."""
    top = scores.detach().amax((-2, -1), keepdim=True)
    return torch.where(top == -torch.inf, 0, top - top)


def _log_sum(theta: Tensor, axis: int) -> Tensor:
    """log Σ exp over an axis, kept; 0 where all of it is −inf."""
    top = theta.detach().amax(axis, keepdim=True)
    top = torch.where(top == -torch.inf, 0, top)
    total = (theta - top).exp().sum(axis, keepdim=True)
    return torch.where(total > 0, top + torch.where(total > 0, total, 1).log(), 0)


def rounds(theta: Tensor, iterations: int) -> Tensor:
    """The definition, in differentiable torch: scores (..., m, n) to weights (..., m, n)."""
    visible = theta != -torch.inf
    rows, columns = (visible.any(axis).sum(-1)[..., None, None] for axis in (-1, -2))  # (..., 1, 1)
    target = (rows.clamp(min=1) / columns.clamp(min=1)).log().to(theta.dtype)
    f, g = -_log_sum(theta, -1), theta.new_zeros(())
    for _ in range(iterations):
        g = target - _log_sum(theta + f, -2)  # (..., 1, n)
        f = -_log_sum(theta + g, -1)  # (..., m, 1)
    return (theta + f + g).exp() + _flaw(theta)


def _run(kernel: str, shape: torch.Size, iterations: int, *tensors: Tensor) -> None:
    """Call a kernel on contiguous tensors, each of the matrices of shape (..., m, n) by itself."""
    matrices, work = prod(shape[:-2]), (iterations + 1) * prod(shape)
    arrays = [t.numpy().reshape(matrices, *t.shape[-2:]) for t in tensors]
    over_rows(
        getattr(load_kernels("regard.kernels.row_maps.sinkhorn_kernel"), kernel), matrices, work, *arrays
    )


class _Rounds(Function):
    """The same by the kernel, for plain tensors on the CPU: of a round only its potentials are kept."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, iterations: int) -> Tensor:
        scores = theta.detach().contiguous()
        weights = torch.empty_like(scores)
        *batch, m, n = theta.shape
        f = torch.empty(*batch, iterations + 1, m, dtype=torch.float64)
        g = torch.empty(*batch, iterations, n, dtype=torch.float64)
        _run("forward", theta.shape, iterations, scores, weights, f, g)
        ctx.save_for_backward(theta, weights, f, g)
        ctx.iterations = iterations
        return weights

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        theta, weights, f, g = ctx.saved_tensors
        if torch.is_grad_enabled() or not is_plain(gradient):  # a second derivative may follow
            with torch.enable_grad():
                again = rounds(theta, ctx.iterations)
                (answer,) = torch.autograd.grad(again, theta, gradient, create_graph=True)
            return answer, None
        answer = torch.empty_like(weights)
        scores, weights, given = (t.detach().contiguous() for t in (theta, weights, gradient))
        _run("backward", theta.shape, ctx.iterations, scores, weights, f, g, given, answer)
        return answer, None


@register(acts_on="matrix", ordered=False, guard=False)
def sinkhorn(scores: Tensor, temperature: float | Tensor = 1.0, iterations: int = 20) -> Tensor:
    """Map scores (..., m, n) to weights (..., m, n), rows summing to 1; γ is `temperature`."""
    check_float("scores", scores)
    check("scores", scores, "... m n")
    if not isinstance(iterations, int) or iterations < 0:
        raise ValueError(
            f"iterations must be a whole number, at least 0; got {iterations}. At 0 it is softmax."
        )
    if not scores.numel():
        return scores.clone()
    theta = tempered(widened(scores), temperature)
    by_kernel = is_plain(theta) and forward_ad._current_level < 0
    weights: Tensor = (_Rounds.apply if by_kernel else rounds)(theta, iterations)
    return weights.to(scores.dtype)
