"""The trace bonus: the agreement of the attentions of two translation directions.

    bonus = tr(A Bᵀ) = Σᵢ Σⱼ Aᵢⱼ Bⱼᵢ          A (m, n) from target to source, B (n, m) from source to target

with B transposed: both then have target word i in rows and source word j in columns. If rows sum to at most
1, it is between 0 and min(m, n), which one-to-one links reach. (One lecture multiplies the two as they are
stored, which is right only if both are stored with the same orientation.)

Cohn et al. (2016), "Incorporating Structural Alignment Biases", arXiv:1601.01085, §4.4.
"""

from torch import Tensor

from regard.core.errors import ShapeError


def trace(ahead: Tensor, back: Tensor) -> Tensor:
    """The bonus (...) of weights ahead (..., m, n) and back (..., n, m)."""
    if ahead.shape[-2:] != back.shape[-2:][::-1]:
        raise ShapeError(
            "ahead must be (..., m, n) and back (..., n, m); "
            f"got {tuple(ahead.shape)} and {tuple(back.shape)}."
        )
    return (ahead * back.mT).sum((-2, -1))
