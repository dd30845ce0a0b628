"""All vertices of small structures, written out, and the point of their hull nearest to the scores."""

from itertools import pairwise, permutations, product

import numpy as np
from scipy.optimize import minimize


def choices(n):
    return np.eye(n)


def budgets(n, k):
    return np.array([a for a in product((0.0, 1.0), repeat=n) if sum(a) <= k])


def matchings(m, n):
    """(vertices, m, n): every one of the smaller side with one of the larger."""
    if m > n:
        return matchings(n, m).transpose(0, 2, 1)
    found = np.zeros((len(list(permutations(range(n), m))), m, n))
    for k, columns in enumerate(permutations(range(n), m)):
        found[k, range(m), columns] = 1
    return found


def is_projective(head):
    """Whether heads (the root is its own) make a tree; all between a word and its head descend from it."""
    n = len(head)

    def ancestors(i):
        seen = []
        while head[i] != i and head[i] not in seen:
            i = head[i]
            seen.append(i)
        return seen if head[i] == i else None

    above = [ancestors(i) for i in range(n)]
    if sum(head[i] == i for i in range(n)) != 1 or None in above:
        return False
    return all(head[i] in above[k] for i in range(n) for k in range(min(i, head[i]) + 1, max(i, head[i])))


def trees(n):
    """(vertices, n, n): [i, j] = 1 where j is the head of i, [i, i] for the root."""
    heads = [head for head in product(range(n), repeat=n) if is_projective(head)]
    return np.array([np.eye(n)[list(head)] for head in heads])


def paths(n, s, transitions):
    """(vertices, n, s), and the sum of each one's transitions."""
    states = list(product(range(s), repeat=n))
    extra = [sum(transitions[a][b] for a, b in pairwise(z)) for z in states]
    return np.array([np.eye(s)[list(z)] for z in states]), np.array(extra)


def best(vertices, theta, extra=0.0):
    """The highest score of a vertex; a score of −inf cannot be used."""
    flat = vertices.reshape(len(vertices), -1)
    used = np.where(flat != 0, theta.reshape(-1), 0)
    return ((flat * used).sum(-1) + extra).max()


def nearest(vertices, theta, extra=0.0):
    """The point of the hull nearest to θ, by a general solver for min ½‖Ap − θ‖² − bᵀp, p ∈ Δ."""
    flat, t = _usable(vertices, theta)
    extra = extra + np.zeros(len(vertices))

    def value(p):
        return 0.5 * ((p @ flat - t) ** 2).sum() - extra @ p

    def slope(p):
        return flat @ (p @ flat - t) - extra

    found = minimize(
        value,
        np.full(len(flat), 1 / len(flat)),
        jac=slope,
        bounds=[(0, 1)] * len(flat),
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": lambda p: np.ones(len(p))},
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 1000},
    )
    return (found.x @ flat).reshape(vertices.shape[1:])


def residual(vertices, theta, mu, extra=0.0, worth=0.0):
    """The duality gap over all vertices: max (θ − μ)ᵀ(a − μ) + b − Σ pb (`worth`); 0 at the optimum alone.

    It bounds how far off μ can be: ‖μ − μ*‖² is at most that.
    """
    flat, t = _usable(vertices, theta)
    r = t - mu.reshape(-1)
    return float((flat @ r + extra).max() - mu.reshape(-1) @ r - worth)


def _usable(vertices, theta):
    """The vertices (k, d) that use nothing hidden, and θ (d,) with 0 for that."""
    flat, t = vertices.reshape(len(vertices), -1), theta.reshape(-1)
    return flat[~((flat != 0) & (t == -np.inf)).any(-1)], np.where(t == -np.inf, 0, t)
