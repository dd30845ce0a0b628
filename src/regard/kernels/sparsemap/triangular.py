"""Systems with a triangular factor L, and the KKT system of the active set by it."""

from typing import Any

from regard.kernels.common.compiled import compiled


@compiled
def downwards(factor: Any, size: int, x: Any) -> None:
    """x ← L⁻¹x."""
    first = 0
    while first < size and x[first] == 0:  # a new vertex alone is off its level
        first += 1
    for i in range(first, size):
        row, known, total = factor[i, first:i], x[first:i], x[i]
        for j in range(len(row)):
            total -= row[j] * known[j]
        x[i] = total / factor[i, i]


@compiled
def upwards(factor: Any, size: int, x: Any) -> None:
    """x ← L⁻ᵀx."""
    for i in range(size - 1, -1, -1):
        row = factor[i]
        x[i] /= row[i]
        top = x[i]
        for j in range(i):
            x[j] -= row[j] * top


@compiled
def balanced(factor: Any, ones: Any, size: int, x: Any) -> None:
    """x ← (H⁻¹ − H⁻¹11ᵀH⁻¹/1ᵀH⁻¹1) x, H = LLᵀ: the change of weights that gains x ask for; it sums to 0."""
    downwards(factor, size, x)
    along, length = 0.0, 0.0
    for i in range(size):
        along += ones[i] * x[i]
        length += ones[i] * ones[i]
    for i in range(size):
        x[i] -= along / length * ones[i]
    upwards(factor, size, x)
