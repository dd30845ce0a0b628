"""α-entmax: from softmax (α = 1) by way of sparsemax (α = 2) towards argmax, by one number.

    π(θ) = argmax_{p ∈ Δⁿ} pᵀθ + H_α(p) = [(α − 1)θ − τ1]₊^{1/(α−1)}      with τ such that Σⱼ pⱼ = 1

where H_α is the Tsallis entropy (`regard.maps.entropies`). For α > 1 weights can be exactly 0; the larger α,
the more of them are. The Jacobian is diag(s) − ssᵀ/‖s‖₁ with s = p^{2−α} on the support: for α > 2 weights
have infinite slope where a key enters it. α can be learned: ∂p/∂α exists for all α ≥ 1, and is
½(p Σpℓ² − pℓ²) with ℓ = log p at α = 1.

Peters, Niculae & Martins (2019), "Sparse Sequence-to-Sequence Models", arXiv:1905.05702.
Correia, Niculae & Martins (2019), "Adaptively Sparse Transformers", arXiv:1909.00015: learned α.
"""

from collections.abc import Callable
from typing import Never

import torch
from torch import Tensor, nn

from regard.core.errors import DeviceError, ShapeError
from regard.core.shapes import check, check_float, widened
from regard.kernels.common.operator import is_plain
from regard.kernels.row_maps.entmax_operator import entmax_operator
from regard.maps.table import MAPS, check_call, register


def _entmax(scores: Tensor, alpha: float | Tensor) -> Tensor:
    wide = widened(scores)
    rows = (*scores.shape[:-1], 1)
    kind = torch.float64 if scores.is_cpu else wide.dtype  # not every device has float64
    if isinstance(alpha, Tensor):
        alpha = alpha.to(kind).expand(rows)
    else:
        alpha = torch.full(rows, alpha, dtype=kind, device=scores.device)
    weights = entmax_operator(wide, alpha)
    return weights if wide is scores else weights.to(scores.dtype)


def check_alpha(alpha: float | Tensor, name: str, rows: Tensor) -> None:
    """Require α ≥ 1: a number, or a tensor that broadcasts to one number per row of the tensor so named."""
    if isinstance(alpha, Tensor):
        check_float("alpha", alpha)
        if alpha.device != rows.device:
            raise DeviceError(
                f"alpha must be on {rows.device} as {name} is; got {alpha.device}. "
                f"Use alpha.to({name}.device)."
            )
        wanted = (*rows.shape[:-1], 1)
        if alpha.dim() > len(wanted) or any(
            a not in (1, w) for a, w in zip(reversed(alpha.shape), reversed(wanted), strict=False)
        ):
            raise ShapeError(
                f"alpha must broadcast to one number per row, {wanted}; got {tuple(alpha.shape)}. "
                "Use alpha.unsqueeze(-1) for one per row, alpha.view(-1, 1, 1) for one per head."
            )
        if not is_plain(alpha) or bool((alpha >= 1).all()):  # where no one can look, α < 1 makes rows of NaN
            return
        alpha = alpha[~(alpha >= 1)].flatten()[0].item()
    if not alpha >= 1:
        raise ValueError(
            f"alpha must be at least 1; got {alpha}. Use 1 for softmax, 1.5 or 2 for sparse weights."
        )


@register(sparse=True, guard=False)
def entmax(scores: Tensor, alpha: float | Tensor = 1.5, **other: Never) -> Tensor:
    """Map scores (..., n) to weights (..., n). A score of −inf gets weight 0.

    `alpha` is a number of at least 1, or a tensor that broadcasts to one number per row, (..., 1), and may be
    learned: 0-d, (m, 1), or (heads, 1, 1) for scores (..., heads, m, n). With α = inf the keys of highest
    score share the weight, and no gradient flows.
    """
    check_call("entmax", scores, other)
    check("scores", scores, "... n")
    check_alpha(alpha, "scores", scores)
    if isinstance(alpha, Tensor) or alpha not in (1, 1.5, 2):
        return _entmax(scores, alpha)
    if alpha == 1:
        from regard.maps.softmax import softmax

        return softmax(scores)
    if alpha == 1.5:
        from regard.maps.entmax15 import entmax15

        return entmax15(scores)
    from regard.maps.sparsemax import sparsemax

    return sparsemax(scores)


def _spells(alpha: float | Tensor = 1.5, **other: Never) -> tuple[Callable[..., Tensor], float] | None:
    """The map of MAPS that this α makes of entmax."""
    name = (
        None
        if other or isinstance(alpha, Tensor)
        else {1: "softmax", 1.5: "entmax15", 2: "sparsemax"}.get(alpha)
    )
    return None if name is None else (MAPS[name].function, 1.0)


entmax.spells = _spells  # type: ignore[attr-defined]


class Entmax(nn.Module):
    """α-entmax with an α that is kept: fixed, or learned as α = 1 + σ(a), one for each head."""

    facts = MAPS["entmax"]

    def __init__(self, alpha: float = 1.5, *, learn_alpha: bool = False, heads: int = 1) -> None:
        super().__init__()
        if heads < 1:
            raise ValueError(f"heads must be at least 1; got {heads}.")
        check_alpha(alpha, "scores", torch.empty(0))
        self.heads, self.learn_alpha = heads, learn_alpha
        if learn_alpha:
            if not 1 < alpha < 2:
                raise ValueError(
                    f"alpha = 1 + σ(a) starts between 1 and 2; got {alpha}. Use 1.5, or learn_alpha=False."
                )
            self.a = nn.Parameter(torch.full((heads,), alpha - 1).logit())
        else:
            self.fixed = float(alpha)

    @property
    def alpha(self) -> float | Tensor:
        """α: a number if fixed, (heads,) if learned."""
        return 1 + self.a.sigmoid() if self.learn_alpha else self.fixed

    def spells(self) -> tuple[Callable[..., Tensor], float] | None:
        """softmax, 1.5-entmax or sparsemax, where α is fixed at 1, 1.5 or 2."""
        return None if self.learn_alpha else _spells(self.fixed)

    def forward(self, scores: Tensor) -> Tensor:
        """Map scores (..., heads, m, n), or (..., n) if heads is 1, to weights of the same shape."""
        alpha = self.alpha
        if not isinstance(alpha, Tensor):
            return entmax(scores, alpha)
        check_float("scores", scores)
        if self.heads == 1:
            check("scores", scores, "... n")
            return _entmax(scores, alpha)
        check("scores", scores, "... heads m n", heads=self.heads)
        return _entmax(scores, alpha.view(-1, 1, 1))

    def extra_repr(self) -> str:
        if self.learn_alpha:
            return f"learn_alpha=True, heads={self.heads}"
        return f"alpha={self.fixed}"
