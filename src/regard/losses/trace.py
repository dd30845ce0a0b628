"""The trace bonus: two directions that look at each other.

    bonus = tr(A Bᵀ) = Σᵢ Σⱼ Aᵢⱼ Bⱼᵢ          A (m, n) from target to source, B (n, m) from source to target

where B is read the other way round: both say how word i of the target and word j of the source belong
together. For rows that sum to at most 1 it is at least 0 and at most min(m, n), which one-to-one links reach.
(One lecture multiplies the two as they are stored, which fits only if both are stored the same way round.)

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
