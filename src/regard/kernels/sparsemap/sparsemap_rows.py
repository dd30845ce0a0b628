"""SparseMAP instance by instance: the active set driven by the oracle of a built-in structure.

The vertices in use may span less than the face of the polytope that μ is in: where scores are equal, or where
the last weights are too small for float64. The Jacobian would be wrong. So for gradients the face is
completed by vertices of weight 0, found by tilting θ − μ a little in directions orthogonal to those at hand,
until neither way leads anywhere new.
"""

from typing import Any

import numpy as np

from regard.kernels.common.compiled import compiled, pasted
from regard.kernels.common.row_loops import largest
from regard.kernels.sparsemap.active_set import admit, attach, drop, empty, gain_of, roomy, settle
from regard.kernels.sparsemap.oracles import centre, find, most, prepare
from regard.kernels.sparsemap.oracles import room as make_room
from regard.kernels.sparsemap.sparsemap_jacobian import keep, nothing
from regard.kernels.sparsemap.triangular import balanced

DONE, INFEASIBLE, UNFINISHED, NOTHING = range(4)
TINY = 1e-13  # a weight that is rounding
TILT = 1e-7
FEW = 32


@pasted
def rounds(d: int) -> int:
    """So often the oracle is asked before we give up: many times what is seen in practice."""
    return 50 * d + 1000


@pasted
def stuck(gap: float, rounding: float, stale: int) -> bool:
    """Whether a gap that has not fallen for so many rounds is rounding after all."""
    return stale > 100 and gap < 1e4 * rounding


@pasted
def prune(active: Any, size: int) -> int:
    """Drop the vertices whose weight is rounding; how many are left."""
    for i in range(size - 1, -1, -1):
        if size > 1 and active.weight[i] <= TINY:
            drop(active, size, i)
            size -= 1
    return size


@pasted
def tilt(active: Any, size: int, mu: Any, residual: Any, seed: int, direction: Any) -> float:
    """Write a direction (d,) orthogonal to all differences of the vertices; how far to go along it."""
    state, scale = np.uint64(seed * 2 + 1), 1.0
    for j in range(len(mu)):
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        direction[j] = (np.float64(state >> np.uint64(11)) / 2.0**53 - 0.5) if mu[j] != 0 else 0.0
        if mu[j] != 0:
            scale = max(scale, abs(residual[j]))
    for i in range(size):
        active.step[i] = gain_of(active, active.slot[i], direction)[0] - active.extra[active.slot[i]]
    balanced(active.factor, active.ones, size, active.step)
    for i in range(size):
        s = active.slot[i]
        for e in range(active.count[s]):
            direction[active.where[s, e]] -= active.step[i] * active.value[s, e]
    return TILT * scale


@pasted
def within(active: Any, s: int, mu: Any, residual: Any, level: float, rounding: float, dense: Any) -> bool:
    """Whether the vertex in slot s gains as much as those at hand, and is 0 and 1 wherever μ is."""
    gain, around = gain_of(active, s, residual)
    if level - gain > 64 * max(rounding, 1e-15 * around):
        return False
    same = True
    for e in range(active.count[s]):
        dense[active.where[s, e]] = active.value[s, e]
    for j in range(len(mu)):
        same &= not (mu[j] <= TINY and dense[j] != 0) and not (mu[j] >= 1 - TINY and dense[j] != 1)
    for e in range(active.count[s]):
        dense[active.where[s, e]] = 0
    return same


