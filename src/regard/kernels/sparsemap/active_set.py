"""The active set method for SparseMAP: a few vertices, their weights, and a factor of their Gram matrix.

    min over p ∈ Δ of  ½‖Ap − θ‖² − bᵀp        columns of A: vertices a, with scores b of their own

`settle` moves the weights of the vertices at hand to their optimum and drops those whose weight falls to 0;
there all gains (θ − μ)ᵀa + b are equal. The MAP oracle at θ − μ then names the vertex of the highest gain,
which `admit` takes in. No vertex gains more: that is the optimum.

The vertices at hand are always affinely independent, so there are at most d + 1. One that depends on them,
a = Σ cᵢaᵢ with Σ cᵢ = 1, can only be better by its own score: moving weight from c to it leaves μ alone and
gains at a constant rate, until the first weight is 0 and that vertex leaves: a pivot of the simplex method.

G + 11ᵀ = LLᵀ, with G the Gram matrix, is positive definite for affinely independent vertices; L grows by a
row and shrinks by Givens rotations, and z = L⁻¹1 with it.

Niculae, Martins, Blondel & Cardie (2018), "SparseMAP: Differentiable Sparse Structured Inference",
arXiv:1802.04223; Nocedal & Wright, "Numerical Optimization", on active-set methods for convex QPs.
"""

from typing import Any, NamedTuple

import numpy as np

from regard.kernels.common.compiled import compiled
from regard.kernels.sparsemap.triangular import balanced, downwards, upwards

DEPENDENT = 1e-10  # squared distance to the span of the others, relative to the length, that counts as none
ROUNDING = 16 * 2.2e-16  # of gains, relative to the sizes of what they sum


class Active(NamedTuple):
    """Vertices at hand, the first `size` in the order of `slot`; the next slot holds the candidate."""

    slot: Any  # (cap,) where each vertex is stored
    where: Any  # (cap, width) by slot: the coordinates that are not 0
    value: Any  # (cap, width) by slot: what is there
    count: Any  # (cap,) by slot: how many
    extra: Any  # (cap,) by slot: b
    weight: Any  # (cap,) p
    factor: Any  # (cap, cap) L
    ones: Any  # (cap,) z = L⁻¹1
    gain: Any  # (cap,) scratch
    step: Any  # (cap,) scratch


@compiled
def empty(cap: int, width: int) -> Any:
    """Room for so many vertices of so many coordinates; values are 1 until others are given."""
    slot, value = np.empty(cap, np.int64), np.empty((cap, width))
    for s in range(cap):
        slot[s] = s
        for e in range(width):
            value[s, e] = 1
    return Active(
        slot,
        np.zeros((cap, width), np.uint32),
        value,
        np.zeros(cap, np.int64),
        np.zeros(cap),
        np.zeros(cap),
        np.zeros((cap, cap)),
        np.zeros(cap),
        np.zeros(cap),
        np.zeros(cap),
    )


@compiled
def roomy(active: Any, size: int) -> Any:
    """The same with room for a candidate: as it is, or copied to twice the room."""
    cap = len(active.slot)
    if size < cap:
        return active
    more = empty(2 * cap, active.where.shape[1])
    for s in range(cap):
        more.slot[s], more.count[s], more.extra[s] = active.slot[s], active.count[s], active.extra[s]
        more.weight[s], more.ones[s] = active.weight[s], active.ones[s]
        for e in range(active.count[s]):
            more.where[s, e], more.value[s, e] = active.where[s, e], active.value[s, e]
        for j in range(s + 1):
            more.factor[s, j] = active.factor[s, j]
    return more


@compiled
def gain_of(active: Any, s: int, residual: Any) -> tuple[float, float]:
    """(θ − μ)ᵀa + b of the vertex in slot s, and the size of the terms it sums."""
    where, value = active.where[s], active.value[s]
    total, size = active.extra[s], abs(active.extra[s])
    for e in range(active.count[s]):
        term = value[e] * residual[where[e]]
        total += term
        size += abs(term) + abs(value[e])
    return total, size


