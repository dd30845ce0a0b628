"""The Jacobian of SparseMAP, for many instances at once.

The face of an instance are the vertices in whose affine hull μ moves when θ does. The Jacobian is the
orthogonal projector onto their differences,

    J = A K Aᵀ,    K = H⁻¹ − H⁻¹11ᵀH⁻¹/1ᵀH⁻¹1,    H = LLᵀ = AᵀA + 11ᵀ,

and K alone is dp/db: with N the counts of transitions in each path, A K Nᵀ is the Jacobian for transitions.
"""

from typing import Any, NamedTuple

import numpy as np

from regard.kernels.common.compiled import compiled
from regard.kernels.sparsemap.oracles import CHAIN
from regard.kernels.sparsemap.triangular import balanced


class Faces(NamedTuple):
    """The faces of many instances, one after the other."""

    size: Any  # (instances,) vertices of each
    where: Any  # (vertices, width) coordinates that are not 0
    value: Any  # (vertices, width)
    count: Any  # (vertices,) how many of them
    weight: Any  # (vertices,) p
    ones: Any  # (vertices,) z
    factor: Any  # the rows of every L, lower halves only


@compiled
def nothing(instances: int, width: int) -> Any:
    """Faces without vertices."""
    width = max(width, 1)
    return Faces(
        np.zeros(instances, np.int64), np.zeros((0, width), np.uint32), np.zeros((0, width)),
        np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0),
    )  # fmt: skip


@compiled
def keep(faces: Any, used: Any, active: Any, face: int) -> Any:
    """Append a face; `used` is (2,): vertices and numbers of factors so far."""
    vertices, numbers = used[0], used[1]
    if vertices + face > len(faces.count) or numbers + face * (face + 1) // 2 > len(faces.factor):
        more = max(2 * len(faces.count), vertices + face)
        many = max(2 * len(faces.factor), numbers + face * (face + 1) // 2)
        old = faces
        faces = Faces(
            old.size,
            np.zeros((more, old.where.shape[1]), np.uint32),
            np.zeros((more, old.where.shape[1])),
            np.zeros(more, np.int64),
            np.zeros(more),
            np.zeros(more),
            np.zeros(many),
        )
        for v in range(vertices):
            faces.count[v], faces.weight[v], faces.ones[v] = old.count[v], old.weight[v], old.ones[v]
            for e in range(old.count[v]):
                faces.where[v, e], faces.value[v, e] = old.where[v, e], old.value[v, e]
        for f in range(numbers):
            faces.factor[f] = old.factor[f]
    for i in range(face):
        s = active.slot[i]
        for e in range(active.count[s]):
            faces.where[vertices, e], faces.value[vertices, e] = active.where[s, e], active.value[s, e]
        faces.count[vertices] = active.count[s]
        faces.weight[vertices], faces.ones[vertices] = active.weight[i], active.ones[i]
        for j in range(i + 1):
            faces.factor[numbers + j] = active.factor[i, j]
        vertices, numbers = vertices + 1, numbers + i + 1
    used[0], used[1] = vertices, numbers
    return faces


def trimmed(faces: Any, used: Any) -> Any:
    """The part of the arrays that is used: not compiled."""
    vertices, numbers = used
    return Faces._make((faces.size, *(array[:vertices] for array in faces[1:-1]), faces.factor[:numbers]))


@compiled
def jacobian_product(
    start: int, stop: int, kind: int, states: int, first: Any, corner: Any, faces: Any, marginals: Any,
    gradient: Any, along: Any, answer: Any, turned: Any,
) -> None:  # fmt: skip
    """The symmetric Jacobian of instances start … stop times (gradient (g, b, mn), along (g, b, s, s)).

    `first` and `corner` (b,) say where the vertices and the factor of an instance begin. `along` is the part
    of the transitions of a chain, with states s; for other structures s is 0.
    """
    for r in range(start, stop):
        size = faces.size[r]
        factor, x = np.zeros((size, size)), np.empty(size)
        at = corner[r]
        for i in range(size):
            for j in range(i + 1):
                factor[i, j] = faces.factor[at + j]
            at += i + 1
        ones = faces.ones[first[r] : first[r] + size]
        for g in range(len(gradient)):
            blank = marginals[r, 0] * 0  # NaN where the scores are
            for j in range(answer.shape[2]):
                answer[g, r, j] = blank
            for a in range(states):
                for b in range(states):
                    turned[g, r, a, b] = blank
            for i in range(size):
                v = first[r] + i
                where, value, total = faces.where[v], faces.value[v], 0.0
                for e in range(faces.count[v]):
                    total += value[e] * gradient[g, r, where[e]]
                    if kind == CHAIN and e:
                        total += along[g, r, where[e - 1] % states, where[e] % states]
                x[i] = total
            balanced(factor, ones, size, x)
            for i in range(size):
                v = first[r] + i
                where, value = faces.where[v], faces.value[v]
                for e in range(faces.count[v]):
                    answer[g, r, where[e]] += value[e] * x[i]
                    if kind == CHAIN and e:
                        turned[g, r, where[e - 1] % states, where[e] % states] += x[i]