@pasted
def drive(
    kind: int, limit: int, theta: Any, m: int, n: int, transitions: Any, active: Any, room: Any, arrays: Any,
    complete: bool,
) -> tuple[Any, int, int, float, int]:  # fmt: skip
    """Solve one instance: the active set, vertices in use, vertices of the face, gap, and how it ended."""
    mu, residual, direction, dense = arrays[0], arrays[1], arrays[2], arrays[3]  # (d,) each
    for j in range(len(dense)):
        dense[j] = 0
    active.count[active.slot[0]], active.extra[active.slot[0]] = find(
        kind, limit, theta, m, n, transitions, room, active.where[active.slot[0]]
    )
    if active.count[active.slot[0]] < 0:
        return active, 0, 0, 0.0, INFEASIBLE
    attach(active, 0, dense)
    active.weight[0] = 1
    size, gap, end, level, rounding = 1, 0.0, UNFINISHED, 0.0, 0.0
    least, stale = np.inf, 0
    for _ in range(rounds(len(theta))):
        size, level, rounding = settle(active, size, theta, mu, residual)
        active = roomy(active, size)
        s = active.slot[size]
        active.count[s], active.extra[s] = find(
            kind, limit, residual, m, n, transitions, room, active.where[s]
        )
        gain, around = gain_of(active, s, residual)
        gap = max(gain - level, 0.0)
        stale = 0 if gap < least else stale + 1
        least = min(least, gap)
        grown = 0 if gap <= rounding or stuck(gap, rounding, stale) else admit(active, size, dense, rounding)
        if grown == 0:
            end = DONE
            break
        size = grown
    size = prune(active, size)
    face, looked, way = size, 0, 1.0
    while complete and looked < 2:
        distance = tilt(active, face, mu, residual, face, direction)
        for j in range(len(mu)):
            direction[j] = residual[j] + way * distance * direction[j] if mu[j] > TINY else -np.inf
        active = roomy(active, face)
        s = active.slot[face]
        active.count[s], active.extra[s] = find(
            kind, limit, direction, m, n, transitions, room, active.where[s]
        )
        found = active.count[s] >= 0 and within(active, s, mu, residual, level, rounding, dense)
        if found and attach(active, face, dense):
            active.weight[face] = 0
            face, looked = face + 1, 0
        else:
            looked, way = looked + 1, -way
    return active, size, face, gap, end


@compiled
def best(
    start: int, stop: int, kind: int, limit: int, shape: Any, scores: Any, transitions: Any, vertex: Any,
    status: Any,
) -> None:  # fmt: skip
    """The best vertex (b, mn) of scores (b, mn) from start to stop, and how it ended (b,)."""
    m, n = shape
    room, where = make_room(kind, m, n), np.zeros(max(most(kind, limit, m, n), 1), np.uint32)
    for r in range(start, stop):
        top = largest(scores[r])
        status[r] = NOTHING
        for j in range(m * n):
            vertex[r, j] = 0.0 if top < np.inf else np.nan
        if -np.inf < top < np.inf and prepare(kind, scores[r], m, n, room):
            count, _ = find(kind, limit, scores[r], m, n, transitions[r], room, where)
            status[r] = DONE if count >= 0 else INFEASIBLE
            for e in range(count):
                vertex[r, where[e]] = 1


@compiled
def solve(
    start: int, stop: int, kind: int, limit: int, shape: Any, scores: Any, transitions: Any, marginals: Any,
    gap: Any, status: Any, complete: bool,
) -> Any:  # fmt: skip
    """Marginals (b, mn), gap (b,) and how it ended (b,) of scores (b, mn) from start to stop.

    `shape` is (m, n), transitions (b, s, s). Returns the faces, and how much of them is used; `complete` says
    whether they are meant for gradients.
    """
    m, n = shape
    width = most(kind, limit, m, n)
    active, room, arrays = empty(FEW, max(width, 1)), make_room(kind, m, n), np.zeros((5, m * n))
    faces, used = nothing(stop - start, width), np.zeros(2, np.int64)
    for r in range(start, stop):
        theta = scores[r]
        top = largest(theta)
        gap[r], status[r] = 0.0 if top < np.inf else np.nan, NOTHING
        for j in range(m * n):
            marginals[r, j] = gap[r]
        if -np.inf < top < np.inf and prepare(kind, theta, m, n, room):
            centre(kind, theta, m, n, room, arrays[4])
            active, inside, face, gap[r], status[r] = drive(
                kind, limit, arrays[4], m, n, transitions[r], active, room, arrays, complete
            )
            if status[r] != INFEASIBLE:
                for i in range(inside):
                    s = active.slot[i]
                    for e in range(active.count[s]):
                        marginals[r, active.where[s, e]] += active.weight[i] * active.value[s, e]
                faces.size[r - start] = face
                faces = keep(faces, used, active, face)
    return faces, used
