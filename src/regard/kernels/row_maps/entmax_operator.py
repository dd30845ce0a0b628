"""α-entmax as an operator of two tensors, scores and α, with exact derivatives of any order in both.

The gradient is by kernel where no second derivative can follow, elsewhere by the formulas below, in torch, in
terms of the weights p and of α. With β = α − 1, ℓ = log p, s = p^{2−α} on the support and p̃ = s/‖s‖₁,

    ∂p/∂θ = diag(s) − ssᵀ/‖s‖₁      ∂p/∂α = p̃ Σw − w,  w = p ℓ² φ(βℓ),  φ(z) = (e^{−z} − 1 + z)/z²

The second is (p − p̃)/β² − (pℓ − p̃ Σpℓ)/β without its differences of large numbers near α = 1. For α > 2,
where e^{−z} may be out of range, that original is used.

∂p/∂θ: Peters, Niculae & Martins (2019), arXiv:1905.05702; ∂p/∂α: Correia, Niculae & Martins (2019),
arXiv:1909.00015, Proposition 1.
"""

from collections.abc import Callable
from math import factorial, log
from typing import Any

import torch
from torch import Tensor

from regard.kernels.common.operator import make_operator
from regard.kernels.common.pool import over_rows
from regard.kernels.row_maps.entmax_reference import entmax_reference

TERMS = 14  # of the series of φ; with |z| ≤ ½ the rest is below 3e-18


def phi(z: Tensor) -> Tensor:
    """(e^{−z} − 1 + z)/z², elementwise; ½ at 0."""
    small = z.abs() <= 0.5
    x, far = torch.where(small, z, 0), torch.where(small, 1, z)
    series = torch.full_like(x, 1 / factorial(TERMS + 1))
    for k in range(TERMS - 2, -1, -1):
        series = 1 / factorial(k + 2) - x * series
    return torch.where(small, series, ((-far).exp() - 1 + far) / far**2)


def _parts(p: Tensor, beta: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Where p is 0, log p, s and p̃, all (..., n); 0 off the support."""
    off = p == 0
    log_p = torch.where(off, 1, p).log()
    most = log(torch.finfo(p.dtype).max) / 2  # s is finite, whatever α is
    s = torch.where(off, 0, ((1 - beta) * log_p).clamp(max=most).exp())
    total = s.sum(-1, keepdim=True)
    return off, log_p, s, s / torch.where(total == 0, 1, total)


def by_scores(p: Tensor, alpha: Tensor, g: Tensor) -> Tensor:
    """(∂p/∂θ) g at weights p (..., n) and alpha (..., 1), for g (..., n)."""
    if not p.numel():
        return torch.zeros_like(p)
    finite = alpha < torch.inf  # α = inf is a step function
    off, _, s, share = _parts(p, torch.where(finite, alpha - 1, 1).to(p.dtype))
    last = torch.where(off, torch.inf, p.detach()).argmin(-1, keepdim=True)  # (..., 1)
    # J1 = 0: measured from the key whose s may be huge, nothing huge is left to be taken from itself.
    sg = torch.where(off, 0, s * (g - g.gather(-1, last)))
    return torch.where(off | ~finite, 0, sg - share * sg.sum(-1, keepdim=True))


def by_alpha(p: Tensor, alpha: Tensor) -> Tensor:
    """∂p/∂α (..., n) at weights p (..., n) and alpha (..., 1)."""
    finite, le2 = alpha < torch.inf, alpha <= 2
    beta = torch.where(finite, alpha - 1, 1).to(p.dtype)
    off, log_p, _, share = _parts(p, beta)
    w = p * log_p**2 * phi(torch.where(le2, beta, 0) * log_p)
    near = share * w.sum(-1, keepdim=True) - w
    b = torch.where(le2, 1, beta)
    p_log = p * log_p
    far = (p - share) / b**2 - (p_log - share * p_log.sum(-1, keepdim=True)) / b
    return torch.where(off | ~finite, 0, torch.where(le2, near, far))


def _flat(alpha: Tensor) -> Any:
    return alpha.detach().contiguous().numpy().reshape(-1)


def forward_by_kernel(scores: Tensor, alpha: Tensor) -> Tensor:
    """Weights of scores (..., n) for alpha (..., 1) in float64."""
    from regard.kernels.row_maps import entmax_kernel as entmax

    scores = scores.detach().contiguous()
    weights = torch.empty_like(scores)
    if size := scores.numel():
        n = scores.shape[-1]
        arrays = scores.numpy().reshape(-1, n), _flat(alpha), weights.numpy().reshape(-1, n)
        over_rows(entmax.forward, size // n, size, *arrays)
    return weights


def backward_by_kernel(p: Tensor, alpha: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of scores (..., n) and alpha (..., 1)."""
    from regard.kernels.row_maps import entmax_kernel as entmax

    p, g = p.detach().contiguous(), g.detach().contiguous()
    to_scores, to_alpha = torch.empty_like(p), torch.zeros(alpha.shape, dtype=alpha.dtype)
    if size := p.numel():
        n = p.shape[-1]
        rows = [tensor.numpy().reshape(-1, n) for tensor in (p, g, to_scores)]
        over_rows(entmax.backward, size // n, size, *rows, _flat(alpha), _flat(to_alpha))
    return to_scores, to_alpha


def _gradient(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None]:
    p, alpha = ctx.saved_tensors
    to_scores = by_scores(p, alpha, gradient)
    if not ctx.needs_input_grad[1]:
        return to_scores, None
    inside = torch.where(p == 0, 0, gradient)  # whatever it is elsewhere
    return to_scores, (by_alpha(p, alpha) * inside).sum(-1, keepdim=True).to(alpha.dtype)


def _tangent(ctx: Any, scores: Tensor | None, alpha: Tensor | None) -> Tensor:
    p, a = ctx.saved_tensors
    answer = torch.zeros_like(p) if scores is None else by_scores(p, a, scores)  # J = Jᵀ
    return answer if alpha is None else answer + by_alpha(p, a) * alpha.to(p.dtype)


# Weights (..., n) of scores (..., n), float32 or float64, with one alpha (..., 1) per row.
entmax_operator: Callable[[Tensor, Tensor], Tensor] = make_operator(
    "entmax",
    "(Tensor scores, Tensor alpha) -> Tensor",
    forward_by_kernel,
    saved=lambda inputs, weights: (weights, inputs[1]),
    backward=_gradient,
    backward_by_kernel=backward_by_kernel,
    jvp=_tangent,
    reference=entmax_reference,
    flops=64,
)
