"""Two-way maps: scores read along their rows, along their columns, or both ways at once.

    by row      aᵢⱼ = exp θᵢⱼ / Σₖ exp θᵢₖ      a query divides its attention among the keys
    by column   bᵢⱼ = exp θᵢⱼ / Σₖ exp θₖⱼ      a key divides itself among the queries
    two-way     aᵢⱼ bᵢⱼ                         large only where query and key choose each other

Column and two-way softmax act on the whole matrix, and their rows do not sum to 1. A NaN or +inf anywhere in
a matrix makes all of it NaN.

Coattention uses both readings of one matrix. Xiong, Zhong & Socher (2017), "Dynamic Coattention Networks for
Question Answering", arXiv:1611.01604, have L = DᵀQ with document words d as its rows, and
C^Q = D A^Q needs an A^Q whose columns sum to 1: by column, not "row-wise" as a lecture says; A^D is by row,
transposed. With words as rows of D (..., m, d) and Q (..., n, d), and stacking along the features:

    by_row, by_column = coattention(D @ Q.mT)
    C_Q = by_column.mT @ D                             # (..., n, d)
    C_D = by_row @ torch.cat([Q, C_Q], -1)             # (..., m, 2d)

Attention over attention: Cui et al. (2017), "Attention-over-Attention Neural Networks for Reading
Comprehension", arXiv:1607.04423; there documents are rows, here they are the keys: columns. Two-way softmax:
the dual softmax of Sun et al. (2021), "LoFTR", arXiv:2104.00680, §3.3, after Rocco et al. (2018),
"Neighbourhood Consensus Networks", arXiv:1810.10510.
"""

import torch
from torch import Tensor

from regard.core.errors import DtypeError, ShapeError
from regard.core.shapes import check, check_float, widened
from regard.maps.softmax import softmax
from regard.maps.table import register


@register(acts_on="matrix", simplex=False, ordered=False)
def column_softmax(scores: Tensor) -> Tensor:
    """Map scores (..., m, n) to weights (..., m, n) whose columns sum to 1."""
    return softmax(scores.mT).mT


@register(acts_on="matrix", simplex=False, ordered=False)
def two_way_softmax(scores: Tensor) -> Tensor:
    """Map scores (..., m, n) to weights (..., m, n): row softmax times column softmax."""
    return softmax(scores) * softmax(scores.mT).mT


def coattention(scores: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Weights by row and by column, (..., m, n) each, of scores (..., m, n) under a boolean mask."""
    theta = _masked(_checked(scores), mask)
    return softmax(theta).to(scores.dtype), softmax(theta.mT).mT.to(scores.dtype)


def attention_over_attention(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Weights (..., n) of the keys: rows of scores (..., m, n), weighted by the keys' mean choice of rows.

    s = Σᵢ b̄ᵢ aᵢ with b̄ᵢ = meanⱼ bᵢⱼ over the keys that may be looked at; it sums to 1. Where nothing may be
    looked at it is 0.
    """
    theta = _masked(_checked(scores), mask)
    by_row, by_column = softmax(theta), softmax(theta.mT).mT
    keys = (theta != -torch.inf).any(-2).sum(-1, keepdim=True).clamp(min=1)  # (..., 1)
    row = by_column.sum(-1) / keys  # (..., m), b̄
    return (row.unsqueeze(-2) @ by_row).squeeze(-2).to(scores.dtype)


def _checked(scores: Tensor) -> Tensor:
    check_float("scores", scores)
    check("scores", scores, "... m n")
    return widened(scores)


def _masked(theta: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return theta
    if mask.dtype != torch.bool:
        raise DtypeError(f"mask must be boolean, True = may be looked at; got {mask.dtype}.")
    try:
        return torch.where(mask, theta, -torch.inf)
    except RuntimeError:
        raise ShapeError(
            f"mask must broadcast to scores {tuple(theta.shape)}; got {tuple(mask.shape)}."
        ) from None