@compiled
def drop(active: Any, size: int, i: int) -> None:
    """Take the i-th of `size` vertices out; the caller has one less, and the candidate stays in its slot."""
    slot, weight, L, z = active.slot, active.weight, active.factor, active.ones
    freed, last = slot[i], min(size, len(slot) - 1)
    for j in range(i, last):
        slot[j] = slot[j + 1]
    slot[last] = freed
    for j in range(i, size - 1):
        weight[j] = weight[j + 1]
        for c in range(j + 2):
            L[j, c] = L[j + 1, c]
    for c in range(i, size - 1):
        a, b = L[c, c], L[c, c + 1]
        length = np.sqrt(a * a + b * b)
        a, b = a / length, b / length
        for r in range(c, size - 1):
            x, y = L[r, c], L[r, c + 1]
            L[r, c], L[r, c + 1] = a * x + b * y, a * y - b * x
        z[c], z[c + 1] = a * z[c] + b * z[c + 1], a * z[c + 1] - b * z[c]


@compiled
def settle(active: Any, size: int, theta: Any, mu: Any, residual: Any) -> tuple[int, float, float]:
    """Move the weights to their optimum: how many vertices are left, their common gain, and its rounding.

    Writes μ and θ − μ, which are (d,).
    """
    weight, gain, step = active.weight, active.gain, active.step
    full = 0
    while True:
        for j in range(len(mu)):
            mu[j] = 0
        for i in range(size):
            s = active.slot[i]
            for e in range(active.count[s]):
                mu[active.where[s, e]] += weight[i] * active.value[s, e]
        for j in range(len(mu)):
            residual[j] = theta[j] - mu[j]
        level, rounding = 0.0, 0.0
        for i in range(size):
            gain[i], around = gain_of(active, active.slot[i], residual)
            level += weight[i] * gain[i]
            rounding = max(rounding, ROUNDING * around)
        settled = True
        for i in range(size):
            off = gain[i] - level
            step[i] = off if abs(off) > rounding else 0.0  # a vertex that has just come in must not drown
            settled &= step[i] == 0
        if settled or full == 3:  # three full steps: it gets no better
            return size, level, rounding
        balanced(active.factor, active.ones, size, step)
        length, blocked = 1.0, -1
        for i in range(size):
            if weight[i] + length * step[i] < 0:
                length, blocked = weight[i] / -step[i], i
        for i in range(size):
            weight[i] = max(weight[i] + length * step[i], 0.0)
        if blocked >= 0:
            drop(active, size, blocked)
            size -= 1
        full = 0 if blocked >= 0 else full + 1
        if blocked < 0:
            for i in range(size - 1, -1, -1):
                if weight[i] == 0:
                    drop(active, size, i)
                    size -= 1


@compiled
def attach(active: Any, size: int, dense: Any) -> bool:
    """Grow the factor by the candidate's row, unless it depends on the others: then `step` is L⁻¹h."""
    slot, step = active.slot, active.step
    s = slot[size]
    norm = 1.0
    for e in range(active.count[s]):
        dense[active.where[s, e]] = active.value[s, e]
        norm += active.value[s, e] ** 2
    for i in range(size):
        other, product = slot[i], 1.0
        for e in range(active.count[other]):
            product += active.value[other, e] * dense[active.where[other, e]]
        step[i] = product
    for e in range(active.count[s]):
        dense[active.where[s, e]] = 0
    downwards(active.factor, size, step)
    pivot, along = norm, 1.0
    for i in range(size):
        pivot -= step[i] * step[i]
        along -= step[i] * active.ones[i]
    if pivot <= DEPENDENT * norm:
        return False
    root = np.sqrt(pivot)
    for i in range(size):
        active.factor[size, i] = step[i]
    active.factor[size, size] = root
    active.ones[size] = along / root
    return True


@compiled
def admit(active: Any, size: int, dense: Any, rounding: float) -> int:
    """Take the candidate in; how many there are then, 0 if it cannot add anything. `dense` is (d,) of 0."""
    slot, weight, step = active.slot, active.weight, active.step
    if attach(active, size, dense):
        weight[size] = 0
        return size + 1
    upwards(active.factor, size, step)  # now a = Σ stepᵢ aᵢ
    slope = active.extra[slot[size]]
    for i in range(size):
        slope -= step[i] * active.extra[slot[i]]
    if slope <= rounding:
        return 0
    length, leaving = np.inf, -1
    for i in range(size):
        if step[i] > 0 and weight[i] < length * step[i]:
            length, leaving = weight[i] / step[i], i
    for i in range(size):
        weight[i] = max(weight[i] - length * step[i], 0.0)
    drop(active, size, leaving)
    if not attach(active, size - 1, dense):
        return 0
    weight[size - 1] = length
    return size
